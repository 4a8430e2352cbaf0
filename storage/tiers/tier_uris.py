"""Opens a remote tier by its path or URI."""

from __future__ import annotations

from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage, tier_path
from tierfold.storage.tiers.remote_tier import RemoteTier


def open_tier(uri: str) -> RemoteTier:
    """The tier at `uri`: the folder that holds `kafka-tiered-storage`, as a path or `file://` URI.

    Raises BadSettings where there is none.
    """
    return LocalTieredStorage(LocalStore(tier_path(uri)))
