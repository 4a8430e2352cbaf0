"""Sends what follows from the deletions of one run, some partitions at a time.

`joint_deletion` has the loop. Before objects go, a canary says whether brokers follow. What is past
tierfold's own retention brokers delete themselves, once their log start has moved beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tierfold.compaction.deletion.deletion_plan import VacuumLimits
from tierfold.compaction.deletion.log_start import log_start_move
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.verification.canary import Agreed, CanaryMode, Counted
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import Stopped, finishing
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.canary import read_before_deletion
from tierfold.jobs.publishing.canary_errors import canary_error
from tierfold.jobs.publishing.joint_deletion import JointDeletion, LastLook
from tierfold.jobs.publishing.publishing_run import (
    STAYS,
    PublishingRun,
    publishing_run_of,
    some_at_a_time,
)
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.brokers.event_door import RefusedByBrokers, TooLate, Unanswered
from tierfold.storage.brokers.log_start_door import (
    ForbiddenMove,
    Moved,
    OutgoingMove,
    move_log_start,
)


def deleter_of(context: RunContext, settings: Settings, times: VacuumLimits) -> Deleter:
    """Return what sends for a run that has looked at its cluster; else raises ValueError."""
    run = publishing_run_of(context, settings)
    run.grace_ms = max(run.grace_ms, times.listed_grace_ms)
    return Deleter(run=run)


@dataclass(slots=True, kw_only=True)
class Deleter:
    """Sends for one run."""

    run: PublishingRun

    def send(
        self, held: HeldPartitions, rules: Mapping[PartitionKey, Rules]
    ) -> tuple[dict[PartitionKey, Publication], dict[PartitionKey, LastLook]]:
        """Send what follows from what is deleted of these partitions, which `held` has claimed.

        Returns what became of each, and of those that ended well the last look. After a signal or
        an error of the cluster nothing more is sent.
        """
        ended: dict[PartitionKey, Publication] = {}
        last: dict[PartitionKey, LastLook] = {}
        with finishing(STAYS):
            for keys in some_at_a_time([*rules]):
                joint = JointDeletion.of(self.run, held, {key: rules[key] for key in keys})
                joint.run_to_its_end()
                ended |= joint.ended
                last |= joint.last
        return ended, last

    def move_log_start(self, seen: LastLook, rules: Rules) -> int | Publication | None:
        """Ask brokers to move the log start past what has expired by this look.

        Returns the new log start, or why the partition has ended; None: nothing has expired.
        """
        run, look = self.run, seen.look
        at_ms = self._earliest_now_ms()
        move = log_start_move(look.row.segments, rules, look.offsets, at_ms)
        if move is None:
            return None
        outgoing = OutgoingMove(
            look=look, taken=seen.taken, rules=rules, offset=move.offset, now_ms=at_ms
        )
        key, connection, limit_ms = look.row.key, run.cluster.connection, run.message_timeout_ms
        try:
            outcome = move_log_start(connection, outgoing, limit_ms)
        except TierfoldError as error:
            outcome = RefusedByBrokers(error)
        match outcome:
            case Moved(log_start=offset):
                return offset
            case RefusedByBrokers(error=refused):
                return Publication(state=PublicationState.FAILED, why=str(refused))
            case ForbiddenMove(why=why):
                why = f"{key}: the log start does not move: {why}"
                return Publication(state=PublicationState.FAILED, why=why)
            case TooLate(why=why):
                why = f"the log start did not move: {why}"
                return Publication(state=PublicationState.LEFT, why=why)
            case Unanswered(why=why):
                why = f"whether the log start moved to {move.offset} is not known: {why}"
                return Publication(state=PublicationState.LEFT, why=why)

    def _earliest_now_ms(self) -> int:
        """This machine's time or the store's: a clock that is ahead would let records go early."""
        context = self.run.context
        store_ms = None if context.clocks is None else context.clocks.store_now_ms()
        machine_ms = context.clock()
        return machine_ms if store_ms is None else min(machine_ms, store_ms)

    def why_no_canary(self, key: PartitionKey) -> str:
        """Why consumers' view of the partition is not read before its objects go, a clause.

        Empty: it is read wherever it shows something.
        """
        if self.run.proof.mode is CanaryMode.OFF:
            return "--canary off"
        brokers = self.run.context.brokers_of(key)
        if brokers is None or brokers.local_retention_ms is None:
            return (
                "no local.retention.ms says when brokers' local copies end, or DescribeConfigs on"
                " the topic is missing"
            )
        return ""

    def kept(self, look: Look) -> Publication | None:
        """Why nothing of the partition may be deleted after this look; None: it may.

        Where brokers' local copies are gone, and consumers do not get what they should, some broker
        does not follow the metadata topic or reads elsewhere (PUBLISHING 6.1). Without the right to
        read nothing is known of that, so it counts the same.
        """
        connection, proof = self.run.cluster.connection, self.run.proof
        if self.why_no_canary(look.row.key):
            return None
        try:
            with finishing(STAYS):
                result = read_before_deletion(
                    self.run.context, connection, look.row, look.log_start, proof.mode
                )
        except Stopped as stopped:
            return Publication(state=PublicationState.LEFT, why=f"stopped by {stopped.by}")
        if result is None or isinstance(result, Counted | Agreed):
            return None
        error = canary_error(self.run.context, look.row, result, connection.server)
        return Publication(state=PublicationState.FAILED, why=str(error))
