"""Finds the files of a table by its path or URI."""

from __future__ import annotations

from functools import partial

from tierfold.storage.catalog.bucket_files import BucketFiles
from tierfold.storage.catalog.folder_files import FolderFiles
from tierfold.storage.catalog.table_files import TableFiles
from tierfold.storage.tiers.locations import delta_options, location_of, open_store
from tierfold.storage.tiers.store_options import StoreOptions


def table_files(uri: str, options: StoreOptions) -> TableFiles:
    """The files of the table at a path or URI.

    Raises BadSettings, and UnreadableObject if there are no credentials for the store.
    """
    location = location_of(uri, of="catalog")
    if location.is_folder:
        return FolderFiles(location.folder, uri)
    return BucketFiles(
        str(location), open_store(location, options), partial(delta_options, location, options)
    )
