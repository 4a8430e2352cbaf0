"""What is known of one partition before it is diagnosed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.brokers.lineage import finished
from tierfold.compaction.diagnosis.findings import Finding, FindingCode, Severity
from tierfold.compaction.discovery.identity import OfCluster
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segment_ids import is_own_id
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.compaction.publishing.steps import Step
from tierfold.compaction.publishing.uploads import is_covered

SETTLED_MS: Final = DAY_MS
"""What brokers or a run are still at work on is younger."""

_NAMED: Final = 3
"""How many segments a finding names; it counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One partition as the tier, the catalog and brokers show it, as far as they were asked."""

    key: PartitionKey
    rules: Rules
    now_ms: int
    row: PartitionState | None = None
    """The catalog's row; None: no row."""
    listed: tuple[ListedSegment, ...] | None = None
    """Its objects in the tier; None: no tier was given, or the listing failed."""
    view: PartitionView | None = None
    """None: no tier was given, or the partition is refused."""
    refusal: Refusal | None = None
    """Why other verbs refuse it; None: they do not."""
    brokers: BrokerPartition | None = None
    """What brokers have of it; None: none were asked."""
    whose: OfCluster = OfCluster.ITS_OWN
    fingerprint: int | None = None
    """The catalog's; None: there is none yet, or no tier was given."""
    step: Step | None = None
    """What publishing does next; None: no broker serves the row, or none was asked."""

    @property
    def log_start(self) -> int:
        """The brokers' log start; 0 if it is not known."""
        return 0 if self.brokers is None else self.brokers.log_start

    @property
    def finished(self) -> tuple[BrokerSegment, ...]:
        """What brokers have as whole, and do not delete for their log start, by start offset."""
        return () if self.brokers is None else finished(self.brokers.view, self.log_start)

    @property
    def retired_ids(self) -> frozenset[str]:
        """Ids of what the row has retired: `tierfold vacuum` deletes it."""
        return frozenset[str]() if self.row is None else self.row.retired_ids

    @property
    def replaced(self) -> tuple[BrokerSegment, ...]:
        """What brokers list for deletion and segments of runs cover, as they say without a row."""
        if self.brokers is None or self.row is not None:
            return ()
        own = [one for one in self.finished if is_own_id(one.added.segment_id)]
        return tuple(
            one
            for one in self.brokers.view.in_state(SegmentState.DELETE_STARTED)
            if one.added.end_offset >= self.log_start
            and is_covered(one.added, own, self.log_start)
        )

    @property
    def named_ids(self) -> frozenset[str]:
        """Ids of what the row names."""
        return frozenset[str]() if self.row is None else self.row.named_ids

    def is_settled(self, since_ms: int, for_ms: int = SETTLED_MS) -> bool:
        """Whether it has been so for long, and will stay so."""
        return self.now_ms - since_ms >= for_ms

    def stored_bytes(self, segments: Collection[BrokerSegment]) -> int:
        """Bytes of their objects in the tier; without a listing, of their logs as brokers say."""
        if self.listed is None:
            return sum(segment.added.size_bytes for segment in segments)
        ids = {segment.added.segment_id for segment in segments}
        return sum(one.size_bytes for one in self.listed if one.segment_id in ids)

    def finding(
        self,
        code: FindingCode,
        severity: Severity,
        detail: str,
        *,
        remedy: str,
        size_bytes: int | None = None,
    ) -> Finding:
        """A finding of this partition."""
        return Finding(
            code=str(code),
            severity=severity,
            detail=detail,
            remedy=remedy,
            key=self.key,
            topic=self.key.topic,
            size_bytes=size_bytes,
        )


def noted(segments: Sequence[BrokerSegment]) -> str:
    """A few of the segments with their offsets; the others are counted."""
    return first_named(
        [
            f"{one.added.segment_id} (offsets {one.added.start_offset} to {one.added.end_offset})"
            for one in segments
        ]
    )


def first_named(names: Sequence[str]) -> str:
    """A few of the names; the others are counted."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
