"""What is read of a partition before its discovery decides."""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.discovery.histories import History, InspectedSegment, decided_history
from tierfold.compaction.discovery.listing import Classified
from tierfold.compaction.model.segments import PartitionKey, PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """Everything that is read of a partition before a decision."""

    key: PartitionKey
    state: PartitionState | None
    """The catalog's row; None: there is none yet."""
    classified: Classified
    inspected: tuple[InspectedSegment, ...]
    """Every segment of `classified.unknown`."""

    @property
    def row(self) -> PartitionState | None:
        """The row; None: there is none, or `tierfold forget` emptied it."""
        return None if self.state is None or self.state.is_forgotten else self.state

    def history(self) -> History:
        """The history, from the leader epochs of all segments with a `.log`."""
        with_log = [inspected for inspected in self.inspected if inspected.listed.has_log]
        return decided_history(with_log, self.row)
