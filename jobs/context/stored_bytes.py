"""What the partitions in scope take in the tier when a run begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

from tierfold.storage.tiers.remote_tier import Listing


class StoredBytes:
    """The bytes of all objects of the partitions in scope, by the listings of the survey."""

    def __init__(self) -> None:
        self.before: int | None = None
        """None: they were not listed, or not all of them could be."""
        self._by_class: Counter[str] = Counter()

    def listed(self, listings: Iterable[Listing | Exception]) -> None:
        """Sum up the listings of all partitions in scope."""
        total = 0
        self._by_class.clear()
        for listing in listings:
            if isinstance(listing, Exception):
                self._by_class.clear()
                return
            total += sum(segment.size_bytes for segment in listing)
            for segment in listing:
                for suffix, storage_class in segment.classes:
                    self._by_class[storage_class] += segment.part_bytes(suffix) or 0
        if usual := total - self._by_class.total():
            self._by_class[""] = usual
        self.before = total

    @property
    def shares(self) -> Mapping[str, Fraction]:
        """By storage class, its share of the bytes; all are of the usual one if none were listed.

        Requests are not counted by class: they are priced as if they were spread like the bytes.
        """
        total = self._by_class.total()
        if not total:
            return {"": Fraction(1)}
        return {name: Fraction(size, total) for name, size in self._by_class.items()}
