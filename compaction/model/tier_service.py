"""What the tier itself says: which cluster serves it, and which catalog publishes to that cluster.

It stands in the tier, outside any catalog, so that every catalog of the tier finds it
(docs/decisions/0014). `storage.tiers.service_notes` keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TierService:
    """One note of who serves the tier."""

    cluster_id: str
    fingerprint: int
    """The fingerprint of the catalog that publishes, 40 bits."""
    place: str
    """Where the tier stood when it was noted, as `TierPlace` prints it."""
    noted_at_ms: int
    """Epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class TierPlace:
    """Where a tier stands; `str` gives it as rows and notes have it."""

    root: str
    """An absolute folder without links, or the URI of a bucket, with the prefix of all keys."""
    service: str = ""
    """The store's endpoint, or the Azure account; empty: the provider's own."""

    def __str__(self) -> str:
        """The whole place."""
        return f"{self.root} at {self.service}" if self.service else self.root

    def is_same(self, other: TierPlace) -> bool:
        """Whether both are one place, as far as both say where."""
        knows_both = bool(self.service and other.service)
        return self.root == other.root and (not knows_both or self.service == other.service)


def fingerprint_text(fingerprint: int | None) -> str:
    """A catalog's fingerprint as messages and the note have it: ten hexadecimal digits."""
    return "none yet" if fingerprint is None else f"{fingerprint:010x}"
