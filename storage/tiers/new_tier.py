"""Begins a tier where there is none, for the first upload of a log directory.

Only in an empty place: a wrong path must not become a second tier.
"""

from __future__ import annotations

from pathlib import Path

from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.layout_options import Layout, LayoutOptions
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER
from tierfold.storage.tiers.object_store import ObjectStore
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER


def is_empty_place(store: ObjectStore) -> bool:
    """Whether nothing is there, so that a tier may begin; raises UnreadableObject."""
    return not any(True for _ in store.list_folders("")) and not any(
        True for _ in store.list("")
    )


def begin_tier(store: ObjectStore, layout: LayoutOptions) -> None:
    """Make an empty folder a tier.

    A bucket has no empty folders: there the first claim begins it. Raises UnreadableObject.
    """
    if not store.keeps_empty_folders:
        return
    is_aiven = layout.layout is Layout.AIVEN
    folder = Path(
        store.uri(f"{layout.key_prefix}{CATALOG_FOLDER}" if is_aiven else TIER_FOLDER)
    )
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UnreadableObject(
            f"the tier cannot be begun: {error.strerror}",
            where=str(folder),
            remedy="Name an empty folder that this user may write to.",
        ) from error
