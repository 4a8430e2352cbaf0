"""Applies a query's filters on topic, partition and offset before bytes are read.

Spark passes a list of filters, joined by AND, and applies those that are returned to it. A filter
is taken only if it is applied exactly.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
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
_COMPARISONS: Final[dict[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda own, values: own in values,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}
_EVERYTHING: Final = OffsetSpan(start=0, end=2**63 - 1)
_NOTHING: Final = OffsetSpan(start=0, end=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The partitions and offsets that match the filters."""

    by_partition: tuple[Filter, ...] = ()
    """Filters on the topic and the partition number."""
    span: OffsetSpan = _EVERYTHING
    """The span of wanted offsets."""
    offsets: tuple[int, ...] | None = None
    """The only wanted offsets, ascending; None: the whole span."""

    def holds(self, key: PartitionKey) -> bool:
        """Return whether records of the partition may match."""
        return all(_is_true(filter_, key) for filter_ in self.by_partition)

    def within(self, start: int, end: int) -> OffsetSpan:
        """Return the smallest span of all wanted offsets in `[start, end)`; may be empty."""
        low, high = max(start, self.span.start), min(end, self.span.end)
        if self.offsets is None:
            return OffsetSpan(start=low, end=high)
        inside = [offset for offset in self.offsets if low <= offset < high]
        return OffsetSpan(start=inside[0], end=inside[-1] + 1) if inside else _NOTHING


def pushed(filters: Iterable[Filter]) -> tuple[Wanted, list[Filter]]:
    """Return what the filters match, and the filters that Spark has to apply itself."""
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
            left.append(filter_)  # Records between these offsets are read too.
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
            # A list with NULL is left to Spark: NOT IN then matches nothing.
            return all(type(value) is _NAMES[attribute] for value in values)
        case StringStartsWith() | StringEndsWith() | StringContains():
            return attribute == _TOPIC
        case _:
            is_comparison = type(filter_) in _COMPARISONS
            return is_comparison and type(_value(filter_)) is _NAMES[attribute]


def _attribute(filter_: Filter) -> tuple[str, ...]:
    inner = filter_.child if isinstance(filter_, Not) else filter_
    found: tuple[str, ...] = getattr(inner, "attribute", ())
    return found


def _value(filter_: Filter) -> Any:  # noqa: ANN401 - a column's own type
    return getattr(filter_, "value", None)


def _is_true(filter_: Filter, key: PartitionKey) -> bool:
    """Whether an understood filter is true; these columns are never null."""
    if isinstance(filter_, Not):
        return not _is_true(filter_.child, key)
    if isinstance(filter_, IsNotNull):
        return True
    own = key.topic if _attribute(filter_) == _TOPIC else key.partition
    return _COMPARISONS[type(filter_)](own, _value(filter_))


def _narrowed(span: OffsetSpan, filter_: Filter) -> OffsetSpan:
    """Return the part of the span in which an understood filter on the offset is true."""
    start, end, value = span.start, span.end, _value(filter_)
    match filter_:
        case EqualTo() | EqualNullSafe():
            start, end = value, value + 1
        case GreaterThan():
            start = value + 1
        case GreaterThanOrEqual():
            start = value
        case LessThan():
            end = value
        case LessThanOrEqual():
            end = value + 1
    # IS NOT NULL keeps the span: every record has an offset.
    return OffsetSpan(start=max(span.start, start), end=min(span.end, end))
