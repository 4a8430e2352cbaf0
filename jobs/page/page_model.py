"""What the page shows, as frozen values: everything is computed, and of lists only the top is kept.

Sizes are bytes, times epoch milliseconds, money US dollars at list prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from tierfold.jobs.context.request_prices import StoragePrice


class Urgency(StrEnum):
    """What kind of thing needs a person, the most urgent first."""

    FAILED = "failed"
    REFUSED = "refused"
    OPEN = "unfinished swap"
    BEHIND = "vacuum behind"
    KEPT = "replaced bytes stay"
    LATE = "compaction late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that needs a person."""

    urgency: Urgency
    where: str
    """The partitions, in short."""
    partitions: int
    why: str
    remedy: str
    """What to do, in sentences; empty: `why` says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """All runs that began on one day, by UTC."""

    day: str
    """In ISO 8601."""
    bytes_in: int
    """Bytes of the live logs that were replaced."""
    bytes_out: int
    """Bytes of the logs in their place."""
    saved_bytes: int
    """By how much live logs have shrunk since the first day."""
    freed_bytes: int
    """How many bytes `vacuum` has deleted since the first day."""
    cost_usd: float | None
    """None: the tier is a folder."""
    removed: Mapping[str, int]
    """Records by the reason of their removal."""
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """A verb's newest run."""

    run: str
    verb: str
    started_at_ms: int
    duration_ms: int
    outcomes: Mapping[str, int]
    """How many partitions have each outcome, the most urgent first."""
    bytes_in: int
    bytes_out: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One topic that is compacted."""

    topic: str
    owner: str
    partitions: int
    live_bytes: int
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    """How far its most overdue partition is past `max.compaction.lag.ms`."""
    retired_bytes: int
    """Bytes of replaced segments that are not deleted yet."""

    @property
    def dirty_ratio(self) -> float:
        """Cleanable bytes divided by clean and cleanable ones; 0 of an empty log."""
        return self.cleanable_bytes / max(1, self.clean_bytes + self.cleanable_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The topics with the same labels."""

    owner: str
    """The labels; empty: none are set."""
    topics: int
    partitions: int
    live_bytes: int
    retired_bytes: int
    saved_bytes: int
    request_usd: float | None
    """Its share of the price of requests, by the bytes that runs read and wrote of its topics;
    None: the tier is a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staying:
    """Replaced segments that the same thing removes."""

    size_bytes: int
    gone_at_ms: int | None
    """When the last of them may go; None: it is not known."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """The earliest delete horizon of a tombstone or marker in a live segment."""

    partition: str
    due_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """A partition of the newest run whose tasks took long."""

    partition: str
    task_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What key indexes spared, by the documents of runs."""

    run: str
    asked: int
    """Clean segments whose indexes were asked."""
    skipped: int
    """Of these, those that were not read."""
    read_once: int
    """Segments that lost nothing, as the scan showed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Similar neighbouring segments of a partition."""

    region: str
    action: str
    offsets: str
    size_bytes: int
    segments: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMap:
    """The live segments of one partition, in offset order."""

    partition: str
    decision: str
    size_bytes: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The whole page."""

    tier: str
    made_at_ms: int
    price: StoragePrice
    partitions: int
    stored_bytes: int | None
    """Bytes of all objects of the partitions; None: not all could be listed."""
    problems: tuple[Problem, ...]
    problems_left_out: int
    last_runs: tuple[LastRun, ...]
    days: tuple[Day, ...]
    """The oldest first."""
    topics: tuple[Topic, ...]
    """Those with the most dirty bytes."""
    topics_in_all: int
    owners: tuple[Owner, ...]
    """Those with the most live bytes."""
    owners_in_all: int
    staying: tuple[Staying, ...]
    oldest_horizon: Horizon | None
    """None: no live segment has one."""
    slowest: tuple[Slow, ...]
    skipped: tuple[Skipped, ...]
    maps: tuple[SegmentMap, ...]

    @property
    def dirty_topics(self) -> tuple[Topic, ...]:
        """Those of `topics` of which anything is dirty or late."""
        return tuple(one for one in self.topics if one.cleanable_bytes or one.delay_ms)

    @property
    def saved_bytes(self) -> int:
        """By how much all recorded runs shrank the live logs."""
        return self.days[-1].saved_bytes if self.days else 0

    @property
    def staying_bytes(self) -> int:
        """Bytes of replaced segments that are not deleted yet."""
        return sum(one.size_bytes for one in self.staying)

    @property
    def cost_usd(self) -> float | None:
        """What the requests of all runs in `days` cost; None: the tier is a folder."""
        costs = [day.cost_usd for day in self.days if day.cost_usd is not None]
        return sum(costs) if costs else None

    def a_month(self, size_bytes: int) -> Fraction:
        """Return what keeping bytes costs in a month."""
        return self.price.a_month(size_bytes)
