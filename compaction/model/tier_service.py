"""What the tier itself says: which cluster serves it, and which catalog publishes to that cluster.

It lies in the tier, outside any catalog, so that every catalog of the tier finds it
(docs/decisions/0014). `storage.tiers.service_notes` keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryProof:
    """How it is known that brokers read the tier in the place that the note says.

    Until one of both is noted, a single partition is published (PUBLISHING 7.2).
    """

    counted_at_ms: int | None = None
    """When a canary first missed a dropped record, epoch milliseconds; None: none has yet."""
    off_at_ms: int | None = None
    """When a person's consent to publish without a canary (`--canary off`) was noted; None: no
    person gave it. It proves less."""
    off_run: str = ""
    """The run that took the consent; empty: there is none."""

    @property
    def is_open(self) -> bool:
        """Whether neither a canary nor a person's consent is noted."""
        return self.counted_at_ms is None and self.off_at_ms is None


UNPROVEN: Final = CanaryProof()


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
    canary: CanaryProof = UNPROVEN
    """Whether brokers are known to read this very place."""

    def moved(self, place: str, at_ms: int) -> TierService:
        """The note of the same tier at another place, where a canary has to count again."""
        return replace(self, place=place, noted_at_ms=at_ms, canary=UNPROVEN)

    def proven(self, at_ms: int) -> TierService:
        """The note once a canary has counted at `at_ms`; what a person agreed to stays noted."""
        return replace(
            self, noted_at_ms=at_ms, canary=replace(self.canary, counted_at_ms=at_ms)
        )

    def trusted(self, at_ms: int, run: str) -> TierService:
        """The note once a person agreed, in that run, to publish without a canary."""
        return replace(
            self, noted_at_ms=at_ms, canary=replace(self.canary, off_at_ms=at_ms, off_run=run)
        )


@dataclass(frozen=True, slots=True)
class TierPlace:
    """Where a tier stands; `str` gives it as rows and notes have it."""

    root: str
    """An absolute folder without links, or the URI of a bucket, with the prefix of all keys."""
    endpoint: str = ""
    """The URL of the store; empty: the provider's own."""
    account: str = ""
    """Of Azure; empty elsewhere, or unknown."""

    def __str__(self) -> str:
        """The whole place."""
        account = self.account and f"account {self.account}"
        where = ", ".join(filter(None, (self.endpoint, account)))
        return f"{self.root} at {where}" if where else self.root

    def is_same(self, other: TierPlace) -> bool:
        """Whether both are one place, as far as both say where."""
        by_service = (
            (_plain(self.endpoint), _plain(other.endpoint)),
            (self.account, other.account),
        )
        return self.root == other.root and not any(
            mine and theirs and mine != theirs for mine, theirs in by_service
        )


def _plain(endpoint: str) -> str:
    return endpoint.lower().rstrip("/")


def fingerprint_text(fingerprint: int | None) -> str:
    """A catalog's fingerprint as messages and the note have it: ten hexadecimal digits."""
    return "none yet" if fingerprint is None else f"{fingerprint:010x}"
