"""What of a query's filters is decided without Spark: by topic, partition and offset.

Spark hands over the parts of a filter that it can express, to be taken as joined by AND; what is
not taken it applies itself, afterwards. A part is taken only where it is applied to the letter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.units import OffsetSpan

_TOPIC: Final = ("topic",)
_OFFSET: Final = ("offset",)
_NAMES: Final[dict[tuple[str, ...], type]] = {_TOPIC: str, ("partition",): int, _OFFSET: int}
_EVERYTHING: Final = OffsetSpan(start=0, end=2**63 - 1)
_NOTHING: Final = OffsetSpan(start=0, end=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the filters leave."""

    by_partition: tuple[Filter, ...] = ()
    """What topic and partition number must fulfil."""
    span: OffsetSpan = _EVERYTHING
    """Where wanted offsets lie."""
    offsets: tuple[int, ...] | None = None
    """The only ones that are wanted, ascending; None: all of the span."""

    def holds(self, key: PartitionKey) -> bool:
        """Whether records of the partition may be wanted."""
        return all(_is_true(each, key) for each in self.by_partition)

    def within(self, start: int, end: int) -> OffsetSpan:
        """The smallest span of all wanted offsets in `[start, end)`; may be empty."""
        low, high = max(start, self.span.start), min(end, self.span.end)
        if self.offsets is None:
            return OffsetSpan(start=low, end=high)
        inside = [offset for offset in self.offsets if low <= offset < high]
        return OffsetSpan(start=inside[0], end=inside[-1] + 1) if inside else _NOTHING


def pushed(filters: Iterable[Filter]) -> tuple[Wanted, list[Filter]]:
    """What the filters leave, and those of them that Spark has to apply itself."""
    wanted, left = Wanted(), []
    for filter_ in filters:
        if not _is_understood(filter_):
            left.append(filter_)
            continue
        if _attribute(filter_) != _OFFSET:
            wanted = replace(wanted, by_partition=(*wanted.by_partition, filter_))
        elif isinstance(filter_, In):
            offsets = set(filter_.value)
            if wanted.offsets is not None:
                offsets &= set(wanted.offsets)
            wanted = replace(wanted, offsets=tuple(sorted(offsets)))
            left.append(filter_)  # What lies between them in a segment is read too.
        else:
            wanted = replace(wanted, span=_narrowed(wanted.span, filter_))
    return wanted, left


def _is_understood(filter_: Filter) -> bool:
    attribute = _attribute(filter_)
    if attribute not in _NAMES:
        return False
    match filter_:
        case Not(child=child):
            return attribute != _OFFSET and not isinstance(child, Not) and _is_understood(child)
        case IsNotNull():
            return True
        case In(value=values):
            # NULL among them makes NOT IN true of nothing: Spark's business.
            return all(type(value) is _NAMES[attribute] for value in values)
        case (
            EqualTo(value=value)
            | EqualNullSafe(value=value)
            | GreaterThan(value=value)
            | GreaterThanOrEqual(value=value)
            | LessThan(value=value)
            | LessThanOrEqual(value=value)
        ):
            return type(value) is _NAMES[attribute]
        case StringStartsWith() | StringEndsWith() | StringContains():
            return attribute == _TOPIC
        case _:
            return False


def _attribute(filter_: Filter) -> tuple[str, ...]:
    inner = filter_.child if isinstance(filter_, Not) else filter_
    found: tuple[str, ...] = getattr(inner, "attribute", ())
    return found


def _is_true(filter_: Filter, key: PartitionKey) -> bool:
    """Of filters that are understood: no null is in play, so each is true or false."""
    own: Any = key.topic if _attribute(filter_) == _TOPIC else key.partition
    match filter_:
        case Not(child=child):
            return not _is_true(child, key)
        case EqualTo(value=value) | EqualNullSafe(value=value):
            return bool(own == value)
        case GreaterThan(value=value):
            return bool(own > value)
        case GreaterThanOrEqual(value=value):
            return bool(own >= value)
        case LessThan(value=value):
            return bool(own < value)
        case LessThanOrEqual(value=value):
            return bool(own <= value)
        case In(value=values):
            return own in values
        case StringStartsWith(value=value):
            return key.topic.startswith(value)
        case StringEndsWith(value=value):
            return key.topic.endswith(value)
        case StringContains(value=value):
            return value in key.topic
        case _:
            return True  # IS NOT NULL: a topic and its partition always have a name.


def _narrowed(span: OffsetSpan, filter_: Filter) -> OffsetSpan:
    match filter_:
        case EqualTo(value=value) | EqualNullSafe(value=value):
            start, end = value, value + 1
        case GreaterThan(value=value):
            start, end = value + 1, span.end
        case GreaterThanOrEqual(value=value):
            start, end = value, span.end
        case LessThan(value=value):
            start, end = span.start, value
        case LessThanOrEqual(value=value):
            start, end = span.start, value + 1
        case _:
            return span  # IS NOT NULL: every record has an offset.
    return OffsetSpan(start=max(span.start, start), end=min(span.end, end))
