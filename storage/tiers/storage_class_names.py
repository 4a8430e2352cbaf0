"""The names of storage classes, by scheme, in which objects can be written.

Every new object is read back, so a class that must be restored first is none of them.
Rule: the AWS SDK's enum `StorageClass`, which Aiven's `S3StorageConfig` checks; Azure's `Put Blob`,
`x-ms-access-tier`; Google's storage classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tierfold.compaction.discovery.listing import ARCHIVES
from tierfold.storage.tiers.object_store import ObjectClasses

CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": (
        "STANDARD", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR",
        "REDUCED_REDUNDANCY", "EXPRESS_ONEZONE", "OUTPOSTS", "SNOW", "FSX_OPENZFS", "FSX_ONTAP",
    ),
    "az": ("Hot", "Cool", "Cold"),
    "gs": ("STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"),
}  # fmt: skip


def class_by_suffix(scheme: str, classes: ObjectClasses | None, key: str) -> str:
    """The class of a new object by its suffix; empty: the usual one.

    S3 may show a name in which nothing can be written, such as those of MinIO's tiers, and so may
    Azure; Google's old names can be written.
    """
    found = dict(classes or ()).get(key.rpartition(".")[2], "")
    return "" if scheme in {"s3", "az"} and found not in CLASSES[scheme] else found


def allowed(scheme: str, name: str) -> str:
    """Why objects cannot be written in a class, what to give instead; empty: they can."""
    if name in CLASSES.get(scheme, ()):
        return ""
    names = ", ".join(CLASSES.get(scheme, ()))
    if name in ARCHIVES:
        return f"a class that is read at once, as brokers need it, too: one of {names}"
    return f"one of {names}" if names else "none: a folder has no storage classes"
