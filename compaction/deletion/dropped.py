"""Which retired segments brokers no longer need, by what they have of them.

    never named    no broker ever looked for it: it may go if tierfold wrote it
    gone           brokers forgot it: it may go if tierfold wrote it, or if no object is left
    listed         brokers are deleting it, and their last word is still to come: it stays
    started        it stays: a started segment may be finished at any time
    finished       it stays: consumers read it

What brokers uploaded and left behind is reported, and is theirs to delete.
"""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.discovery.phases import Phase, phase_of
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.bindings import Binding, ServedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Ids of retired segments that may leave the tier and the row."""

    never_named: frozenset[str] = frozenset()
    """Of these the whole metadata topic says nothing."""
    gone: frozenset[str] = frozenset()
    """Brokers had these, and forgot them."""

    @property
    def ids(self) -> frozenset[str]:
        """All of them."""
        return self.never_named | self.gone


def dropped_by_brokers(view: PartitionView, binding: Binding) -> Dropped | None:
    """What brokers do not need; None: no cluster is known, so other rules decide."""
    if not isinstance(binding, ServedBy):
        return None
    if view.state is None or view.brokers is None:
        return Dropped()
    never: set[str] = set()
    gone: set[str] = set()
    listed = {segment.segment_id for segment in view.retired}
    for entry in view.state.retired:
        name, is_ours = entry.segment.segment_id, not entry.segment.is_named_by_brokers
        match phase_of(name, view.brokers):
            case Phase.NEVER_NAMED if is_ours:
                never.add(name)
            case Phase.GONE if is_ours or name not in listed:
                gone.add(name)
            case _:
                pass
    return Dropped(never_named=frozenset(never), gone=frozenset(gone))
