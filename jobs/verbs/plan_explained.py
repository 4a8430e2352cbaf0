"""What `plan --explain` says of one partition: a value, for people and machines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tierfold.compaction.planning.explanation import ExplainedSegment, decision
from tierfold.compaction.planning.regions import Regions
from tierfold.jobs.pipeline.partition_report import PartitionReport
from tierfold.jobs.pipeline.survey import Surveyed


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One partition, and why each of its segments meets what it meets."""

    report: PartitionReport
    """What `plan` tells of it."""
    surveyed: Surveyed
    """Its choice is what is begun first."""
    now_ms: int
    regions: Regions | None = None
    """None: nothing of it was looked at, or it could not be understood."""
    segments: tuple[ExplainedSegment, ...] = ()

    @property
    def decision(self) -> str:
        """What is done with the partition, and why, a sentence without its full stop."""
        return decision(self.surveyed.choice, self.surveyed.rules)

    def as_json(self) -> dict[str, Any]:
        """The partition's entry in the `--json` document."""
        rules = self.surveyed.rules
        return {
            **self.report.as_json(),
            "decision": self.decision,
            "now_ms": self.now_ms,
            "min_compaction_lag_ms": rules.min_compaction_lag_ms,
            "max_compaction_lag_ms": rules.max_compaction_lag_ms,
            "regions": None if self.regions is None else asdict(self.regions),
            "segments": [_as_json(each) for each in self.segments],
        }


def _as_json(each: ExplainedSegment) -> dict[str, Any]:
    segment = each.segment
    return {
        "id": segment.segment_id,
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "size_bytes": segment.size_bytes,
        "max_timestamp_ms": segment.max_timestamp_ms,
        "first_timestamp_ms": segment.first_timestamp_ms,
        "earliest_due_ms": segment.earliest_due_ms,
        "regions": list(each.regions),
        "fate": each.fate,
        "group": each.group,
        "group_segments": each.group_segments,
        "age_ms": each.age_ms,
        "first_age_ms": each.first_age_ms,
        "due_in_ms": each.due_in_ms,
        "why": each.why,
    }
