"""What it costs that segments are rewritten, where a storage class has fees.

    early deletion   who deletes an object before the minimum storage duration of its class pays for
                     the rest of it; a rewrite makes its sources due for deletion
    retrieval        a fee for each byte that is read

Ages count from when an object was written. If a lifecycle rule moved it to its class later, the
provider counts from then on, and no listing says when that was: then the fee is higher.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from tierfold.compaction.discovery.listing import LOG_PART, ListedSegment
from tierfold.compaction.model.rules import DAY_MS

GIB: Final = 2**30
MONTH_DAYS: Final = 30
"""Providers prorate the monthly price of a class by days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPrice:
    """What a storage class costs."""

    usd_per_gib_month: Fraction
    usd_per_gib_read: Fraction = Fraction(0)
    """The retrieval fee."""
    minimum_days: int = 0
    """The minimum storage duration."""

    def stored(self, size_bytes: int, time_ms: int) -> Fraction:
        """What it costs to keep bytes for a time, US dollars."""
        return self.usd_per_gib_month * size_bytes * time_ms / (GIB * MONTH_DAYS * DAY_MS)


ClassPrices: TypeAlias = Mapping[str, ClassPrice]
"""By the name of a storage class; the empty name: the store's usual class, and unknown ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFees:
    """What it costs to replace one segment now."""

    segment_id: str
    storage_class: str
    """Of its `.log`; empty: the usual one."""
    minimum_days: int
    """Of that class."""
    early_deletion_usd: Fraction
    """If its objects are deleted now."""
    retrieval_usd: Fraction
    """If it is read once."""
    free_at_ms: int
    """From when on its deletion costs nothing."""
    free_usd_per_ms: Fraction
    """What its objects cost that may be deleted now without a fee."""


def fees_of(
    stored: Iterable[ListedSegment], prices: ClassPrices, now_ms: int
) -> tuple[SegmentFees, ...]:
    """The fees of each segment; `stored`: `PartitionView.stored`."""
    return tuple(_fees(one, prices, now_ms) for one in stored)


def _fees(listed: ListedSegment, prices: ClassPrices, now_ms: int) -> SegmentFees:
    classes = dict(listed.classes)
    early, read, free, free_at_ms = Fraction(0), Fraction(0), Fraction(0), now_ms
    for suffix, size_bytes in listed.parts:
        price = prices.get(classes.get(suffix, ""), prices[""])
        read += price.usd_per_gib_read * size_bytes / GIB
        ends_ms = listed.modified_ms + price.minimum_days * DAY_MS
        if ends_ms > now_ms:
            early += price.stored(size_bytes, ends_ms - now_ms)
            free_at_ms = max(free_at_ms, ends_ms)
        else:
            free += price.stored(size_bytes, 1)
    name = classes.get(LOG_PART, "")
    return SegmentFees(
        segment_id=listed.segment_id,
        storage_class=name,
        minimum_days=prices.get(name, prices[""]).minimum_days,
        early_deletion_usd=early,
        retrieval_usd=read,
        free_at_ms=free_at_ms,
        free_usd_per_ms=free,
    )
