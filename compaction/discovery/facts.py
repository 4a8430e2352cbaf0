"""What is read of a partition before its discovery decides."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.histories import History, decided_history
from tierfold.compaction.discovery.holes import HoleRule
from tierfold.compaction.discovery.listing import Classified
from tierfold.compaction.discovery.phases import UnnamedSegment
from tierfold.compaction.model.segments import PartitionKey, PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """Everything that is read of a partition before a decision."""

    key: PartitionKey
    state: PartitionState | None
    """The catalog's row; None: there is none yet."""
    classified: Classified
    candidates: tuple[Candidate, ...]
    """Every segment of `classified.unknown` that may be part of the log, and what is known of it;
    without brokers, every one."""
    are_holes_declared: bool = False
    """Whether a person said that no segment is missing where the segments leave a gap."""
    fingerprint: int | None = None
    """The catalog's, which the ids of what it wrote bear; None: there is no catalog yet."""
    live_end: int | None = None
    """The last live segment's end as its objects or brokers say it; None: they do not, or were not
    asked."""
    brokers: BrokerPartition | None = None
    """What brokers have of it; None: none were asked."""
    left_alone: tuple[UnnamedSegment, ...] = ()
    """The rest of `classified.unknown`: what brokers have of it keeps it out of the log."""

    @property
    def row(self) -> PartitionState | None:
        """The row; None: there is none, or `tierfold forget` emptied it.

        If brokers were asked, it begins at their log start.
        """
        if self.state is None or self.state.is_forgotten:
            return None
        return from_log_start(self.state, self.brokers)

    @property
    def doubtful_ids(self) -> tuple[str, ...]:
        """Ids of unknown segments that are or may be another cluster's."""
        candidates = (found.segment_id for found in self.candidates if found.is_doubtful)
        others = (one.listed.segment_id for one in self.left_alone if one.is_anothers)
        return (*candidates, *others)

    def holes(self, history: History) -> HoleRule:
        """Which gaps are holes, in the log of that history."""
        exact = {found.segment_id for found in self.candidates if found.is_end_exact}
        if self.row is not None and self.row.segments and self.live_end is not None:
            exact.add(self.row.segments[-1].segment_id)
        return HoleRule(
            is_declared=self.are_holes_declared,
            exact_ids=frozenset(exact),
            lineage=history.lineage,
        )

    def history(self) -> History:
        """The history, from the leader epochs of all candidates with a `.log`."""
        with_log = [found for found in self.candidates if found.listed.has_log]
        return decided_history(with_log, self.row)


def from_log_start(row: PartitionState, brokers: BrokerPartition | None) -> PartitionState:
    """The row without live segments that end below the brokers' log start."""
    log_start = 0 if brokers is None else brokers.log_start
    if log_start <= row.log_start_offset:
        return row
    live = tuple(segment for segment in row.segments if segment.end_offset >= log_start)
    return replace(row, segments=live, log_start_offset=log_start).with_live_notes()
