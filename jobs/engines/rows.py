"""The rows between driver and stages; each holds a packed block, not a record.

A failure is a row too, so that it stops only its own partition.
"""

from __future__ import annotations

import errno
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from tierfold.compaction.model.errors import TierfoldError, unexpected
from tierfold.compaction.model.refusal_parts import RefusalPart, part_of
from tierfold.storage.tiers.remote_tier import RemoteTier

if TYPE_CHECKING:
    # Its kernels would slow the start of verbs that read no segment.
    from tierfold.storage.key_indexes.index_folder import KeyIndexes


class RowKind(IntEnum):
    """The kind of a row's payload."""

    KEYS = 0
    """A block of keys, see `key_blocks`."""
    OWN_SUPERSEDED = 1
    """A bitmap, one bit per record of the segment: superseded within the segment."""
    SUPERSEDED_ORDINALS = 2
    """uint32 ordinals of records that a record of another segment supersedes."""
    SCANNED = 3
    """A pickled `ScanSummary`: for the driver."""
    FAILED = 4
    """A pickled `RefusalPart`: why this partition stops."""
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
    """A bitmap, one bit per record of the segment: supersedes another record of the segment."""
    SUPERSEDING_ORDINALS = 11
    """uint32 ordinals of records that supersede a record of another segment."""
    SCAN = 12
    """A pickled `ScanTask`: from the driver."""
    REWRITE = 13
    """A pickled `GroupTask`: from the driver."""
    CHECK = 14
    """A pickled `CheckOrder`: from the driver (`verify`)."""
    COMPETING = 15
    """The words of `CompetingKeys` of a dirty segment, or `TOO_MANY`: for the driver."""
    PROBE = 16
    """A pickled `ProbeTask`: from the driver."""
    PROBED = 17
    """A pickled `Probed`: for the driver."""
    OUTLINE = 18
    """A `BatchOutline` of a segment."""
    SUPERSEDED_BITMAP = 19
    """As `SUPERSEDED_ORDINALS`, a bit per record; zero bytes at the end may be missing."""
    SUPERSEDING_BITMAP = 20
    """As `SUPERSEDING_ORDINALS`, a bit per record; zero bytes at the end may be missing."""


OUT_OF_MEMORY: Final = "this process ran out of memory"
USE_SPARK: Final = "Use --engine spark, or choose less with --topic."
DISK_FULL: Final = (
    "no space is left on a disk where this process writes: that of TMPDIR, or of compiled kernels"
    " (NUMBA_CACHE_DIR). Free space, then run again; nothing was committed"
)
REPORT_BUG: Final = "This is a bug; please report it."

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

    @property
    def place(self) -> tuple[int, int]:
        """(partition index, segment index)."""
        return self.partition_index, self.segment_index


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What an engine passes to each of its tasks."""

    tier: RemoteTier
    advance: Callable[[int], None]
    """Counts bytes that are done; may raise, to end the task after a signal."""
    key_indexes: KeyIndexes | None = None
    """None: this machine cannot reach them, or the run uses none."""

    def proceed(self) -> None:
        """Raise if the task should end after a signal; stages call it often."""
        self.advance(0)

    @property
    def from_tier(self) -> Worker:
        """The same, which reads nothing of log directories."""
        return replace(self, tier=self.tier.with_near(None))

    def is_near(self, error: TierfoldError) -> bool:
        """Whether an error is about a file of a log directory: the tier may be sound."""
        return self.tier.near is not None and self.tier.near.is_named_by(error)


class Stage(Protocol):
    """The work of one task: rows in, rows out. It is pickled, so it holds values only."""

    def __call__(self, worker: Worker, rows: Iterable[Row], /) -> Iterator[Row]:
        """Yield the rows that the rows of one task become."""


Found: TypeAlias = tuple[RowKind, int, bytes]
"""Kind, bucket and payload of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentStage(ABC):
    """A stage that reads one segment per row, and routes its results by bucket."""

    first_bucket_task: Mapping[int, int]
    """The next stage's task for a partition's first bucket, by partition index."""

    @abstractmethod
    def found(
        self, worker: Worker, row: Row, task: Any, /  # noqa: ANN401
    ) -> Iterator[Found]:
        """Read the segment of `task`, the row's payload."""

    def __call__(self, worker: Worker, rows: Iterable[Row]) -> Iterator[Row]:
        """Read the segments of one task; a failure becomes a FAILED row and the others go on."""
        for row in rows:
            task = unpickled(row.payload)
            first = self.first_bucket_task[row.partition_index]
            try:
                for kind, bucket, payload in self._found(worker, row, task):
                    yield replace(
                        row, task=first + bucket, bucket=bucket, kind=kind, payload=payload
                    )
            except Exception as error:  # noqa: BLE001 - it fails this segment alone
                reason = failure(error, worker.tier.log_name(task.key, task.segment))
                yield replace(row, task=first, kind=RowKind.FAILED, payload=reason)
            worker.advance(task.segment.size_bytes)

    def _found(self, worker: Worker, row: Row, task: Any) -> Iterable[Found]:  # noqa: ANN401
        """As `found`; if a file of a log directory changes meanwhile, again from the tier."""
        if worker.tier.near is None:
            return self.found(worker, row, task)
        try:
            return [*self.found(worker, row, task)]
        except TierfoldError as error:
            if not worker.is_near(error):
                raise
            return self.found(worker.from_tier, row, task)


def pickled(value: object) -> bytes:
    """Serialize a value that driver and workers exchange.

    Spark itself uses pickle, too: both ends run the same code, and nothing is stored.
    """
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def unpickled(payload: bytes) -> Any:  # noqa: ANN401 - the caller knows the type by the row's kind
    """Return the value that `pickled` serialized."""
    return pickle.loads(payload)  # noqa: S301 - bytes of our own workers, see `pickled`


def failure(error: Exception, where: str) -> bytes:
    """Return the payload of a FAILED row.

    A MemoryError is raised again: it ends the stage, which may succeed with less data at once.
    """
    if isinstance(error, MemoryError):
        raise error
    return pickled(cause_of(error, where))


def sentence_of(error: Exception, where: str) -> str:
    """Return why a partition stops, as `cause_of` does, in one message."""
    return cause_of(error, where).sentence


def cause_of(error: Exception, where: str) -> RefusalPart:
    """Return why a partition stops; an error that is neither tierfold's nor the machine's is a bug.

    A full disk of the tier is a `TierfoldError`; the one named here is another.
    """
    if isinstance(error, TierfoldError):
        return part_of(error)
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return RefusalPart(code=TierfoldError.CODE, detail=DISK_FULL, remedy="")
    what, remedy = unexpected(error), REPORT_BUG
    if isinstance(error, MemoryError):
        what, remedy = OUT_OF_MEMORY, USE_SPARK
    return RefusalPart(code=TierfoldError.CODE, detail=f"{where}: {what}", remedy=remedy)
