"""Where the properties of Aiven's plugin say that brokers write to.

Rule: Aiven's plugin, the configurations of its storage backends, below `storage.`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tierfold.compaction.model.tier_service import TierPlace

_BUCKETS: Final = (
    ("s3", "storage.s3.bucket.name", "storage.s3.endpoint.url"),
    ("gs", "storage.gcs.bucket.name", "storage.gcs.endpoint.url"),
    ("az", "storage.azure.container.name", "storage.azure.endpoint.url"),
)
"""Scheme, and the properties with the bucket and the endpoint."""

_ROOT: Final = "storage.root"
_ACCOUNT: Final = "storage.azure.account.name"


_USER: Final = re.compile(r"(?<=//)[^/]*@")
"""In a URL; it may have a password."""


def place_of_brokers(values: Mapping[str, str], key_prefix: str) -> TierPlace | None:
    """The place that the properties name; None: they name none that tierfold knows.

    A value that only brokers can resolve counts as not given. A folder of another machine is
    compared by its path; links are followed on this machine.
    """

    def value(name: str) -> str:
        text = values.get(name, "").strip()
        return "" if "${" in text else text

    root = value(_ROOT)
    if Path(root).is_absolute():
        return TierPlace(f"{Path(root).resolve()}/{key_prefix}")
    for scheme, bucket, endpoint in _BUCKETS:
        if value(bucket):
            return TierPlace(
                f"{scheme}://{value(bucket)}/{key_prefix}",
                endpoint=_USER.sub("", value(endpoint)),
                account=value(_ACCOUNT) if scheme == "az" else "",
            )
    return None
