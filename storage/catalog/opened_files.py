"""Finds the files of a table by its URI."""

from __future__ import annotations

from tierfold.storage.catalog.folder_files import FolderFiles
from tierfold.storage.catalog.table_files import TableFiles
from tierfold.storage.tiers.local_paths import local_path


def table_files(uri: str) -> TableFiles:
    """The files of the table at a path or URI; raises BadSettings."""
    return FolderFiles(local_path(uri, of="catalog"), uri)
