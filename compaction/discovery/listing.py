"""A folder listing of a partition, from names and sizes alone.

There is no manifest and no metadata topic, so the listing is compared with the catalog's row
(SEMANTICS 1, "Discovery"). A listed segment is known (live in the row), retired, or unknown. The
objects of an unknown one, a candidate, decide what it is (`compaction.discovery.draft`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tierfold.compaction.model.segments import PartitionState, Segment

LOG_PART: Final = "log"
TRANSACTION_INDEX_PART: Final = "txnindex"
INDEXES_PART: Final = "indexes"
"""The suffix of the one object that holds all indexes, in layouts that have it."""

ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE", "Archive"})
"""Storage classes whose objects must be restored before they can be read: of S3, and Azure's tier.
Those of Google, and GLACIER_IR, are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSegment:
    """A segment as a folder listing shows it."""

    segment_id: str
    start_offset: int
    parts: tuple[tuple[str, int], ...]
    """The suffix of each object, without its dot, and its stored size in bytes; sorted."""
    missing_parts: tuple[str, ...]
    """The suffixes of objects that the layout requires and the listing lacks."""
    modified_ms: int
    """The time at which its newest object was written, epoch milliseconds."""
    classes: tuple[tuple[str, str], ...] = ()
    """The suffix of each object that has not the store's usual storage class, and its class, as
    far as the listing says it; sorted."""

    def part_bytes(self, suffix: str) -> int | None:
        """The object's stored size in bytes; None: it is not listed."""
        return next((size for part, size in self.parts if part == suffix), None)

    @property
    def size_bytes(self) -> int:
        """Bytes of all its objects."""
        return sum(size for _, size in self.parts)

    @property
    def is_complete(self) -> bool:
        """Whether all required objects exist."""
        return not self.missing_parts

    @property
    def has_log(self) -> bool:
        """Whether it may hold records, whatever else is missing."""
        return self.part_bytes(LOG_PART) is not None

    @property
    def lacking(self) -> str:
        """The missing objects as a phrase, such as `.index, .snapshot`."""
        return ", ".join(f".{part}" for part in self.missing_parts)

    def __str__(self) -> str:
        return f"segment {self.segment_id} (start {self.start_offset})"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteUpload:
    """What an unfinished write left in the store: not an object, so no row can name it."""

    object_key: str
    """Its key in the store, by which it is deleted."""
    size_bytes: int
    modified_ms: int
    segment_id: str
    """The segment's id in its name, which says who began it; empty: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """A listing compared with the row; every listed segment is in exactly one of the lists."""

    known: tuple[ListedSegment, ...]
    retired: tuple[ListedSegment, ...]
    unknown: tuple[ListedSegment, ...]
    left_alone: tuple[ListedSegment, ...]
    """Those that a person says to leave alone: never read, never deleted."""
    corruptions: tuple[str, ...]
    """How the listing contradicts the row, a phrase each that names the segment."""


def classify(listed: Sequence[ListedSegment], state: PartitionState | None) -> Classified:
    """Compare a partition's listed segments with its row; None: there is no row yet."""
    live = () if state is None else state.segments
    live_ids = frozenset[str]() if state is None else state.live_ids
    retired_ids = frozenset[str]() if state is None else state.retired_ids
    left_alone_ids = frozenset[str]() if state is None else state.left_alone_ids
    not_unknown = live_ids | retired_ids | left_alone_ids
    in_order = sorted(listed, key=lambda segment: (segment.start_offset, segment.segment_id))
    known = tuple(s for s in in_order if s.segment_id in live_ids)
    return Classified(
        known=known,
        retired=tuple(s for s in in_order if s.segment_id in retired_ids),
        unknown=tuple(s for s in in_order if s.segment_id not in not_unknown),
        left_alone=tuple(s for s in in_order if s.segment_id in left_alone_ids),
        corruptions=corrupted_parts(live, known, kind="live segment"),
    )


def without_expired(classified: Classified, live: Sequence[Segment]) -> Classified:
    """As if only these live segments had to be there: brokers delete what has expired."""
    corruptions = corrupted_parts(live, classified.known, kind="live segment")
    return replace(classified, corruptions=corruptions)


def corrupted_parts(
    segments: Iterable[Segment], listed: Iterable[ListedSegment], *, kind: str
) -> tuple[str, ...]:
    """How a listing contradicts the catalog's metadata of segments, a phrase each.

    `kind` names the segments in it, such as "live segment".
    """
    by_id = {segment.segment_id: segment for segment in listed}
    return tuple(
        f"{kind} {segment.segment_id} (start {segment.own_start_offset}) {corruption}"
        for segment in segments
        for corruption in _corruptions(segment, by_id.get(segment.segment_id))
    )


def _corruptions(segment: Segment, listed: ListedSegment | None) -> Iterator[str]:
    if listed is None:
        yield "is gone from the tier"
        return
    if listed.start_offset != segment.own_start_offset:
        yield f"is listed with start {listed.start_offset}"
    if not listed.is_complete:
        yield f"lacks {listed.lacking}"
    for suffix, size_bytes in stored_sizes(segment).items():
        listed_bytes = listed.part_bytes(suffix)
        if listed_bytes is not None and listed_bytes != size_bytes:
            yield f"has a .{suffix} of {listed_bytes} bytes, the catalog says {size_bytes}"
    has_own_index = segment.has_transaction_index and segment.stored_indexes_bytes is None
    if has_own_index and listed.part_bytes(TRANSACTION_INDEX_PART) is None:
        yield "lacks the .txnindex that the catalog lists"


def stored_sizes(segment: Segment) -> dict[str, int]:
    """By suffix, the size in bytes that the segment's objects must have in a listing.

    Objects that a broker's tools may write again, such as Aiven's manifest, have none.
    """
    stored_bytes = segment.stored_log_bytes
    sizes = {LOG_PART: segment.log_bytes if stored_bytes is None else stored_bytes}
    if segment.stored_indexes_bytes is not None:
        sizes[INDEXES_PART] = segment.stored_indexes_bytes
    return sizes


def with_classes(listed: Iterable[ListedSegment]) -> tuple[ListedSegment, ...]:
    """The listing, if some object in it has not the store's usual storage class; else nothing."""
    found = tuple(listed)
    return found if any(one.classes for one in found) else ()


def keys_are_there(segment: Segment, listed: ListedSegment) -> bool:
    """Whether every object is listed that is needed to read the segment's keys."""
    if segment.stored_indexes_bytes is not None:
        return listed.is_complete
    needed = [LOG_PART, *([TRANSACTION_INDEX_PART] if segment.has_transaction_index else [])]
    return all(listed.part_bytes(suffix) is not None for suffix in needed)
