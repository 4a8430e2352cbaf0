"""How long tombstones and markers stay on a row that brokers serve.

On any other row they go once their delete horizon has passed, as in Kafka. Here consumers see a
pass later than it was made. So one goes only when all of this has passed:

    its delete horizon
    delete.retention.ms since the publication of the pass from which that horizon counts
    delete.retention.ms since a broker can last have had its offset locally

What lies above the clean region may hide a record that this run removes, so it stays.

Rule: PUBLISHING 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.model.passes import counting_pass, published_until_ms
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.serving import LocalRange, Pass
from tierfold.compaction.model.units import NO_HORIZON, TIMESTAMP_MS_MAX
from tierfold.compaction.model.wording import duration
from tierfold.compaction.planning.local_copies import local_ranges

_EVERYWHERE: Final = 2**63 - 1
"""Above every offset."""

NEVER_EXPIRED: Final = -(2**63)
"""Below every timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropLimits:
    """Which delete horizons have passed, and which producers have expired."""

    now_ms: int
    seen_until_ms: int = TIMESTAMP_MS_MAX
    """Later horizons count from a pass that consumers have not seen for long enough."""
    seen_below: int = _EVERYWHERE
    """From this offset on, consumers may still read what was there before."""
    expired_ms: int = NEVER_EXPIRED
    """A producer whose newest batch has this timestamp, or an earlier one, has expired."""

    def have_passed(
        self, horizon_ms: NDArray[np.int64], last_offset: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Shape (b,), as the arguments: batches whose horizon is set, and has passed."""
        is_set = horizon_ms != NO_HORIZON
        is_seen = (horizon_ms <= self.seen_until_ms) & (last_offset < self.seen_below)
        return np.asarray(is_set & (horizon_ms <= self.now_ms) & is_seen, np.bool_)

    def may_have_passed(self, earliest_ms: int | None, start_offset: int) -> bool:
        """Whether one of some horizons, from an offset on, may have passed; None: there is none."""
        if earliest_ms is None or start_offset >= self.seen_below:
            return False
        return earliest_ms <= min(self.now_ms, self.seen_until_ms)

    def is_due(self, segment: Segment) -> bool:
        """Whether something in the segment may go, as far as the catalog knows."""
        return self.is_past_horizon(segment) or self.is_past_producer(segment)

    def is_past_horizon(self, segment: Segment) -> bool:
        """Whether a delete horizon in the segment has passed."""
        until_ms = min(self.now_ms, self.seen_until_ms)
        return segment.is_due(until_ms) and segment.end_offset < self.seen_below

    def is_past_producer(self, segment: Segment) -> bool:
        """Whether a producer for which a batch without records stays has expired.

        Consumers see no record less without that batch, so they need not have seen anything.
        """
        kept_ms = segment.kept_for_producer_ms
        return kept_ms is not None and kept_ms <= self.expired_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """What consumers may still read of a served row as it was before its passes."""

    passes: tuple[Pass, ...]
    retention_ms: int
    """`delete.retention.ms`."""
    local: tuple[LocalRange, ...]
    """Without the last one: what follows that may be in the same local segment."""
    clean_until: int
    """The end of the region that was clean when the run began."""
    has_local_end: bool
    """Whether `local.retention.ms` limits local copies."""

    def limits(self, now_ms: int) -> DropLimits:
        """The limits for all offsets."""
        gone = (one for one in self.local if now_ms - one.until_ms >= self.retention_ms)
        return DropLimits(
            now_ms=now_ms,
            seen_until_ms=published_until_ms(self.passes, self.retention_ms, now_ms),
            seen_below=min(self.clean_until, max((one.end_offset + 1 for one in gone), default=0)),
        )

    def why_unseen(self, segment: Segment, horizon_ms: int, now_ms: int) -> str:
        """Why readers may miss what a passed horizon in the clean segment lets go, a clause."""
        counts_from = counting_pass(self.passes, horizon_ms)
        if counts_from is None or counts_from.published_at_ms is None:
            return "the pass that lets them go is not published"
        over = (one.until_ms for one in self.local if one.end_offset >= segment.end_offset)
        local_ms = next(over, None)
        if local_ms is None:
            return (
                "it is not known when the brokers' local copies end"
                if self.has_local_end
                else "no time limits the brokers' local copies (local.retention.ms)"
            )
        seen_ms = max(local_ms, counts_from.published_at_ms) + self.retention_ms
        return (
            f"for {duration(max(seen_ms - now_ms, 0))} more, until consumers have seen their pass"
            f" for delete.retention.ms ({duration(self.retention_ms)})"
        )


def readers_of(
    row: PartitionState | None,
    brokers: BrokerPartition | None,
    rules: Rules,
    *,
    clean_until: int,
    now_ms: int,
) -> Readers | None:
    """What consumers may still read of a row with all its live segments; None: nothing of it.

    Nothing if no broker serves it, as far as the row knows.
    """
    if row is None or not row.is_served:
        return None
    return Readers(
        passes=row.passes,
        retention_ms=rules.delete_retention_ms,
        local=local_ranges(row, brokers, now_ms)[:-1],
        clean_until=clean_until,
        has_local_end=brokers is None or brokers.local_retention_ms is not None,
    )


def limits_beside(readers: Readers | None, now_ms: int) -> DropLimits:
    """The limits; None: the time alone decides."""
    return DropLimits(now_ms=now_ms) if readers is None else readers.limits(now_ms)


def why_waiting(readers: Readers | None, segment: Segment, now_ms: int) -> str:
    """Why tombstones or markers of the clean segment stay beyond their horizon, a clause.

    Empty: they do not.
    """
    if readers is None or segment.earliest_due_ms is None or not segment.is_due(now_ms):
        return ""
    if readers.limits(now_ms).is_due(segment):
        return ""
    return readers.why_unseen(segment, segment.earliest_due_ms, now_ms)
