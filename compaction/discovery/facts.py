"""What is read of a partition before its discovery decides."""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.histories import History, decided_history
from tierfold.compaction.discovery.holes import HoleRule
from tierfold.compaction.discovery.listing import Classified
from tierfold.compaction.model.segments import PartitionKey, PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """Everything that is read of a partition before a decision."""

    key: PartitionKey
    state: PartitionState | None
    """The catalog's row; None: there is none yet."""
    classified: Classified
    candidates: tuple[Candidate, ...]
    """Every segment of `classified.unknown`, and what is known of it."""
    are_holes_declared: bool = False
    """Whether a person said that no segment is missing where the segments leave a gap."""
    live_end: int | None = None
    """The last live segment's end as its objects say it; None: they do not, or were not asked."""

    @property
    def row(self) -> PartitionState | None:
        """The row; None: there is none, or `tierfold forget` emptied it."""
        return None if self.state is None or self.state.is_forgotten else self.state

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
