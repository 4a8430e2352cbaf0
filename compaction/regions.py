"""Where a partition is clean, dirty, and held back (SEMANTICS 1; Kafka `LogCleanerManager`).

    log start          first_dirty        first_uncleanable         end
        |    cleaned       |       dirty         |  unstable, waits  |

`first_dirty` may lie inside a segment; `first_uncleanable` never does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from compaction.producers import ProducerEntry
from compaction.units import OffsetSpan
from compaction.view import PartitionView, Refusal, RefusalReason


@dataclass(frozen=True, slots=True, kw_only=True)
class LastStable:
    """The last stable offset as the remote tier shows it (KIP-1272)."""

    offset: int
    """The first offset of the oldest transaction that is still undecided here."""
    producer_id: int | None = None
    """Whose transaction it is; None where only batch heads told the offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regions:
    """The regions of one partition."""

    log_start: int
    first_dirty: int
    first_uncleanable: int
    end: int
    """The first offset beyond the remote range."""
    last_stable: LastStable | None
    """What holds the segments from `first_uncleanable` on back; None: nothing does."""
    reset: str | None = None
    """Why the stored cleaner offset was not believed, a sentence."""
    is_forced: bool = False
    """A person chose `first_dirty`."""

    @property
    def cleaned(self) -> OffsetSpan:
        """Offsets that an earlier round cleaned."""
        return OffsetSpan(start=self.log_start, end=self.first_dirty)

    @property
    def dirty(self) -> OffsetSpan:
        """Offsets that a round may clean now; empty where an open transaction holds all back."""
        end = max(self.first_dirty, self.first_uncleanable)
        return OffsetSpan(start=self.first_dirty, end=end)


def last_stable_of(producers: Sequence[ProducerEntry]) -> LastStable | None:
    """The oldest open transaction in the newest producer snapshot in view; None: none is open.

    The marker that decides it may sit in a segment that only a broker has: undecided all the same.
    """
    opened = [
        (entry.current_txn_first_offset, entry.producer_id)
        for entry in producers
        if entry.current_txn_first_offset is not None
    ]
    if not opened:
        return None
    offset, producer_id = min(opened)
    return LastStable(offset=offset, producer_id=producer_id)


def regions_of(
    view: PartitionView, last_stable: LastStable | None, *, forced_first_dirty: int | None = None
) -> Regions | Refusal:
    """Divide a partition into its regions.

    Args:
        view: the partition.
        last_stable: from `last_stable_of`, or from the batch heads where there is no snapshot.
        forced_first_dirty: `--first-dirty`, instead of the stored cleaner offset; below the log
            start it means the log start, so that 0 cleans all again.
    """
    end = view.next_offset
    if forced_first_dirty is not None and forced_first_dirty > end:
        return Refusal(
            reason=RefusalReason.FIRST_DIRTY_OUT_OF_RANGE,
            detail=f"the first dirty offset {forced_first_dirty} lies above the log's end {end}",
            remedy=f"Choose one between {view.log_start_offset} and {end}.",
        )
    stored, reset = _stored_first_dirty(view)
    is_forced = forced_first_dirty is not None
    holds = last_stable is not None and last_stable.offset < end
    return Regions(
        log_start=view.log_start_offset,
        first_dirty=max(forced_first_dirty, view.log_start_offset)
        if forced_first_dirty is not None
        else stored,
        first_uncleanable=_first_uncleanable(view, last_stable),
        end=end,
        last_stable=last_stable if holds else None,
        reset=None if is_forced else reset,
        is_forced=is_forced,
    )


def _stored_first_dirty(view: PartitionView) -> tuple[int, str | None]:
    """The cleaner offset, or the log start with a sentence why not (Kafka `cleanableOffsets`)."""
    stored = view.cleaner_offset
    if stored is None:
        return view.log_start_offset, None
    if stored < view.log_start_offset:
        place = f"below the log start {view.log_start_offset}"
    elif stored > view.next_offset:
        place = f"above the log end {view.next_offset}"
    else:
        return stored, None
    return view.log_start_offset, (
        f"the stored cleaner offset {stored} lies {place}: the whole log counts as dirty"
    )


def _first_uncleanable(view: PartitionView, last_stable: LastStable | None) -> int:
    """The end of the remote range or the LSO, whichever is lower, down to a segment's start."""
    if not view.segments or last_stable is None or last_stable.offset >= view.next_offset:
        return view.next_offset
    starts = [segment.start_offset for segment in view.segments]
    return starts[max(bisect_right(starts, last_stable.offset) - 1, 0)]
