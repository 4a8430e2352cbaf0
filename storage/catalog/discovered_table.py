"""The table `discovered`: what planning has read of segments, so that it need not read them again.

Nothing depends on it: it may be lost, and what does not parse or has another version is ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.storage.catalog.attempts import RowId
from tierfold.storage.catalog.delta_tables import MEMORY_HOURS, DeltaFolder, TableLayout
from tierfold.storage.catalog.rows import column_of, promised_column, values_of
from tierfold.storage.catalog.schema import (
    DISCOVERED,
    DISCOVERED_VERSION,
    PARTITION_COLUMNS,
    bucket_of,
)
from tierfold.storage.tiers.locations import Location
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

KEPT_MS: Final = MEMORY_HOURS * 3_600_000
"""How long a row counts; then its segment is read again."""

_log: Final = logging.getLogger(__name__)

_UNREADABLE: Final = (TierfoldError, TypeError, ValueError, pa.ArrowException)
_OF_THE_LAYOUT: Final = ("format_version", "bucket")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredSegment:
    """What was read of one segment; the fields are the columns of `schema.DISCOVERED`.

    Its objects are identified by their names, which the first four fields make up, their stored
    sizes, and the time of the newest.
    """

    topic_id: str
    partition: int
    segment_id: str
    start_offset: int
    object_suffixes: tuple[str, ...]
    object_bytes: tuple[int, ...]
    modified_ms: int
    is_named: bool
    whose: str
    segment: Segment
    end_from: str
    checkpoint: tuple[LeaderEpoch, ...]
    index_corruptions: tuple[str, ...]
    has_producers: bool
    producers: tuple[ProducerEntry, ...]
    read_at_ms: int

    @property
    def row_id(self) -> RowId:
        """The topic id and the number of its partition."""
        return self.topic_id, self.partition


class DiscoveredTable:
    """The `discovered` table of the catalog at a path or URI, in a folder or an object store."""

    def __init__(self, place: Location | str, options: StoreOptions = ENVIRONMENT) -> None:
        layout = TableLayout(schema=DISCOVERED, partition_by=PARTITION_COLUMNS)
        self._table = DeltaFolder(f"{str(place).rstrip('/')}/discovered", layout, options=options)

    def read(self, now_ms: int) -> tuple[DiscoveredSegment, ...]:
        """All rows that count at `now_ms`; none if the table cannot be read."""
        try:
            return _parsed(self._table.read(), now_ms, self._table.uri)
        except _UNREADABLE as error:
            _log.debug("What was read of segments is read again: %s", error)
            return ()

    def replace(
        self, partitions: Collection[RowId], rows: Sequence[DiscoveredSegment], now_ms: int
    ) -> bool:
        """Replace all rows of these partitions by `rows`, in one commit; return whether it did.

        It creates the table if there is none. If another run has changed rows beside them, or the
        table cannot be written, nothing is: the segments are then read again.
        """
        buckets = sorted({bucket_of(topic_id) for topic_id, _ in partitions})
        predicate = f"bucket IN ({', '.join(map(str, buckets))})"
        try:
            version = self._table.newest()
            others = _parsed(version.read(predicate), now_ms, self._table.uri)
            stay = [row for row in others if row.row_id not in partitions]
            return version.replace(predicate, _table_of([*stay, *rows]))
        except _UNREADABLE as error:
            _log.debug("What was read of segments was not kept: %s", error)
            return False

    def clean_up(self, *, is_dry_run: bool = False) -> int:
        """Delete the files of rows that were replaced over thirty days ago; return how many.

        Raises TierfoldError.
        """
        return self._table.clean_up(is_dry_run=is_dry_run)


def _table_of(rows: Sequence[DiscoveredSegment]) -> pa.Table:
    of_the_layout: Mapping[str, list[int]] = {
        "format_version": [DISCOVERED_VERSION] * len(rows),
        "bucket": [bucket_of(row.topic_id) for row in rows],
    }
    columns = [
        column_of(
            of_the_layout.get(field.name) or [getattr(row, field.name) for row in rows], field.type
        )
        for field in DISCOVERED
    ]
    return pa.table(columns, DISCOVERED)


def _parsed(found: pa.Table, now_ms: int, where: str) -> tuple[DiscoveredSegment, ...]:
    """The rows of this version that count at `now_ms`; raises CorruptLog and ValueError."""
    names = [name for name in DISCOVERED.names if name not in _OF_THE_LAYOUT]
    versions, *columns = (
        values_of(promised_column(found, DISCOVERED.field(name), where))
        for name in ("format_version", *names)
    )
    rows = (
        DiscoveredSegment(**dict(zip(names, values, strict=True)))
        for version, *values in zip(versions, *columns, strict=True)
        if version == DISCOVERED_VERSION
    )
    return tuple(row for row in rows if 0 <= now_ms - row.read_at_ms <= KEPT_MS)
