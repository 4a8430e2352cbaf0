"""How a run publishes to its cluster; `jobs.settings.publishing` decides it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tierfold.compaction.verification.canary import CanaryMode


class Publishing(StrEnum):
    """What brokers learn of a run."""

    ON = "on"
    """Brokers are named, and what is compacted is published to them."""
    OFF = "off"
    """Brokers are named and only asked: nothing is changed."""
    NOT_NAMED = "brokers_not_named"
    """No brokers are named, though some may serve the tier: they learn nothing."""
    NO_BROKERS = "no_brokers"
    """`tier.binding` says that no broker serves the tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishingSettings:
    """How a run publishes, if it does."""

    is_on: bool
    """Whether brokers may be sent anything."""
    message_timeout_ms: int
    """How long a look is valid, and how long a sent event waits for its answer."""
    max_events_per_second: int | None
    """How many events the run sends at most; None: no limit."""
    canary: CanaryMode
    """What is read of a partition once it is published."""
    readers_begin_again: bool
    """Whether a person says that readers which are on their way from the start to the end begin
    again once a tier is first published (PUBLISHING 5.3)."""
