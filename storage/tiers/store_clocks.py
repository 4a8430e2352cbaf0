"""Asks a store for its own time, which a run compares with the machine's clock.

S3: the `Date` of an answer. Azure and GCS, whose client hides it: the time of a fresh object. A
folder: the time of a fresh file, which a file server sets by its own clock.
"""

from __future__ import annotations

import logging
import os
import tempfile
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tierfold.compaction.model.errors import TierfoldError
from tierfold.storage.tiers.locations import Location, open_store
from tierfold.storage.tiers.object_store import ObjectStore, staged_name
from tierfold.storage.tiers.store_options import StoreOptions

if TYPE_CHECKING:
    from tierfold.storage.tiers.bucket_clients import S3Writer

_log: Final = logging.getLogger(__name__)

_FOLDER: Final = "clock"
"""Where a fresh object is, below the catalog, so that a listing of it finds no others."""


def store_now_ms(tier: Location, catalog: Location, options: StoreOptions) -> int | None:
    """Return the time of the tier's store, in epoch milliseconds; S3 says only the second.

    `catalog`: the catalog's place in the tier, where a file or object appears and is deleted again.
    None: the time cannot be learned, for example because the folder cannot be written.
    """
    try:
        if tier.is_folder:
            return _of_fresh_file(catalog.folder if catalog.folder.is_dir() else tier.folder)
        from tierfold.storage.tiers.bucket_clients import clients_of  # noqa: PLC0415

        s3 = clients_of(tier.scheme, tier.bucket, options).s3
        if s3 is not None:
            return _of_answer(tier, s3)
        return _of_fresh_object(open_store(catalog, options))
    except (OSError, TierfoldError) as error:
        _log.debug("the clock of %s cannot be read: %s", tier, error)
        return None


def _of_fresh_file(folder: Path) -> int:
    """The time of a file that has no name, or is deleted at once."""
    with tempfile.TemporaryFile(prefix=".tierfold-", dir=folder) as fresh:
        return os.fstat(fresh.fileno()).st_mtime_ns // 1_000_000


def _of_answer(tier: Location, s3: S3Writer) -> int | None:
    """The `Date` of a listing of one key, which needs only the right to list."""
    from tierfold.storage.tiers.bucket_clients import counter_of  # noqa: PLC0415
    from tierfold.storage.tiers.s3_objects import S3Requests  # noqa: PLC0415

    requests = S3Requests(s3, str(tier), counter_of(str(tier)))
    prefix = f"{tier.path}/" if tier.path else ""
    answer = requests.try_to("list", "lists", "list_objects_v2", Prefix=prefix, MaxKeys=1)
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        return int(parsedate_to_datetime(date).timestamp() * 1000)
    except ValueError:  # It says none, or does not keep to HTTP.
        return None


def _of_fresh_object(store: ObjectStore) -> int | None:
    key = staged_name(f"{_FOLDER}/now", uuid4().hex)
    store.create(key, b"")
    try:
        times_ms = [entry.modified_ms for entry in store.unfinished(_FOLDER) if entry.key == key]
    finally:
        store.delete(key)
    return max(times_ms, default=None)
