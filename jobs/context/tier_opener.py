"""Opens what a worker needs; imports none of the catalog's packages, which workers lack."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.context.key_files import with_own_paths
from tierfold.storage.tiers.layout_options import Layout, LayoutOptions
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER
from tierfold.storage.tiers.locations import Location, open_store
from tierfold.storage.tiers.remote_tier import RemoteTier
from tierfold.storage.tiers.store_options import StoreOptions
from tierfold.storage.tiers.tier_uris import open_tier

if TYPE_CHECKING:
    from tierfold.storage.key_indexes.index_folder import KeyIndexes
    from tierfold.storage.log_dirs.near_segments import NearSegments
    from tierfold.storage.tiers.near_reads import NearReadCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOpener:
    """What a task carries to open the tier: no secrets, only where to find them."""

    location: Location
    """An absolute path or a URI: a worker has another working directory."""
    store: StoreOptions
    layout: LayoutOptions

    def __call__(self) -> RemoteTier:
        """The tier, with the key files of this machine; raises BadSettings.

        The driver has opened the tier, so a folder without one is not the driver's.
        """
        layout = with_own_paths(self.layout, os.environ)
        if self.location.is_folder and _lacks_tier(self.location.folder, layout):
            raise BadSettings(
                f"on this worker ({socket.gethostname()}) the folder is missing or holds no tier,"
                " but on the driver it does",
                where=str(self.location),
                remedy="Mount the tier's file system at this path on every machine of the cluster,"
                " or name a bucket, or use --engine local.",
            )
        return open_tier(str(self.location), self.store, layout)


def _lacks_tier(folder: Path, layout: LayoutOptions) -> bool:
    """Whether there is no such folder, or no tier in it: a file system that is not mounted."""
    try:
        if layout.layout is Layout.LOCAL:
            return not (folder / TIER_FOLDER).is_dir()
        return next(folder.iterdir(), None) is None
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # `open_tier` says why it cannot be listed.


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOpener:
    """What a task of `compact` or `verify` carries: no secrets, only where to find them."""

    tier: TierOpener
    catalog: Location | None
    """The catalog, beside which the key indexes are; None: the run uses no key indexes."""
    catalog_options: StoreOptions
    log_dirs: tuple[str, ...] = ()
    """Absolute paths of log directories, which a machine may lack."""

    def near_segments(self, counter: NearReadCounter) -> NearSegments | None:
        """The segments in log directories of this machine; None: the run uses none."""
        if not self.log_dirs:
            return None
        # Its kernels would slow the start of verbs that read no segment.
        from tierfold.storage.log_dirs.near_segments import near_segments

        return near_segments(self.log_dirs, counter)

    def key_indexes(self) -> KeyIndexes | None:
        """The key indexes; a folder that this machine lacks counts as empty."""
        if self.catalog is None:
            return None
        # Its kernels would slow the start of verbs that read no segment.
        from tierfold.storage.key_indexes.index_folder import KeyIndexes

        return KeyIndexes(
            open_store(self.catalog, self.catalog_options, follows_links=False)
        )
