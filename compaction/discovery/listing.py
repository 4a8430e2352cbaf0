"""A folder listing of a partition: names and sizes, nothing is opened.

Without a manifest or a metadata topic, the listing is compared with the catalog's row
(SEMANTICS 1, "Discovery"):

    known    the catalog's live segments, complete, of the size in the row
    retired  what a commit replaced: listed until `vacuum` deletes it, never live again
    unknown  no row names it; its objects decide (`compaction.discovery.unknown_segments`)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.model.segments import PartitionState, Segment

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
        """Whether all required parts exist."""
        return not self.missing_parts

    @property
    def has_log(self) -> bool:
        """Whether it may hold records: there is a `.log`, whatever else is missing."""
        return self.part_bytes(LOG_PART) is not None

    @property
    def lacking(self) -> str:
        """The missing parts as a phrase, such as `.index, .snapshot`."""
        return ", ".join(f".{part}" for part in self.missing_parts)

    def __str__(self) -> str:
        return f"segment {self.segment_id} (start {self.start_offset})"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteUpload:
    """What a write that never ended left in the store: not an object, and no row can name it."""

    object_key: str
    """Its key in the store, which is what deletes it."""
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """A listing compared with the catalog; every listed segment is in exactly one of the lists."""

    known: tuple[ListedSegment, ...]
    retired: tuple[ListedSegment, ...]
    unknown: tuple[ListedSegment, ...]
    corruptions: tuple[str, ...]
    """Why the partition is refused, a sentence each naming the segment; empty: it is not."""


def classify(listed: Sequence[ListedSegment], state: PartitionState | None) -> Classified:
    """Sort a partition's listed segments by what the catalog has of them.

    `state` is None where the catalog has no row yet.
    """
    in_order = sorted(listed, key=lambda segment: (segment.start_offset, segment.segment_id))
    live_ids = set() if state is None else {segment.segment_id for segment in state.segments}
    retired_ids = set() if state is None else {entry.segment.segment_id for entry in state.retired}
    known = tuple(segment for segment in in_order if segment.segment_id in live_ids)
    return Classified(
        known=known,
        retired=tuple(segment for segment in in_order if segment.segment_id in retired_ids),
        unknown=tuple(
            segment for segment in in_order if segment.segment_id not in live_ids | retired_ids
        ),
        corruptions=corrupted_parts(
            () if state is None else state.segments, known, kind="live segment"
        ),
    )


def corrupted_parts(
    segments: Iterable[Segment], listed: Iterable[ListedSegment], *, kind: str
) -> tuple[str, ...]:
    """How a listing contradicts the catalog's metadata of segments, a sentence each.

    `kind` is what the segments are called in it, such as "live segment".
    """
    by_id = {segment.segment_id: segment for segment in listed}
    return tuple(
        corruption for segment in segments for corruption in _corruptions(segment, by_id, kind)
    )


def _corruptions(segment: Segment, by_id: dict[str, ListedSegment], kind: str) -> tuple[str, ...]:
    name = f"{kind} {segment.segment_id} (start {segment.own_start_offset})"
    listed = by_id.get(segment.segment_id)
    if listed is None:
        return (f"{name} is gone from the tier",)
    found: list[str] = []
    if listed.start_offset != segment.own_start_offset:
        found.append(f"{name} is listed with start {listed.start_offset}")
    if not listed.is_complete:
        found.append(f"{name} lacks {listed.lacking}")
    log_bytes = listed.part_bytes(LOG_PART)
    if log_bytes is not None and log_bytes != segment.log_bytes:
        found.append(
            f"{name} has a .log of {log_bytes} bytes, the catalog says {segment.log_bytes}"
        )
    if segment.has_transaction_index and listed.part_bytes(TRANSACTION_INDEX_PART) is None:
        found.append(f"{name} lacks the .txnindex that the catalog promises")
    return tuple(found)
