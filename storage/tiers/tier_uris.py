"""Opens a remote tier by its path or URI, in the layout that it has.

What only Aiven's layout needs is imported where such a tier is opened.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.storage.tiers.aiven.object_names import ObjectNames
from tierfold.storage.tiers.layout_options import AS_FOUND, Layout, LayoutOptions
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.local_tiered_storage import (
    TIER_FOLDER,
    LocalTieredStorage,
    existing_folder,
    tier_path,
)
from tierfold.storage.tiers.locations import Location, location_of, open_store
from tierfold.storage.tiers.object_store import ObjectStore
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER, RemoteTier
from tierfold.storage.tiers.request_counts import RequestCounter
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

_NAMES: Final = ObjectNames("")


def open_tier(
    uri: str, options: StoreOptions = ENVIRONMENT, layout_options: LayoutOptions = AS_FOUND
) -> RemoteTier:
    """The tier at `uri`, a folder or prefix (see `locations`).

    Raises BadSettings if the text names no location, or a folder without a tier, and as
    `with_layout` does. A bucket whose layout is given is not asked here: every worker opens the
    tier, and `RemoteTier.check` asks once per run.
    """
    layout_options = with_layout(uri, options, layout_options)
    if layout_options.layout is Layout.AIVEN:
        from tierfold.storage.tiers.aiven.aiven_tier import AivenTier  # noqa: PLC0415

        return AivenTier(_store(uri, options), layout_options)
    if location_of(uri, of="tier").is_folder:
        return LocalTieredStorage(LocalStore(tier_path(uri)))
    return LocalTieredStorage(_store(uri, options))


def with_layout(
    uri: str,
    options: StoreOptions,
    layout_options: LayoutOptions,
    counter: RequestCounter | None = None,
) -> LayoutOptions:
    """The options with the layout of the tier at `uri`; the driver asks once, for all workers.

    If no layout is given, the folders in the tier tell. Only Aiven's plugin has the other options.
    `counter` gets the requests that this takes.

    Raises BadSettings if there are folders of both layouts, and UnreadableObject.
    """
    if layout_options.layout is not None:
        return layout_options
    if layout_options != AS_FOUND:
        return replace(layout_options, layout=Layout.AIVEN)
    if location_of(uri, of="tier").path.rpartition("/")[2] == TIER_FOLDER:
        # Its folders of partitions have names like topics of Aiven's plugin.
        return replace(layout_options, layout=Layout.LOCAL)
    store = _store(uri, options)
    before = store.requests()
    found = tuple(store.list_folders(""))
    if counter is not None:
        counter.add(**asdict(store.requests() - before))
    is_aiven = any(map(_NAMES.topic_of, found))
    if is_aiven and TIER_FOLDER in found:
        raise BadSettings(
            f"it holds {TIER_FOLDER}, and topics of Aiven's tiered storage plugin, too",
            where=str(location_of(uri, of="tier")),
            remedy="Name the layout of the tier you mean: --layout local or --layout aiven.",
        )
    return replace(layout_options, layout=Layout.AIVEN if is_aiven else Layout.LOCAL)


def catalog_place(tier: Location, layout_options: LayoutOptions) -> Location:
    """Where the catalog of the tier at that location is, unless --catalog names another place.

    The key prefix comes before the name as it does before a topic's, so that clusters that share a
    bucket do not share a catalog.
    """
    return tier.child(f"{layout_options.key_prefix}{CATALOG_FOLDER}")


def _store(uri: str, options: StoreOptions) -> ObjectStore:
    location = location_of(uri, of="tier")
    if location.is_folder:
        return LocalStore(existing_folder(uri))
    return open_store(location, options)
