"""What the partitions in scope take in the tier when a run begins."""

from __future__ import annotations

from collections.abc import Iterable

from tierfold.storage.tiers.remote_tier import Listing


class StoredBytes:
    """The bytes of all objects of the partitions in scope, by the listings of the survey."""

    def __init__(self) -> None:
        self.before: int | None = None
        """None: they were not listed, or not all of them could be."""

    def listed(self, listings: Iterable[Listing | Exception]) -> None:
        """Sum up the listings of all partitions in scope."""
        total = 0
        for listing in listings:
            if isinstance(listing, Exception):
                return
            total += sum(segment.size_bytes for segment in listing)
        self.before = total
