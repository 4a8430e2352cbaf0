"""Compares records that brokers gave with those that the tier has, column by column.

    given   not in live, in a source       dropped and still read: from a broker's own disk
            in none                        a difference, unless it may come from such a disk
    live    not given, or other content    a difference
    source  not given, not in live         dropped and missing: read from the remote side

Records are compared by offset, timestamp, and length and digest of key and value. Headers are not:
what wrote the tier has compared them, and they cost an object each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.units import OffsetSpan
from tierfold.compaction.verification.canary import Difference, Differs
from tierfold.compaction.verification.value_digest import digests

_COLUMNS: Final = 7


class Field(NamedTuple):
    """The keys or the values of some records, as positions in a body."""

    at: NDArray[np.int64]
    size_bytes: NDArray[np.int32]
    """−1: null."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordDigests:
    """Data records, by ascending offset, each offset once."""

    offset: NDArray[np.int64]
    """Shape (records,)."""
    content: NDArray[np.uint64]
    """Shape (records, 7): the timestamp; of key and of value the length and a digest of 128 bits.
    """

    def __len__(self) -> int:
        return len(self.offset)

    def between(self, span: OffsetSpan) -> RecordDigests:
        """Those with offsets of the span."""
        first, last = np.searchsorted(self.offset, [span.start, span.end])
        return RecordDigests(offset=self.offset[first:last], content=self.content[first:last])


NO_RECORDS: Final = RecordDigests(
    offset=np.empty(0, np.int64), content=np.empty((0, _COLUMNS), np.uint64)
)


def digested(
    body: NDArray[np.uint8],
    offset: NDArray[np.int64],
    timestamp_ms: NDArray[np.int64],
    key: Field,
    value: Field,
) -> RecordDigests:
    """The records whose keys and values lie in a body; every array has an entry per record."""
    numbers = (timestamp_ms, key.size_bytes, value.size_bytes)
    columns = [
        *(np.asarray(number, np.int64).view(np.uint64).reshape(-1, 1) for number in numbers),
        *(digests(body, part.at, part.size_bytes) for part in (key, value)),
    ]
    return RecordDigests(offset=offset, content=np.hstack(columns))


def joined_records(parts: Sequence[RecordDigests]) -> RecordDigests:
    """All of them, in this order, which ascends."""
    if not parts:
        return NO_RECORDS
    return RecordDigests(
        offset=np.concatenate([part.offset for part in parts]),
        content=np.concatenate([part.content for part in parts]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCopies:
    """What brokers may have on their own disks that the tier no longer has."""

    gone_before: int = 0
    """The offset below which no broker has local copies any longer."""
    uploads: tuple[OffsetSpan, ...] = ()
    """Offsets of which the tier has what brokers uploaded: there are no other records."""

    def may_have_others(self, offset: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether a broker may have a record at each offset that no segment has any longer."""
        found = offset >= self.gone_before
        for span in self.uploads:
            found &= (offset < span.start) | (offset >= span.end)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the tier has of some offsets, as far as its objects are still there."""

    live: RecordDigests
    """What must be read."""
    sources: tuple[RecordDigests, ...] = ()
    """Of retired segments; what live ones lack of them was dropped."""
    others: tuple[RecordDigests, ...] = ()
    """Of retired segments that may be of another history."""
    local: LocalCopies = field(default_factory=LocalCopies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Nothing differs."""

    records: int = 0
    """How many records were given."""
    missing_dropped: int = 0
    """How many dropped records were not given."""
    read_dropped: int = 0
    """How many dropped records were given all the same."""
    stale_offset: int | None = None
    """The first of these of which no broker can have a local copy; None: there is none."""

    def with_more(self, other: Agreement) -> Agreement:
        """Both together; the other's offsets are higher."""
        is_stale = self.stale_offset is not None
        return Agreement(
            records=self.records + other.records,
            missing_dropped=self.missing_dropped + other.missing_dropped,
            read_dropped=self.read_dropped + other.read_dropped,
            stale_offset=self.stale_offset if is_stale else other.stale_offset,
        )


def compared(
    span: OffsetSpan, given: RecordDigests, expected: Expected
) -> Agreement | Differs:
    """Whether brokers gave what they must of the span; `given` is all that they gave of it."""
    given, live = given.between(span), expected.live.between(span)
    sources = [records.between(span) for records in expected.sources]
    others = [records.between(span) for records in expected.others]
    is_live, is_same = _matches(given, live)
    is_retired = np.zeros(len(given), np.bool_)
    for records in (*sources, *others):
        is_retired |= _matches(given, records)[1]
    is_foreign = ~is_live & ~is_retired & ~expected.local.may_have_others(given.offset)
    differences = (
        (Difference.MISSING, live.offset[~np.isin(live.offset, given.offset)]),
        (Difference.CHANGED, given.offset[is_live & ~is_same]),
        (Difference.FOREIGN, given.offset[is_foreign]),
    )
    firsts = [(int(offsets[0]), what) for what, offsets in differences if len(offsets)]
    if firsts:
        offset, difference = min(firsts)
        return Differs(offset=offset, difference=difference)
    dropped = _without(_offsets(sources), live.offset)
    is_read = np.isin(dropped, given.offset)
    stale = dropped[is_read & (dropped < expected.local.gone_before)]
    return Agreement(
        records=len(given),
        missing_dropped=int(np.count_nonzero(~is_read)),
        read_dropped=int(np.count_nonzero(is_read)),
        stale_offset=int(stale[0]) if len(stale) else None,
    )


def first_dropped(live: RecordDigests, sources: Iterable[RecordDigests]) -> int | None:
    """The first offset that a source has and no live segment; None: there is none."""
    dropped = _without(_offsets(sources), live.offset)
    return int(dropped[0]) if len(dropped) else None


def _offsets(parts: Iterable[RecordDigests]) -> NDArray[np.int64]:
    """The offsets that any of them has, ascending, each once."""
    return np.unique(np.concatenate([NO_RECORDS.offset, *(part.offset for part in parts)]))


def _without(offset: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    return offset[~np.isin(offset, other)]


def _matches(
    given: RecordDigests, records: RecordDigests
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each given record whether the others have its offset, and whether with its content."""
    if not len(records):
        none = np.zeros(len(given), np.bool_)
        return none, none
    at = np.minimum(np.searchsorted(records.offset, given.offset), len(records) - 1)
    has_offset = records.offset[at] == given.offset
    return has_offset, has_offset & (records.content[at] == given.content).all(axis=1)
