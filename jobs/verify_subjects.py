"""What `verify` has to read of each partition: its live segments and, to compare, the originals.

The originals are the segments that brokers wrote, live or retired, from the log start on. While all
of them are still there, they say what the latest value of every key must be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compaction.aborted import AbortedTransaction
from compaction.errors import TierfoldError
from compaction.segments import PartitionKey, Segment
from compaction.strategies import BY_OFFSET
from compaction.transactions import TransactionVerdict
from compaction.view import PartitionView, Refusal, first_break
from jobs.discovery import viewed
from jobs.rounds import BUCKET_BYTES, tasks_for
from jobs.stages.segment_rows import packed
from jobs.survey import KnownPartition
from jobs.wiring import Wiring
from storage.first_sight import read_aborted
from storage.local_tiered_storage import Part
from storage.segment_check import CheckOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A chain of segments that covers the live range."""

    segments: tuple[Segment, ...]
    aborted: tuple[AbortedTransaction, ...]
    """What their transaction indexes list."""

    @property
    def ids(self) -> frozenset[str]:
        """The segments' ids."""
        return frozenset(segment.segment_id for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One partition to verify."""

    key: PartitionKey
    index_interval_bytes: int
    now: Side
    """The live segments."""
    before: Side | None
    """The originals; None: there is nothing to compare with."""
    is_listed_known: bool = True
    """Every live transaction index could be read."""
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def read(self) -> tuple[Segment, ...]:
        """All segments that are read: the live ones, then those of the originals that are not."""
        if self.before is None:
            return self.now.segments
        live = self.now.ids
        return self.now.segments + tuple(
            each for each in self.before.segments if each.segment_id not in live
        )

    @property
    def read_bytes(self) -> int:
        """Bytes of all logs that are read."""
        return sum(segment.size_bytes for segment in self.read)

    @property
    def buckets(self) -> int:
        """Into how many buckets the keys are parted."""
        return max(1, -(-self.read_bytes // BUCKET_BYTES))

    def without_comparison(self, why: str) -> Subject:
        """The same partition, its keys left alone."""
        return replace(self, before=None, notes=(*self.notes, f"not compared: {why}"))


def subject_of(live: Wiring, known: KnownPartition, index_interval_bytes: int) -> Subject:
    """Looks at one partition; what cannot be understood is its fault, and nothing is raised."""
    key = known.key
    empty = Subject(
        key=key,
        index_interval_bytes=index_interval_bytes,
        now=Side(segments=(), aborted=()),
        before=None,
    )
    try:
        view = known.refusal or viewed(live, key, known.state)
    except TierfoldError as error:
        return replace(empty, faults=(str(error),))
    if isinstance(view, Refusal):
        return replace(empty, faults=(view.sentence,))
    breaks = first_break(view.segments)
    subject = replace(
        empty,
        now=Side(segments=view.segments, aborted=()),
        faults=() if breaks is None else (breaks.sentence,),
        notes=view.notes,
    )
    try:
        now = Side(segments=view.segments, aborted=_aborted(live, key, view.segments))
    # The worker that reads the segment tells what is wrong with its index.
    except TierfoldError:
        why = "a live transaction index cannot be read"
        return replace(subject.without_comparison(why), is_listed_known=False)
    return _with_originals(live, replace(subject, now=now), view)


def _with_originals(live: Wiring, subject: Subject, view: PartitionView) -> Subject:
    """The subject with what its keys are to be compared with, or why they are not."""
    if not view.segments:
        return subject.without_comparison("nothing lives")
    if not any(segment.written_by_run for segment in view.segments):
        return subject.without_comparison("nothing was rewritten, what brokers wrote is live")
    originals = _originals(view)
    others = [] if view.state is None else [s for s in view.state.strategies if s != BY_OFFSET]
    if others:
        return subject.without_comparison(
            f"compacted by {', '.join(others)}, and only the highest offset is compared"
        )
    gone = _gone(live, subject.key, originals)
    if gone:
        return subject.without_comparison(f"{gone} of {len(originals)} original segments are gone")
    if not _covers(originals, view):
        return subject.without_comparison("not all originals are there any more")
    try:
        aborted = _aborted(live, subject.key, originals)
    except TierfoldError as error:
        return subject.without_comparison(str(error))
    return replace(subject, before=Side(segments=tuple(originals), aborted=aborted))


def _originals(view: PartitionView) -> list[Segment]:
    """What brokers wrote and nobody deletes, from the log start on, in offset order.

    What expired below it is no part of the log; what is being deleted may go while it is read.
    """
    retired = view.state.whole_retired if view.state is not None else ()
    known = [*view.segments, *(each.segment for each in retired)]
    return sorted(
        (
            segment
            for segment in known
            if not segment.written_by_run and segment.end_offset >= view.log_start_offset
        ),
        key=lambda segment: segment.start_offset,
    )


def _covers(originals: Sequence[Segment], view: PartitionView) -> bool:
    """The originals chain from the first live offset to the last."""
    return (
        bool(originals)
        and originals[0].start_offset == view.segments[0].start_offset
        and originals[-1].end_offset == view.segments[-1].end_offset
        and first_break(originals) is None
    )


def _gone(live: Wiring, key: PartitionKey, segments: Sequence[Segment]) -> int:
    """How many of the segments lack what is needed to read their keys."""
    listed = {each.segment_id: each for each in live.tier.listing(key)}

    def is_there(segment: Segment) -> bool:
        found = listed.get(segment.segment_id)
        needed = [Part.LOG, *([Part.TRANSACTION_INDEX] if segment.has_transaction_index else [])]
        return found is not None and all(found.part_bytes(part) is not None for part in needed)

    return sum(not is_there(segment) for segment in segments)


def _aborted(
    live: Wiring, key: PartitionKey, segments: Sequence[Segment]
) -> tuple[AbortedTransaction, ...]:
    """What the segments' transaction indexes list; raises TierfoldError."""
    return tuple(
        transaction for segment in segments for transaction in read_aborted(live.tier, key, segment)
    )


def believing(side: Side, verdict: TransactionVerdict) -> Side:
    """The side with the transactions that only their ABORT marker tells of."""
    together = sorted(side.aborted + verdict.believed, key=lambda entry: entry.last_offset)
    return replace(side, aborted=tuple(together))


def order_rows(subjects: Sequence[Subject], cores: int) -> tuple[list[dict[str, Any]], int]:
    """Rows of `ORDER_SCHEMA`, one per segment to read, and how many tasks they are dealt to."""
    numbered = [
        (index, subject, i, order)
        for index, subject in enumerate(subjects)
        for i, order in enumerate(_orders(subject))
    ]
    placed, tasks = tasks_for([order.segment.size_bytes for *_, order in numbered], cores)
    first_bucket = [sum(each.buckets for each in subjects[:i]) for i in range(len(subjects))]
    rows = [
        {
            "task": task,
            "partition_index": index,
            "segment_index": i,
            "first_bucket_task": first_bucket[index],
            "payload": packed(order),
        }
        for (index, subject, i, order), task in zip(numbered, placed, strict=True)
    ]
    return rows, tasks


def _orders(subject: Subject) -> Iterator[CheckOrder]:
    """One per segment of `subject.read`, in that order."""
    live = subject.now.ids
    last_id = subject.now.segments[-1].segment_id if subject.now.segments else ""
    for segment in subject.read:
        is_live = segment.segment_id in live
        yield CheckOrder(
            key=subject.key,
            segment=segment,
            is_live=is_live,
            is_last=segment.segment_id == last_id,
            index_interval_bytes=subject.index_interval_bytes,
            buckets=subject.buckets,
            aborted_now=_reaching(subject.now, segment) if is_live and subject.before else None,
            aborted_before=_reaching(subject.before, segment) if subject.before else None,
        )


def _reaching(side: Side, segment: Segment) -> tuple[AbortedTransaction, ...] | None:
    """Those of the side's aborted transactions that reach into the segment, if it is one of it."""
    if segment.segment_id not in side.ids:
        return None
    return tuple(
        each
        for each in side.aborted
        if each.first_offset <= segment.end_offset and each.last_offset >= segment.start_offset
    )
