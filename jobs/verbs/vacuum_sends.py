"""What `vacuum` sends to brokers before and after it deletes, and what it deletes by their looks.

    before   after the claim: deletions dated in the future are sent once more; then the newest look
             confirms what may go, and the log start moves beyond what is past retention; where no
             local copies are left and consumers still get a dropped record, no object goes
    after    after the objects are gone: brokers are sent that, and it is read back

A run that was killed leaves marks in the row, listed segments in the metadata, or both: the next
run's looks show what is left to do, and no other code finishes it.

Rule: PUBLISHING 6.1; `jobs.publishing.joint_deletion` takes the looks and sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tierfold.compaction.commits.holders import ENDED_RUN
from tierfold.compaction.deletion.deletion_plan import VacuumLimits
from tierfold.compaction.deletion.third_send import confirmed, read_back
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.partition_report import FENCED
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.vacuum_outcome import GOES_ON, NOTHING_DELETED, PartitionVacuum

if TYPE_CHECKING:  # The client is loaded only where brokers are named.
    from tierfold.jobs.publishing.deleter import Deleter
    from tierfold.jobs.publishing.joint_deletion import LastLook

_NO_CANARY: Final = (
    "no canary was read before the deletion ({why}): whether every broker follows is not known"
)


def sends_of(
    context: RunContext, settings: Settings, times: VacuumLimits
) -> VacuumSends | None:
    """Return what sends for a run that has looked at its cluster; None: it publishes nothing."""
    if context.publishing_state is not Publishing.ON:
        return None
    from tierfold.jobs.publishing.deleter import deleter_of

    return VacuumSends(deleter=deleter_of(context, settings, times))


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumSends:
    """Sends for one run."""

    deleter: Deleter

    def before(
        self, held: HeldPartitions, claimed: Sequence[PartitionVacuum]
    ) -> list[PartitionVacuum]:
        """Return the partitions, of those that brokers serve only what a look lets go."""
        served = [one for one in claimed if one.is_open and _is_served(held, one)]
        ended, last = self.deleter.send(held, {one.key: one.rules for one in served})
        looked_at = [
            _ended(one, ended[one.key], NOTHING_DELETED) if one.key in ended else one
            for one in claimed
        ]
        # Before any canary is read: meanwhile looks grow old.
        moved = [self._moved(one, last.get(one.key)) for one in looked_at]
        return [self._confirmed(one, last.get(one.key)) for one in moved]

    def _confirmed(self, partition: PartitionVacuum, seen: LastLook | None) -> PartitionVacuum:
        """Return the partition with what the look lets go."""
        if seen is None or not partition.is_open:
            return partition
        plan = confirmed(partition.deletion, seen.look, seen.deletion)
        if plan.marked_ids and (why := self.deleter.why_no_canary(partition.key)):
            plan = replace(plan, notes=(*plan.notes, _NO_CANARY.format(why=why)))
        partition = partition.allowing(plan)
        kept = self.deleter.kept(seen.look) if partition.candidates else None
        return partition if kept is None else _ended(partition, kept, NOTHING_DELETED)

    def _moved(self, partition: PartitionVacuum, seen: LastLook | None) -> PartitionVacuum:
        """Return the partition after its log start moved, if it is to."""
        is_due = partition.deletion.log_start_move is not None
        if seen is None or not (is_due and partition.is_open):
            return partition
        moved = self.deleter.move_log_start(seen, partition.rules)
        if isinstance(moved, Publication):
            return _ended(partition, moved, NOTHING_DELETED)
        return replace(partition, log_start_moved=moved)

    def after(
        self, held: HeldPartitions, deleted: Sequence[PartitionVacuum]
    ) -> list[PartitionVacuum]:
        """Return the partitions, with what brokers have of them once they were sent all."""
        listed = [one for one in deleted if _is_served(held, one) and one.deletion.gone_events]
        ended, last = self.deleter.send(held, {one.key: one.rules for one in listed})

        def looked_at(partition: PartitionVacuum) -> PartitionVacuum:
            key = partition.key
            if key not in ended:
                return partition
            was_open = partition.is_open
            after = _ended(partition, ended[key], GOES_ON)
            if not was_open:  # Why the objects did not go counts.
                after = replace(partition, events_sent=after.events_sent)
            if key not in last:
                return after
            return replace(after, deletion=read_back(after.deletion, last[key].look))

        return [looked_at(partition) for partition in deleted]


def _is_served(held: HeldPartitions, partition: PartitionVacuum) -> bool:
    return partition.deletion.publishes and partition.key in held.by_key


def _ended(
    partition: PartitionVacuum, publication: Publication, so_far: str
) -> PartitionVacuum:
    """Return the partition after its looks; unless they went well, it has ended."""
    partition = replace(partition, events_sent=partition.events_sent + publication.events)
    match publication.state:
        case PublicationState.PUBLISHED:
            return partition
        case PublicationState.FAILED:
            failed = partition.failed(publication.why, so_far=so_far)
            return replace(failed, refusals=publication.refusals)
        case PublicationState.FENCED:
            reason = f"{publication.why}; {so_far}; run again"
            return replace(partition, outcome=FENCED, reason=reason, held_by=ENDED_RUN)
        case PublicationState.LEFT | PublicationState.WAITS:
            return partition.left(publication.why, so_far=so_far)
