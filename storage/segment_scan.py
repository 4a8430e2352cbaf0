"""Reads one segment for the offset map: its keys in packed blocks, its transactions' marks.

Everything is checked on the way (format, CRC, offsets), so what the later stages build on is
believed for a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from compaction.aborted import AbortedTransaction
from compaction.errors import CorruptLog
from compaction.key_blocks import KeyBlock, blocks_of, parts_per_bucket
from compaction.key_columns import KeyColumns, gathered, joined, ordered_by_part
from compaction.transactions import DATA, BatchMarks, aborted_batches, joined_marks
from compaction.winners import own_losers
from storage.batch_heads import BatchHeads, read_heads
from storage.control_records import control_types
from storage.records import Records, decode, windows

WINDOW_BYTES: Final = 64 * 2**20
"""Stored bytes that are decoded at a time; what is decoded is a few times that at most."""

KEYS_MAX: Final = 8_000_000
"""Keys held at a time; a segment with more emits its blocks in stretches of that many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedSegment:
    """What the later stages need to know of a segment."""

    marks: BatchMarks
    own_lost: NDArray[np.bool_]
    """Shape (records,): superseded by a later, competing record of the same segment."""
    blocks: tuple[tuple[int, KeyBlock], ...]
    """(bucket, the keys in it that may still win or lose)."""

    @property
    def records(self) -> int:
        """How many records the segment holds, control records included."""
        return len(self.own_lost)


def checked_heads(log: NDArray[np.uint8], *, where: str) -> BatchHeads:
    """The batch headers of a segment that can be compacted.

    Raises CorruptLog for malformed bytes, an empty log, and legacy batches, which this version
    does not rewrite.
    """
    heads = read_heads(log, where=where)
    if not len(heads):
        raise CorruptLog(
            "the log is empty, 0 bytes",
            where=where,
            remedy="No broker uploads such a segment; restore the object from a backup.",
        )
    if heads.is_legacy.any():
        first = int(np.flatnonzero(heads.is_legacy)[0])
        raise CorruptLog(
            f"the batch at position {heads.position[first]} (offset {heads.last_offset[first]}) "
            f"has magic {heads.magic[first]}; this version does not compact legacy batches",
            where=where,
            remedy="Leave this topic out, or wait for a version that converts magic 0 and 1.",
        )
    return heads


def marks_of(heads: BatchHeads, types: NDArray[np.int16]) -> tuple[BatchMarks, NDArray[np.int64]]:
    """The marks of transactions in `heads`, and the rows of `heads` they come from.

    `types` has shape (batches,), as `control_types` gives it.
    """
    rows = np.flatnonzero(heads.is_transactional | heads.is_control)
    kinds = np.where(heads.is_control[rows], types[rows], DATA).astype(np.int16)
    marks = BatchMarks(
        base_offset=heads.base_offset[rows],
        last_offset=heads.last_offset[rows],
        producer_id=heads.producer_id[rows],
        control_type=kinds,
    )
    return marks, rows


def scan_marks(log: NDArray[np.uint8], *, where: str) -> BatchMarks:
    """Reads a segment above the round: all that counts of it is what its markers decide.

    `log` is uint8, the `.log` object's bytes. Raises CorruptLog.
    """
    heads = checked_heads(log, where=where)
    marks: list[BatchMarks] = []
    for first, last in windows(heads, window_bytes=WINDOW_BYTES):
        window = heads.slice(first, last)
        types = control_types(decode(log, window, where=where), window)
        marks.append(marks_of(window, types)[0])
    return joined_marks(marks)


def scan_segment(
    log: NDArray[np.uint8],
    aborted: Sequence[AbortedTransaction],
    *,
    first_dirty: int,
    buckets: int,
    where: str,
) -> ScannedSegment:
    """Reads a whole segment; records at or above `first_dirty` compete for their keys.

    `log` is uint8, the `.log` object's bytes. Raises CorruptLog.
    """
    heads = checked_heads(log, where=where)
    marks: list[BatchMarks] = []
    pieces: list[KeyColumns] = []
    blocks: list[tuple[int, KeyBlock]] = []
    own_lost = np.zeros(int(heads.count.sum(dtype=np.int64)), np.bool_)
    competes_from, ordinal, held = len(own_lost), 0, 0
    for first, last in windows(heads, window_bytes=WINDOW_BYTES):
        window = heads.slice(first, last)
        records = decode(log, window, where=where)
        window_marks, rows = marks_of(window, control_types(records, window))
        marks.append(window_marks)
        keys = _keys(window, records, aborted_batches(window_marks, aborted), rows, ordinal)
        competing = np.flatnonzero(records.offset >= first_dirty)
        if len(competing):
            competes_from = min(competes_from, ordinal + int(competing[0]))
        pieces.append(keys)
        held += len(keys)
        ordinal += len(records.offset)
        if held >= KEYS_MAX:
            blocks += _blocks(pieces, buckets, competes_from, own_lost)
            pieces, held = [], 0
    blocks += _blocks(pieces, buckets, competes_from, own_lost)
    return ScannedSegment(marks=joined_marks(marks), own_lost=own_lost, blocks=tuple(blocks))


def _keys(
    heads: BatchHeads,
    records: Records,
    aborted: NDArray[np.bool_],
    aborted_rows: NDArray[np.int64],
    first_ordinal: int,
) -> KeyColumns:
    """The keys that take part: no control record, no aborted one, none without a key."""
    takes_part = ~heads.is_control
    takes_part[aborted_rows[aborted]] = False
    chosen = takes_part[records.batch] & (records.key_bytes >= 0)
    return gathered(records.body, records.key_at, records.key_bytes, chosen, first_ordinal)


def _blocks(
    pieces: Sequence[KeyColumns], buckets: int, competes_from: int, own_lost: NDArray[np.bool_]
) -> list[tuple[int, KeyBlock]]:
    """The blocks of these keys; marks their own losers in `own_lost`."""
    ordered, starts = ordered_by_part(joined(pieces), buckets * parts_per_bucket(buckets))
    lost = own_losers(ordered, starts, competes_from)
    own_lost[ordered.ordinal[lost]] = True
    return list(blocks_of(ordered, starts, lost, buckets=buckets, competes_from=competes_from))
