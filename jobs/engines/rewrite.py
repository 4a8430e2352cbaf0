"""Stage 6: one task rewrites each group of segments and returns a receipt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.batch_outline import deserialize_outline
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING
from tierfold.compaction.cleaning.rounds import GroupTask
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import Segment
from tierfold.jobs.engines.rows import Row, RowKind, Worker, failure, pickled, unpickled
from tierfold.storage.clock import elapsed_s
from tierfold.storage.segments.group_rewrite import rewrite_group

FoundRows: TypeAlias = dict[tuple[int, int], list[Row]]
"""(partition index, segment index) → the rows of `FOR_REWRITE` about the segment."""

_BIT_OF: Final = {
    RowKind.OWN_SUPERSEDED: SUPERSEDED,
    RowKind.SUPERSEDED_BITMAP: SUPERSEDED,
    RowKind.SUPERSEDED_ORDINALS: SUPERSEDED,
    RowKind.OWN_SUPERSEDING: SUPERSEDING,
    RowKind.SUPERSEDING_BITMAP: SUPERSEDING,
    RowKind.SUPERSEDING_ORDINALS: SUPERSEDING,
}
"""The bit of `offset_map` that each kind of row sets."""

FOR_REWRITE: Final = frozenset({*_BIT_OF, RowKind.OUTLINE})
"""The kinds of rows of earlier stages that the rewrite needs."""

_OWN: Final = frozenset({RowKind.OWN_SUPERSEDED, RowKind.OWN_SUPERSEDING})
_ORDINALS: Final = frozenset({RowKind.SUPERSEDED_ORDINALS, RowKind.SUPERSEDING_ORDINALS})


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStage:
    """Rows of the groups' segments → the same rows, for other tasks."""

    task_of: Mapping[tuple[int, int], int]
    """(partition index, segment index) → task; rows of other segments are dropped."""

    def __call__(self, _: Worker, rows: Iterable[Row]) -> Iterator[Row]:
        """Move the rows of one task."""
        for row in rows:
            task = self.task_of.get(row.place)
            if task is not None:
                yield replace(row, task=task)


@dataclass(frozen=True, slots=True)
class RewriteStage:
    """REWRITE rows and the rows of `FOR_REWRITE` → a RECEIPT or FAILED row per group."""

    def __call__(self, worker: Worker, rows: Iterable[Row]) -> Iterator[Row]:
        """Rewrite the groups of one task."""
        found: FoundRows = defaultdict(list)
        ordered: list[Row] = []
        for row in rows:
            if row.kind is RowKind.REWRITE:
                ordered.append(row)
            else:
                found[row.place].append(row)
        for order in ordered:
            task: GroupTask = unpickled(order.payload)
            yield _rewritten(worker, order, task, found)
            worker.advance(task.group.size_bytes)


def _rewritten(worker: Worker, order: Row, task: GroupTask, found: FoundRows) -> Row:
    """Return the receipt of one group, or the reason why its partition stops."""
    place_of = {
        segment.segment_id: place
        for segment, place in zip(task.group.segments, task.places, strict=True)
    }

    unscanned, began_s = dict(task.unscanned), elapsed_s()

    def bits(segment: Segment) -> NDArray[np.uint8]:
        if segment.segment_id in unscanned:
            return np.zeros(unscanned[segment.segment_id], np.uint8)
        return record_bits(found[place_of[segment.segment_id]])

    try:
        kind = RowKind.RECEIPT
        outlines = {
            name: deserialize_outline(row.payload)
            for name, place in place_of.items()
            for row in found[place]
            if row.kind is RowKind.OUTLINE
        }
        try:
            receipt = rewrite_group(
                worker.tier, task, bits, outlines, worker.key_indexes, worker.proceed
            )
        except TierfoldError as error:
            if not worker.is_near(error):
                raise
            tier = worker.from_tier.tier  # A file of a log directory changed meanwhile.
            receipt = rewrite_group(
                tier, task, bits, outlines, worker.key_indexes, worker.proceed
            )
        payload = pickled(replace(receipt, task_ms=round(1000 * (elapsed_s() - began_s))))
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        kind = RowKind.FAILED
        payload = failure(error, f"{task.key}, group {task.group_index}")
    return replace(order, kind=kind, payload=payload)


def record_bits(rows: Sequence[Row]) -> NDArray[np.uint8]:
    """The superseded and superseding bits of a segment's records, then up to seven zeros.

    Raises IndexError for a record beyond the scan's own bitmaps.
    """
    own = [row.payload for row in rows if row.kind in _OWN]
    bits = np.zeros(8 * max(map(len, own), default=0), np.uint8)
    for row in rows:
        if row.kind in _ORDINALS:
            bits[np.frombuffer(row.payload, np.uint32)] |= _BIT_OF[row.kind]
        elif row.kind in _BIT_OF:
            is_set = np.unpackbits(np.frombuffer(row.payload, np.uint8))
            if len(is_set) > len(bits):
                raise IndexError(f"a bitmap of {len(is_set)} records, where {len(bits)} are known")
            bits[: len(is_set)] |= is_set * _BIT_OF[row.kind]
    return bits
