"""What the canary reads: a consumer's view of a partition once it is published (PUBLISHING 7.2)."""

from __future__ import annotations

from enum import StrEnum


class CanaryMode(StrEnum):
    """How much of a published partition the canary reads."""

    OFF = "off"
    """Nothing: a person answers for it that brokers read the tier that was given."""
    BORDERS = "borders"
    """The first and last records, and those around each border of a replaced segment."""
    ALL = "all"
    """Every record."""
