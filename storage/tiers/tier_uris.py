"""Opens a remote tier by its path or URI."""

from __future__ import annotations

from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage, tier_path
from tierfold.storage.tiers.locations import location_of, open_store
from tierfold.storage.tiers.remote_tier import RemoteTier
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions


def open_tier(uri: str, options: StoreOptions = ENVIRONMENT) -> RemoteTier:
    """The tier at `uri`: a folder or prefix that holds `kafka-tiered-storage` (see `locations`).

    Raises BadSettings if the text names no location, or a folder without a tier. A bucket is not
    asked here: every worker opens the tier, and `RemoteTier.check` asks once per run.
    """
    location = location_of(uri, of="tier")
    if location.is_folder:
        return LocalTieredStorage(LocalStore(tier_path(uri)))
    return LocalTieredStorage(open_store(location, options))
