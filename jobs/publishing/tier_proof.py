"""Whether the tier given is the one that brokers read, as canaries have shown (PUBLISHING 7.2).

Until one canary has counted, a single partition is published. Each run reads it again; where it can
no longer count, another is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.errors import MissingRight, TierfoldError
from tierfold.compaction.model.segment_ids import is_restored_id
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.compaction.planning.local_copies import local_ranges
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.verification.canary import (
    Agreed,
    CanaryMode,
    Counted,
    NotCounted,
    replaced_segments,
)
from tierfold.compaction.verification.first_canary import (
    FirstCandidate,
    first_candidate,
    first_to_publish,
)
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.publishing.canary import read_canary, without_right
from tierfold.jobs.publishing.canary_errors import canary_error
from tierfold.jobs.publishing.canary_note import canary_proof, note_counted, note_off
from tierfold.storage.brokers.cluster_setup import may_read

ALONE: Final = "one partition is published alone first, until a canary has counted"


@dataclass(slots=True, kw_only=True)
class TierProof:
    """What is known for one run."""

    context: RunContext
    cluster: RunCluster
    mode: CanaryMode
    is_proven: bool = False
    """Whether a canary has counted, or a person agreed to go on without, as the tier notes."""
    awaited: str = ""
    """Why nothing else is published yet, a clause; empty: no published partition can still count.
    """

    def read(self, plans: Iterable[PartitionPlan]) -> None:
        """Read the note, and canaries of what earlier runs published; raises TierfoldError."""
        self.is_proven = not canary_proof(self.context).is_open
        rows = {row.key: row for row in map(_published_row, plans) if row is not None}
        while not self.is_proven and self.mode is not CanaryMode.OFF:
            key = self.first(rows.values())
            if key is None:
                return
            error = self.why_failed(rows.pop(key))
            if error is not None:
                raise error
            if self.awaited:
                return

    def first(self, rows: Iterable[PartitionState]) -> PartitionKey | None:
        """The partition whose canary is read first; None: none of them can count."""
        now_ms = self.context.clock()
        candidates = [self._candidate(row, now_ms) for row in rows]
        return first_to_publish([one for one in candidates if one is not None], now_ms)

    def why_failed(self, row: PartitionState) -> TierfoldError | None:
        """Read the canary of a published partition; the error of what it found, if it is one.

        The first one that counts is noted. Raises as `ServiceNotes` does.
        """
        brokers = self.context.brokers_of(row.key)
        if self.mode is CanaryMode.OFF or brokers is None:
            if self.mode is CanaryMode.OFF and not self.is_proven:
                self._note(note_off(self.context))
            return None
        connection = self.cluster.connection
        match result := read_canary(self.context, connection, row, brokers.log_start, self.mode):
            case Counted():
                self.awaited = ""
                if not self.is_proven:
                    self._note(note_counted(self.context))
            case Agreed(why=why):
                can_count = why is NotCounted.STILL_LOCAL and not self.is_proven
                self.awaited = f"the canary of {row.key} did not count: {why}" if can_count else ""
            case _:
                return canary_error(self.context, row, result, connection.server)
        return None

    def lacks_read(self, topics: Iterable[str]) -> dict[str, MissingRight]:
        """The right to consume topics, of those where it is missing; none without a canary.

        Asked before anything is sent for them. Raises UnreadableObject.
        """
        if self.mode is CanaryMode.OFF:
            return {}
        connection = self.cluster.connection
        denied = [topic for topic in set(topics) if not may_read(connection, topic)]
        return {topic: without_right(connection.server, topic) for topic in denied}

    def _note(self, refusal: Refusal | None) -> None:
        self.is_proven = refusal is None

    def _candidate(self, row: PartitionState, now_ms: int) -> FirstCandidate | None:
        brokers = self.context.brokers_of(row.key)
        if brokers is None:
            return None
        return first_candidate(row, local_ranges(row, brokers, now_ms), brokers.log_start)


def _published_row(plan: PartitionPlan) -> PartitionState | None:
    """The row if brokers have a segment that a run wrote in place of others, as finished."""
    view = plan.view
    if view is None or view.state is None or view.brokers is None:
        return None
    states = view.brokers.view.segments
    is_published = any(
        segment.segment_id in states
        and states[segment.segment_id].state is SegmentState.COPY_FINISHED
        for segment in replaced_segments(view.state)
    )
    return view.state if is_published else None


def alone_first(
    proof: TierProof, plans: Sequence[PartitionPlan], rows: Sequence[PartitionState]
) -> tuple[list[PartitionPlan], list[PartitionPlan]]:
    """The plans to publish first, and those that wait until a canary has counted.

    `rows`: of the plans, as they are claimed. All go at once if the tier is proven. What undoes a
    publication does not wait: nothing is dropped of it, so its canary could never count.
    """
    if proof.is_proven:
        return [*plans], []
    first = {plan.key for plan, row in zip(plans, rows, strict=True) if _is_undone(plan, row)}
    if not (first or proof.awaited):
        key = proof.first(rows)
        if key is None and proof.mode is CanaryMode.OFF and plans:
            key = plans[0].key
        first = set() if key is None else {key}
    return (
        [plan for plan in plans if plan.key in first],
        [plan for plan in plans if plan.key not in first],
    )


def _is_undone(plan: PartitionPlan, row: PartitionState) -> bool:
    """Whether a restore only takes the place of what runs published.

    If brokers read another place, consumers have lost these offsets already. An upload that brokers
    read would be lost with it, as after a first publication.
    """
    ours = [one.segment_id for one in row.segments if not one.is_named_by_brokers]
    brokers = None if plan.view is None else plan.view.brokers
    if not ours or brokers is None or not all(map(is_restored_id, ours)):
        return False
    read = {one.added.segment_id for one in brokers.view.in_state(SegmentState.COPY_FINISHED)}
    leaving = (one.segment for one in row.retired if one.segment.segment_id in read)
    return not any(one.is_named_by_brokers for one in leaving)
