"""Finds the files of a table by its path or URI."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.storage.catalog.bucket_files import BucketFiles
from tierfold.storage.catalog.folder_files import FolderFiles
from tierfold.storage.catalog.table_files import TableFiles
from tierfold.storage.tiers.locations import Location, delta_options, location_of, open_store
from tierfold.storage.tiers.store_options import StoreOptions

_MISREAD: Final = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]|^\\]|[\x00-\x1f\x7f]")
"""What delta-rs takes for another character of a path, or cannot open.

Of `a%20b` it would open the neighbour `a b`."""


def table_files(uri: str, options: StoreOptions) -> TableFiles:
    """The files of the table at a path or URI; nothing is made yet.

    Raises BadSettings, also for a path that delta-rs would misread, and UnreadableObject if there
    are no credentials for the store.
    """
    location = location_of(uri, of="catalog")
    if location.is_folder:
        _ensure_read_as_written(location)
        return FolderFiles(location.folder, str(location))
    return BucketFiles(
        str(location), open_store(location, options), partial(delta_options, location, options)
    )


def _ensure_read_as_written(location: Location) -> None:
    if found := _MISREAD.search(location.path):
        raise BadSettings(
            f"the path of a catalog cannot hold {found[0]!r}: the library of its tables would take"
            " it for another path",
            where=f"catalog {str(location.folder.parent)!r}",
            remedy="Rename the folder, or name another one for the catalog (--catalog).",
        )
