"""What brokers answer when they are asked where the records of a leader epoch end.

Rule: Kafka `LeaderEpochFileCache.endOffsetFor`, which the request OffsetForLeaderEpoch asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The leader has records of the epoch, or of an older one."""

    epoch: int
    """The highest epoch not above the one asked for that the leader's log has. Of an epoch below
    the log start: the one asked for."""
    end_offset: int
    """One more than the last offset of `epoch` in the leader's log: where the next epoch starts,
    or the end of the log."""


@dataclass(frozen=True, slots=True)
class UnknownEpoch:
    """The leader has no record of the epoch or of an older one: its own epochs are all lower."""


@dataclass(frozen=True, slots=True)
class NotAllowed:
    """A right is missing."""

    why: str
    """Which one, and the command that grants it: a sentence."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The leader did not answer, or there is none."""

    why: str
    """A sentence."""


EpochAnswer: TypeAlias = EpochEnd | UnknownEpoch | NotAllowed | NoAnswer
