"""How long tombstones and markers stay on a row that brokers serve.

On any other row they go once their delete horizon has passed, as in Kafka. Here consumers see a
pass later than it was made. So one goes only when all of this has passed:

    its delete horizon
    delete.retention.ms since the publication of the pass from which that horizon counts
    delete.retention.ms since a broker can last have had its range locally

What lies above the clean region may hide a record that this run removes, so it stays.

Rule: PUBLISHING 5.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.model.passes import NONE_PASSED, counting_pass, published_until_ms
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.serving import Pass
from tierfold.compaction.model.wording import duration
from tierfold.compaction.planning.local_copies import local_until_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class DropLimits:
    """Which delete horizons have passed, segment by segment."""

    now_ms: int
    served: ServedLimits | None = None
    """None: no broker serves the row."""

    def passed_until_ms(self, segment: Segment) -> int:
        """The latest delete horizon in the segment that has passed in every respect."""
        if self.served is None:
            return self.now_ms
        return min(self.now_ms, self.served.seen_until_ms(segment, self.now_ms))

    def of_served(self, segments: Iterable[Segment]) -> tuple[tuple[str, int], ...]:
        """By id, `passed_until_ms` of these segments; nothing if no broker serves the row."""
        if self.served is None:
            return ()
        return tuple((segment.segment_id, self.passed_until_ms(segment)) for segment in segments)

    def is_due(self, segment: Segment) -> bool:
        """Whether a tombstone or marker in the segment may go, as far as its horizon is known."""
        return segment.is_due(self.passed_until_ms(segment))


    def why_waiting(self, segment: Segment) -> str:
        """Why tombstones or markers of the clean segment stay beyond their horizon, a clause.

        Empty: they do not.
        """
        horizon_ms = segment.earliest_due_ms
        if self.served is None or horizon_ms is None or self.is_due(segment):
            return ""
        if horizon_ms > self.now_ms:
            return ""
        return self.served.why_unseen(segment, horizon_ms, self.now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedLimits:
    """What consumers may still read of a served row as it was before its passes."""

    passes: tuple[Pass, ...]
    retention_ms: int
    """`delete.retention.ms`."""
    local_until_ms: Mapping[str, int]
    """By id of a live segment; see `local_copies`."""
    clean_until: int
    """The end of the region that was clean when the run began."""
    has_local_end: bool = True
    """Whether `local.retention.ms` limits local copies."""

    def seen_until_ms(self, segment: Segment, now_ms: int) -> int:
        """The latest delete horizon that no reader of earlier values can miss."""
        local_ms = self.local_until_ms.get(segment.segment_id)
        if segment.next_offset > self.clean_until or local_ms is None:
            return NONE_PASSED
        if now_ms - local_ms < self.retention_ms:
            return NONE_PASSED
        return published_until_ms(self.passes, self.retention_ms, now_ms)

    def why_unseen(self, segment: Segment, horizon_ms: int, now_ms: int) -> str:
        """Why readers may miss what a passed horizon in the clean segment lets go, a clause."""
        counts_from = counting_pass(self.passes, horizon_ms)
        if counts_from is None or counts_from.published_at_ms is None:
            return "the pass that lets them go is not published"
        local_ms = self.local_until_ms.get(segment.segment_id)
        if local_ms is None:
            return (
                "it is not known when the brokers' local copies end"
                if self.has_local_end
                else "only local.retention.ms says when the brokers' local copies end, and it has"
                " no limit"
            )
        seen_ms = max(local_ms, counts_from.published_at_ms) + self.retention_ms
        return (
            f"for {duration(max(seen_ms - now_ms, 0))} more, until consumers have seen their pass"
            f" for delete.retention.ms ({duration(self.retention_ms)})"
        )


def drop_limits(
    row: PartitionState | None,
    brokers: BrokerPartition | None,
    rules: Rules,
    *,
    clean_until: int,
    now_ms: int,
) -> DropLimits:
    """The limits of a row, with all its live segments; None: it has none yet."""
    if row is None or not row.is_served:
        return DropLimits(now_ms=now_ms)
    return DropLimits(
        now_ms=now_ms,
        served=ServedLimits(
            passes=row.passes,
            retention_ms=rules.delete_retention_ms,
            local_until_ms=local_until_ms(row, brokers, now_ms),
            clean_until=clean_until,
            has_local_end=brokers is None or brokers.local_retention_ms is not None,
        ),
    )
