"""The last step of `vacuum`: deletes catalog files and key indexes that are no longer needed."""

from __future__ import annotations

import logging
from typing import Final

from tierfold.compaction.model.errors import TierfoldError
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import deferred, is_stopping
from tierfold.storage.catalog.discovered_table import DiscoveredTable
from tierfold.storage.catalog.rows import NO_ROWS
from tierfold.storage.catalog.runs_table import RunsTable

_log: Final = logging.getLogger(__name__)


def catalog_cleaned(context: RunContext, *, is_dry_run: bool = False) -> int:
    """Delete catalog files that were superseded thirty days ago; return how many.

    Key indexes of segments that are neither live nor retired are deleted, too, and counted.

    If that fails, a warning is logged; the partitions' reports do not change.
    """
    gone = 0
    with deferred():  # After a signal, the partitions' reports are still to be printed.
        if is_stopping():
            return gone
        try:
            gone = context.catalog.clean_up(is_dry_run=is_dry_run)
            runs = RunsTable(context.catalog_uri, context.catalog_options)
            gone += runs.clean_up(is_dry_run=is_dry_run)
            gone += _indexes_forgotten(context, is_dry_run=is_dry_run)
            discovered = DiscoveredTable(context.catalog_uri, context.catalog_options)
            gone += discovered.clean_up(is_dry_run=is_dry_run)
        except TierfoldError as error:
            _log.warning("The catalog's old files could not be deleted: %s", error)
    return gone


def _indexes_forgotten(context: RunContext, *, is_dry_run: bool) -> int:
    """Delete the key indexes of segments that no row names; raises TierfoldError.

    A run that has not committed yet may need some of them: then segments are read, that is all.
    """
    indexes = context.worker_opener().key_indexes()
    if indexes is None or not context.catalog.exists():
        return 0
    partitions = indexes.partitions()
    rows = context.catalog.look() if partitions else NO_ROWS
    named = {(row.key.topic_id, row.key.partition): row.named_ids for row in rows.states}
    kept = {
        partition: named.get(partition, frozenset())
        for partition in partitions
        if partition not in rows.refused
    }
    return indexes.forget(kept, is_dry_run=is_dry_run)
