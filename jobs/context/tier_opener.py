"""Opens what a worker needs; imports none of the catalog's packages, which workers lack."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierfold.jobs.context.key_files import with_own_paths
from tierfold.storage.tiers.layout_options import LayoutOptions
from tierfold.storage.tiers.locations import Location, open_store
from tierfold.storage.tiers.remote_tier import RemoteTier
from tierfold.storage.tiers.store_options import StoreOptions
from tierfold.storage.tiers.tier_uris import open_tier

if TYPE_CHECKING:
    from tierfold.storage.key_indexes.index_folder import KeyIndexes


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOpener:
    """What a task carries to open the tier: no secrets, only where to find them."""

    tier_uri: str
    store: StoreOptions
    layout: LayoutOptions

    def __call__(self) -> RemoteTier:
        """The tier, with the key files of this machine; raises BadSettings."""
        return open_tier(self.tier_uri, self.store, with_own_paths(self.layout, os.environ))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOpener:
    """What a task of `compact` or `verify` carries: no secrets, only where to find them."""

    tier: TierOpener
    catalog: Location | None
    """The catalog, beside which the key indexes are; None: the run uses no key indexes."""
    catalog_options: StoreOptions

    def key_indexes(self) -> KeyIndexes | None:
        """The key indexes; a folder that this machine lacks counts as empty."""
        if self.catalog is None:
            return None
        # Its kernels would slow the start of verbs that read no segment.
        from tierfold.storage.key_indexes.index_folder import KeyIndexes

        return KeyIndexes(
            open_store(self.catalog, self.catalog_options, follows_links=False)
        )
