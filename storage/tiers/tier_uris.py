"""Opens a remote tier by its path or URI, in the layout that it has.

What only Aiven's layout needs is imported where such a tier is opened.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.compaction.model.tier_service import TierPlace
from tierfold.storage.tiers.aiven.object_names import ObjectNames
from tierfold.storage.tiers.layout_options import AS_FOUND, Layout, LayoutOptions
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, LocalTieredStorage
from tierfold.storage.tiers.locations import Location, location_of, open_store
from tierfold.storage.tiers.object_store import ObjectStore
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER, RemoteTier
from tierfold.storage.tiers.storage_class_names import allowed
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

_NAMES: Final = ObjectNames("")


def open_tier(
    uri: str,
    options: StoreOptions = ENVIRONMENT,
    layout_options: LayoutOptions = AS_FOUND,
    *,
    may_be_new: bool = False,
) -> RemoteTier:
    """The tier at `uri`, a folder or prefix (see `locations`).

    Raises BadSettings if the text names no location, or a folder without a tier, unless it
    `may_be_new`, and as `with_layout` does. A bucket whose layout is given is not asked here: every
    worker opens the tier, and `RemoteTier.check` asks once per run.
    """
    location = location_of(uri, of="tier")
    layout_options = with_layout(uri, options, layout_options)
    store = _store(location, with_class(location, options, layout_options)).in_classes(())
    if layout_options.layout is Layout.AIVEN:
        from tierfold.storage.tiers.aiven.aiven_tier import AivenTier  # noqa: PLC0415

        return AivenTier(store, layout_options)
    tier = LocalTieredStorage(store)
    if location.is_folder and not may_be_new:
        tier.check()
    return tier


def with_class(
    location: Location, options: StoreOptions, layout_options: LayoutOptions
) -> StoreOptions:
    """The options with the storage class of new objects, if those of store or layout name one.

    Raises BadSettings for a class that the store at the location has not, or archives.
    """
    given = options.storage_class
    if given is None:
        of_brokers = layout_options.storage_class if location.scheme == "s3" else None
        return replace(options, storage_class=of_brokers)
    if instead := allowed(location.scheme, given):
        raise BadSettings(
            f"storage.class cannot be {given!r} there",
            where=str(location),
            remedy=f"Give {instead}.",
        )
    return options


def with_layout(uri: str, options: StoreOptions, layout_options: LayoutOptions) -> LayoutOptions:
    """The options with the layout of the tier at `uri`; the driver asks once, for all workers.

    If no layout is given, the folders in the tier show it. Only Aiven's plugin has the other
    options.

    Raises BadSettings if there are folders of both layouts, and UnreadableObject.
    """
    if layout_options.layout is not None:
        return layout_options
    if layout_options != AS_FOUND:
        return replace(layout_options, layout=Layout.AIVEN)
    location = location_of(uri, of="tier")
    if location.path.rpartition("/")[2] == TIER_FOLDER:
        # Its folders of partitions have names like topics of Aiven's plugin.
        return replace(layout_options, layout=Layout.LOCAL)
    found = tuple(_store(location, options).list_folders(""))
    is_aiven = any(map(_NAMES.topic_of, found))
    if is_aiven and TIER_FOLDER in found:
        raise BadSettings(
            f"it holds {TIER_FOLDER}, and topics of Aiven's tiered storage plugin, too",
            where=str(location),
            remedy="Name the layout of the tier you mean: --layout local or --layout aiven.",
        )
    return replace(layout_options, layout=Layout.AIVEN if is_aiven else Layout.LOCAL)


def catalog_place(tier: Location, layout_options: LayoutOptions) -> Location:
    """Where the catalog of the tier at that location is, unless --catalog names another place.

    The key prefix comes before the name as it does before a topic's, so that clusters that share a
    bucket do not share a catalog.
    """
    return tier.child(f"{layout_options.key_prefix}{CATALOG_FOLDER}")


def tier_place(
    tier: Location, layout_options: LayoutOptions, options: StoreOptions
) -> TierPlace:
    """Where the tier stands, whichever way it is named: what rows and the tier's note have.

    `options`: completed by the environment, so that they name the endpoint. Nothing is read, except
    links on the way to a folder.
    """
    prefix = layout_options.key_prefix
    if tier.is_folder:
        return TierPlace(f"{tier.folder.resolve()}/{prefix}")
    account = options.account if tier.scheme == "az" else None
    endpoint = (options.endpoint or "").lower().rstrip("/")
    return TierPlace(f"{tier}/{prefix}", endpoint=endpoint, account=account or "")


def _store(location: Location, options: StoreOptions) -> ObjectStore:
    """The tier's store.

    Raises BadSettings if it is a folder that is not there, UnreadableObject if one that may not be
    entered.
    """
    try:
        if location.is_folder and not location.folder.is_dir():
            is_file = location.folder.exists()
            raise BadSettings(
                "this is a file, and a tier is a folder" if is_file else "there is no such folder",
                where=str(location),
                remedy="Check the path, and whether the tier's file system is mounted.",
            )
    except OSError as error:
        raise UnreadableObject(
            f"cannot list this folder: {error.strerror}",
            where=str(location),
            remedy="Check the path, and let the user that runs tierfold read the tier.",
        ) from error
    return open_store(location, options)
