"""What a folder listing says about a partition: names and sizes, nothing opened.

Where neither a manifest nor a metadata topic says what lives, the listing is held against the
catalog's row (SEMANTICS 1, "Discovery"):

    known    the catalog's live segments, all there, of the size it remembers
    new      unknown, complete, at or above the first offset beyond the live range
    orphans  unknown, below that offset: never live, `retain` collects them
    retired  what a commit replaced: listed until `retain` takes it, never live again
    partial  beyond the live range, a required part is missing: an upload in progress
    waiting  complete, but behind a partial segment or a gap: taken once that is closed
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from compaction.segments import PartitionState, Segment

REQUIRED_PARTS: Final = ("log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint")
"""Every remote segment has these (Kafka `LogSegmentData`); only the `.txnindex` is optional."""

LOG_PART: Final = "log"
TRANSACTION_INDEX_PART: Final = "txnindex"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSegment:
    """A segment as a folder listing shows it."""

    segment_id: str
    start_offset: int
    parts: tuple[tuple[str, int], ...]
    """Part suffix without its dot, and that object's size in bytes; sorted."""
    modified_ms: int
    """When the newest of its objects was written, epoch milliseconds."""

    def part_bytes(self, suffix: str) -> int | None:
        """The part's size in bytes; None: the listing has no such part."""
        return next((size for part, size in self.parts if part == suffix), None)

    @property
    def size_bytes(self) -> int:
        """Bytes of all its objects."""
        return sum(size for _, size in self.parts)

    @property
    def missing_parts(self) -> tuple[str, ...]:
        """The required parts that the listing lacks, in `REQUIRED_PARTS` order."""
        listed = {part for part, _ in self.parts}
        return tuple(part for part in REQUIRED_PARTS if part not in listed)

    @property
    def is_complete(self) -> bool:
        """All required parts exist."""
        return not self.missing_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What a write that never ended left: no object, and no name that a row could hold."""

    object_key: str
    """Its key in the store, which is what deletes it."""
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """A listing held against the catalog; every listed segment is in exactly one of the lists."""

    known: tuple[ListedSegment, ...]
    new: tuple[ListedSegment, ...]
    orphans: tuple[ListedSegment, ...]
    retired: tuple[ListedSegment, ...]
    partial: tuple[ListedSegment, ...]
    waiting: tuple[ListedSegment, ...]
    notes: tuple[str, ...]
    """Why something is not taken, a sentence each; the partition is worked on all the same."""
    problems: tuple[str, ...]
    """Why the partition is refused, a sentence each naming the segment; empty: it is not."""


def classify(listed: Sequence[ListedSegment], state: PartitionState | None) -> Classified:
    """Sort a partition's listed segments by what the catalog knows of them.

    `state` is None where the catalog has no row yet (first sight). What only a segment's bytes
    tell, its end offset and leader epochs, is judged by `compaction.view`.
    """
    in_order = sorted(listed, key=lambda each: (each.start_offset, each.segment_id))
    if state is None:
        return _first_sight(in_order)
    live = {segment.segment_id: segment for segment in state.segments}
    retired_ids = {retired.segment.segment_id for retired in state.retired}
    known = tuple(each for each in in_order if each.segment_id in live)
    retired = tuple(each for each in in_order if each.segment_id in retired_ids)
    unknown = [each for each in in_order if each.segment_id not in live.keys() | retired_ids]
    beyond = [each for each in unknown if each.start_offset >= state.next_offset]
    stop = _taken_below(beyond, state.next_offset)
    new = tuple(each for each in beyond if each.is_complete and _is_below(each, stop))
    orphans = tuple(each for each in unknown if each.start_offset < state.next_offset)
    return Classified(
        known=known,
        new=new,
        orphans=orphans,
        retired=retired,
        partial=tuple(each for each in beyond if not each.is_complete),
        waiting=tuple(each for each in beyond if each.is_complete and not _is_below(each, stop)),
        notes=_notes(beyond, state.next_offset) + _strange_orphans(orphans, state),
        problems=damages(state.segments, known, kind="live segment"),
    )


def _first_sight(in_order: Sequence[ListedSegment]) -> Classified:
    """Without a row nothing says which of two claims is right: a partial segment refuses all."""
    partial = tuple(each for each in in_order if not each.is_complete)
    return Classified(
        known=(),
        new=tuple(each for each in in_order if each.is_complete),
        orphans=(),
        retired=(),
        partial=partial,
        waiting=(),
        notes=(),
        problems=tuple(f"{_named(each)} lacks {_list(each.missing_parts)}" for each in partial),
    )


def _taken_below(beyond: Sequence[ListedSegment], next_offset: int) -> int | None:
    """The start offset from which on nothing is taken; None: no such limit.

    Uploads go in offset order, so what lies behind an unfinished one waits with it. Where a
    finished segment has the same start, the unfinished one is a dead attempt: a broker that
    failed uploads again under a new id.
    """
    complete_starts = {each.start_offset for each in beyond if each.is_complete}
    if beyond and beyond[0].start_offset > next_offset:
        return next_offset
    unfinished = (each.start_offset for each in beyond if not each.is_complete)
    return min((start for start in unfinished if start not in complete_starts), default=None)


def _is_below(each: ListedSegment, stop: int | None) -> bool:
    return stop is None or each.start_offset < stop


def _notes(beyond: Sequence[ListedSegment], next_offset: int) -> tuple[str, ...]:
    notes: list[str] = []
    if beyond and beyond[0].start_offset > next_offset:
        notes.append(
            f"nothing is taken yet beyond offset {next_offset - 1}: the next listed is"
            f" {_named(beyond[0])}, which leaves a gap"
        )
    complete_starts = {each.start_offset for each in beyond if each.is_complete}
    for each in beyond:
        if each.is_complete:
            continue
        waits = (
            "its upload failed and was made again"
            if each.start_offset in complete_starts
            else "not taken, nor what lies behind it, until its upload is complete"
        )
        notes.append(f"{_named(each)} lacks {_list(each.missing_parts)}: {waits}")
    return tuple(notes)


def _strange_orphans(
    orphans: Sequence[ListedSegment], state: PartitionState
) -> tuple[str, ...]:
    """Those that no attempt of ours left: a replacement starts where its first original did.

    A broker's dead attempt starts where its second one does. What begins elsewhere inside the live
    range hints that the segment around it ends earlier than the catalog says.
    """
    if not state.segments:
        return ()
    known = (*state.segments, *(each.segment for each in state.retired))
    starts = {segment.start_offset for segment in known}
    first = state.segments[0].start_offset
    return tuple(
        f"{_named(each)} begins inside the live range and no run of ours wrote it: it is not read;"
        " check the end offset of the segment that covers it"
        for each in orphans
        if each.start_offset > first and each.start_offset not in starts
    )


def damages(
    segments: Iterable[Segment], listed: Iterable[ListedSegment], *, kind: str
) -> tuple[str, ...]:
    """How a listing contradicts what the catalog remembers of segments, a sentence each.

    `kind` is what the segments are called in it, such as "live segment".
    """
    by_id = {each.segment_id: each for each in listed}
    return tuple(problem for segment in segments for problem in _damages(segment, by_id, kind))


def _damages(segment: Segment, by_id: dict[str, ListedSegment], kind: str) -> tuple[str, ...]:
    name = f"{kind} {segment.segment_id} (start {segment.start_offset})"
    each = by_id.get(segment.segment_id)
    if each is None:
        return (f"{name} is gone from the tier",)
    found: list[str] = []
    if each.start_offset != segment.start_offset:
        found.append(f"{name} is listed with start {each.start_offset}")
    if not each.is_complete:
        found.append(f"{name} lacks {_list(each.missing_parts)}")
    log_bytes = each.part_bytes(LOG_PART)
    if log_bytes is not None and log_bytes != segment.size_bytes:
        found.append(
            f"{name} has a .log of {log_bytes} bytes, the catalog says {segment.size_bytes}"
        )
    if segment.has_transaction_index and each.part_bytes(TRANSACTION_INDEX_PART) is None:
        found.append(f"{name} lacks the .txnindex that the catalog promises")
    return tuple(found)


def _named(each: ListedSegment) -> str:
    return f"segment {each.segment_id} (start {each.start_offset})"


def _list(parts: Iterable[str]) -> str:
    return ", ".join(f".{part}" for part in parts)
