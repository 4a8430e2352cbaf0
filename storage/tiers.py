"""Opens a remote tier by its path or URI."""

from __future__ import annotations

import shutil

from compaction.errors import UnreadableObject
from storage.local_store import LocalStore
from storage.local_tiered_storage import LocalTieredStorage, tier_path


def open_tier(uri: str) -> LocalTieredStorage:
    """The tier at `uri`: the folder that holds `kafka-tiered-storage`, as a path or `file://` URI.

    Raises BadSettings where there is none.
    """
    return LocalTieredStorage(LocalStore(tier_path(uri)))


def free_bytes(uri: str) -> int:
    """What the tier's file system has left for this user.

    Raises BadSettings where there is no tier, UnreadableObject where nobody can tell.
    """
    path = tier_path(uri)
    try:
        return shutil.disk_usage(path).free
    except OSError as error:
        raise UnreadableObject(
            f"cannot tell how much space is free: {error.strerror}",
            where=str(path),
            remedy="Check whether the tier's file system is mounted.",
        ) from error
