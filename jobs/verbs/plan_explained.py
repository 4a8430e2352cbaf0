"""The value that `plan --explain` shows of one partition."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tierfold.compaction.planning.explanation import ExplainedSegment, decision
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.regions import Regions
from tierfold.jobs.pipeline.partition_report import PartitionReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One partition, and what happens to each of its segments, with the reasons."""

    report: PartitionReport
    """The report of `plan`."""
    plan: PartitionPlan
    """Its choice is the chunk that would begin first."""
    now_ms: int
    regions: Regions | None = None
    """None: the partition was not inspected, or could not be understood."""
    segments: tuple[ExplainedSegment, ...] = ()

    @property
    def decision(self) -> str:
        """What happens to the partition, and why, as a sentence without its full stop."""
        return decision(self.plan.choice)

    def as_json(self) -> dict[str, Any]:
        """The partition's entry in the `--json` document."""
        rules = self.plan.rules
        return {
            **self.report.as_json(),
            "decision": self.decision,
            "now_ms": self.now_ms,
            "min_compaction_lag_ms": rules.min_compaction_lag_ms,
            "max_compaction_lag_ms": rules.max_compaction_lag_ms,
            "regions": None if self.regions is None else asdict(self.regions),
            "segments": [_as_json(segment) for segment in self.segments],
        }


def _as_json(explained: ExplainedSegment) -> dict[str, Any]:
    segment = explained.segment
    return {
        "id": segment.segment_id,
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "size_bytes": segment.size_bytes,
        "max_timestamp_ms": segment.max_timestamp_ms,
        "first_timestamp_ms": segment.first_timestamp_ms,
        "earliest_due_ms": segment.earliest_due_ms,
        "regions": list(explained.regions),
        "action": explained.action,
        "group": explained.group,
        "group_segments": explained.group_segments,
        "age_ms": explained.age_ms,
        "first_age_ms": explained.first_age_ms,
        "due_in_ms": explained.due_in_ms,
        "why": explained.why,
    }
