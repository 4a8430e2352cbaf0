"""Which retired segments brokers no longer need, by what they have of them.

    never named    no broker ever looked for it: it may go if tierfold wrote it; after a rebuild,
                   also if no object is left
    gone           brokers forgot it: it may go if tierfold wrote it, or if no object is left
    listed         it may go if the run publishes, which then sends that it is gone; else it stays
    started        it stays: a started segment may be finished at any time
    finished       it stays: consumers read it

What was retired before lost metadata were named again stays while it has objects: whether brokers
read it the topic says only if they list it. What brokers uploaded and left behind is reported, and
is theirs to delete; a broker that has restarted since does not know it (`left_behind`).

Rule: PUBLISHING 1.3, 6.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tierfold.compaction.brokers.broker_view import Naming
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.discovery.phases import Phase, phase_of
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.bindings import Binding, ServedBy
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.publishing.look import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Ids of retired segments that may leave the tier and the row."""

    never_named: frozenset[str] = frozenset()
    """Of these the whole metadata topic says nothing."""
    gone: frozenset[str] = frozenset()
    """Brokers had these, and forgot them, or their topic is deleted."""
    listed: Mapping[str, int] = field(default_factory=dict)
    """Brokers list these for deletion: since when, by the last record, epoch milliseconds."""

    @property
    def ids(self) -> frozenset[str]:
        """All of them."""
        return self.may_leave_row | self.listed.keys()

    @property
    def may_leave_row(self) -> frozenset[str]:
        """Those of which nothing is left to send."""
        return self.never_named | self.gone


def dropped_by_brokers(
    view: PartitionView, binding: Binding, *, publishes: bool = False
) -> Dropped | None:
    """What brokers do not need; None: no cluster is known, so other rules decide.

    `publishes`: whether the run may send that what they list is gone.
    """
    if not isinstance(binding, ServedBy):
        return None
    if view.state is None or view.brokers is None:
        return Dropped()
    never: set[str] = set()
    gone: set[str] = set()
    present = {segment.segment_id for segment in view.retired}
    is_rebuilt = view.state.rebuilt_at_ms >= 0
    for entry in view.state.retired:
        name, is_ours = entry.segment.segment_id, not entry.segment.is_named_by_brokers
        if name in present and not view.state.knows_names_of(entry, view.brokers.log_start):
            continue
        may_go = is_ours or name not in present
        match phase_of(name, view.brokers):
            case Phase.NEVER_NAMED if is_ours or (is_rebuilt and may_go):
                never.add(name)
            case Phase.GONE if may_go:
                gone.add(name)
            case _:
                pass
    return Dropped(
        never_named=frozenset(never),
        gone=frozenset(gone),
        listed=listed_since(view) if publishes else {},
    )


def left_behind(row: PartitionState, brokers: BrokerPartition) -> frozenset[str]:
    """Ids of retired uploads of which nothing deletes the objects, if there are any.

    They were named before the metadata were lost, and not again, as they lie below the log start:
    only a broker that has not restarted since still knows them. A person may need them if that log
    start is wrong (SWAP.md 8), so nothing here says to delete them.
    """
    uploads = (entry.segment for entry in row.retired if entry.segment.is_named_by_brokers)
    return frozenset(
        one.segment_id
        for one in uploads
        if row.rebuilt_at_ms >= 0
        and one.end_offset < brokers.log_start
        and phase_of(one.segment_id, brokers) is Phase.NEVER_NAMED
    )


def listed_since(view: PartitionView) -> dict[str, int]:
    """By id of what is retired and listed for deletion: since when, by the last record."""
    if view.state is None or view.brokers is None:
        return {}
    found = view.brokers.view.segments
    return {
        name: found[name].since_ms
        for name in view.state.retired_ids & found.keys()
        if found[name].state is SegmentState.DELETE_STARTED
    }


def dropped_in(look: Look, ids: Collection[str]) -> Dropped:
    """What of these retired ids brokers do not need by a look that a run took under its claim."""
    found = look.view.segments
    forgotten = set(ids) - found.keys()
    return Dropped(
        never_named=frozenset(one for one in forgotten if not look.was_named(one)),
        gone=frozenset(one for one in forgotten if look.naming.get(one) is Naming.NAMED),
        listed={
            one: found[one].since_ms
            for one in ids
            if look.state_of(one) is SegmentState.DELETE_STARTED
        },
    )
