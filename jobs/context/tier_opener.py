"""Opens the tier in a worker, where the catalog's packages are missing: it imports none of them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tierfold.jobs.context.key_files import with_own_paths
from tierfold.storage.tiers.layout_options import LayoutOptions
from tierfold.storage.tiers.remote_tier import RemoteTier
from tierfold.storage.tiers.store_options import StoreOptions
from tierfold.storage.tiers.tier_uris import open_tier


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOpener:
    """What a task brings to open the tier: no secrets, only where to find them."""

    tier_uri: str
    store: StoreOptions
    layout: LayoutOptions

    def __call__(self) -> RemoteTier:
        """The tier, with the key files of this machine; raises BadSettings."""
        return open_tier(self.tier_uri, self.store, with_own_paths(self.layout, os.environ))
