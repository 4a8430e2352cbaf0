"""The rows between driver and stages; each holds a packed block, not a record.

A failure is a row too, so that it stops only its own partition.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from tierfold.compaction.model.errors import TierfoldError, unexpected
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage


class RowKind(IntEnum):
    """The kind of a row's payload."""

    KEYS = 0
    """A `KeyBlock`."""
    OWN_SUPERSEDED = 1
    """A bitmap, a bit per record of the segment: superseded within the segment."""
    SUPERSEDED = 2
    """uint32 ordinals of records superseded by another segment's."""
    SCANNED = 3
    """A pickled `ScanSummary`: for the driver."""
    FAILED = 4
    """A pickled sentence: the reason why this partition stops."""
    RECEIPT = 5
    """A pickled `GroupReceipt`: for the driver."""
    CHECKED = 6
    """A pickled `CheckedSegment`: for the driver (`verify`)."""
    LATEST_NOW = 7
    """Packed `LatestValues` of a live segment (`verify`)."""
    LATEST_BEFORE = 8
    """Packed `LatestValues` of a segment that a broker wrote (`verify`)."""
    COMPARED = 9
    """A pickled `KeysCompared`: for the driver (`verify`)."""
    OWN_SUPERSEDING = 10
    """A bitmap, a bit per record of the segment: superseded another record of the segment."""
    SUPERSEDING = 11
    """uint32 ordinals of records that superseded another segment's."""
    SCAN = 12
    """A pickled `ScanTask`: from the driver."""
    REWRITE = 13
    """A pickled `GroupTask`: from the driver."""
    CHECK = 14
    """A pickled `CheckTask`: from the driver (`verify`)."""


FOR_DRIVER = frozenset(
    {RowKind.SCANNED, RowKind.FAILED, RowKind.RECEIPT, RowKind.CHECKED, RowKind.COMPARED}
)
"""The kinds of rows that a stage returns to the driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of any stage."""

    task: int
    """The task of the next stage that takes the row."""
    partition_index: int
    segment_index: int
    kind: RowKind
    payload: bytes
    bucket: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What an engine gives to each of its tasks."""

    tier: LocalTieredStorage
    advance: Callable[[int], None]
    """Counts bytes that are done; may raise, to end the task after a signal."""


class Stage(Protocol):
    """The work of one task: rows in, rows out. It is pickled, so it holds values only."""

    def __call__(self, worker: Worker, rows: Iterable[Row], /) -> Iterator[Row]:
        """Yield the rows that the rows of one task become."""


def pickled(value: object) -> bytes:
    """Serialize a value for the way between driver and workers.

    Pickle, as Spark itself uses: both ends run the same code, and nothing is stored.
    """
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def unpickled(payload: bytes) -> Any:  # noqa: ANN401 - the caller knows by the row's kind
    """Return the value that `pickled` serialized."""
    return pickle.loads(payload)  # noqa: S301 - our own workers' bytes, see `pickled`


def failure(error: Exception, where: str) -> bytes:
    """Return the payload of a FAILED row."""
    return pickled(sentence_of(error, where))


def sentence_of(error: Exception, where: str) -> str:
    """Return why a partition stops; an error that is not ours is a bug."""
    if isinstance(error, TierfoldError):
        return str(error)
    return f"{where}: {unexpected(error)}. This is a bug; please report it."
