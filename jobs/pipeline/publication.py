"""How far the publication of a partition got, as reports have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from tierfold.compaction.deletion.dropped import Dropped
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    FENCED,
    FORGOTTEN,
    LEFT,
    NOTHING_TO_DO,
    PUBLISHED,
    RESTORED,
    PartitionReport,
)

if TYPE_CHECKING:
    from tierfold.compaction.planning.partition_plan import PartitionPlan
    from tierfold.jobs.pipeline.held_partitions import HeldPartitions


class PublicationState(StrEnum):
    """How it ended."""

    PUBLISHED = "published"
    """Brokers have what the row says."""
    WAITS = "waits"
    """The rest can only be sent later; the next run goes on."""
    LEFT = "left"
    """The run ended before; the next one goes on."""
    FENCED = "fenced"
    """Another run took the partition over, and goes on with it."""
    FAILED = "failed"
    """A person must act; what was sent stays, and consumers read what they read before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What became of one partition."""

    state: PublicationState
    why: str = ""
    """Why it is not published, a sentence without its full stop, or with a remedy; of a published
    one a remark."""
    refusals: tuple[RefusalPart, ...] = ()
    """What a person must mend, one entry for each fault."""
    events: int = 0
    """How many events were sent."""
    row: PartitionState | None = None
    """The row afterwards, as far as it is known."""
    dropped: Dropped | None = None
    """What brokers do not need of what it has retired; None: it is not published."""


class PublishesPartitions(Protocol):
    """Publishes claimed partitions."""

    @property
    def stopped_by(self) -> str:
        """Why nothing more is published in this run, a sentence; empty: nothing forbids it."""

    def publish(
        self, held: HeldPartitions, plans: Sequence[PartitionPlan]
    ) -> Mapping[PartitionKey, Publication]:
        """Publish these partitions, which `held` has claimed; return what became of each.

        Raises Stopped after a signal: what is sent stays, and the next run goes on.
        """


_OUTCOMES: Final = {
    PublicationState.PUBLISHED: PUBLISHED,
    PublicationState.WAITS: LEFT,
    PublicationState.LEFT: LEFT,
    PublicationState.FENCED: FENCED,
    PublicationState.FAILED: FAILED,
}

_NOT_YET: Final = {
    PublicationState.WAITS: "brokers get the rest later",
    PublicationState.LEFT: "brokers get the rest in the next run",
    PublicationState.FENCED: "another run publishes the rest",
    PublicationState.FAILED: "brokers do not have all of it",
}


def with_publication(report: PartitionReport, publication: Publication) -> PartitionReport:
    """Report a partition also with what became of its publication.

    What is committed and only waits for brokers counts as compacted, restored or forgotten. If a
    person must act, the partition has failed, although its commit stays.
    """
    state, outcome = publication.state, report.outcome
    is_lost = state in {PublicationState.FENCED, PublicationState.FAILED}
    if outcome == NOTHING_TO_DO or (outcome in {COMPACTED, FORGOTTEN, RESTORED} and is_lost):
        outcome = _OUTCOMES[state]
    so_far = _NOT_YET.get(state, "")
    why = f"{so_far}: {publication.why}" if so_far else ""
    reason = "" if report.outcome == NOTHING_TO_DO else report.reason
    remark = publication.why if state is PublicationState.PUBLISHED else ""
    return replace(
        report,
        notes=(*report.notes, *filter(None, (remark,))),
        outcome=outcome,
        reason="; ".join(filter(None, (reason, why))),
        events_sent=report.events_sent + publication.events,
        publishing=state,
        refusals=(*report.refusals, *publication.refusals),
    )
