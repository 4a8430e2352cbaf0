"""The access tiers of all blobs of a container on Azurite."""

from __future__ import annotations

import base64
import email.utils
import hmac
import re
import urllib.request

from tests.storage.emulators import AZURE_ACCOUNT, AZURE_KEY
from tierfold.storage.tiers.bucket_store import BucketStore


def azure_tiers(store: BucketStore) -> dict[str, str]:
    """By name, the tier of each blob: a request signed with the account's key."""
    date = email.utils.formatdate(usegmt=True)
    lines = [
        "GET", *[""] * 11, f"x-ms-date:{date}", "x-ms-version:2021-08-06",
        f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{store.bucket}", "comp:list", "restype:container",
    ]  # fmt: skip
    digest = hmac.digest(base64.b64decode(AZURE_KEY), "\n".join(lines).encode(), "sha256")
    request = urllib.request.Request(
        f"{store.options.endpoint}/{store.bucket}?restype=container&comp=list",
        headers={
            "Authorization": f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}",
            "x-ms-date": date,
            "x-ms-version": "2021-08-06",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        page = answer.read().decode()
    found = re.findall(r"<Name>[^<]*?([^/<]+)</Name>.*?<AccessTier>(\w+)</AccessTier>", page)
    return dict(found)
