"""`forget --leave-alone`: records which segments a person leaves alone (`commits.leave_alone`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.commits.commit import CommitProposal, proposed
from tierfold.compaction.commits.leave_alone import LeftAlone, left_alone
from tierfold.compaction.discovery.view import Refusal, never_claimed
from tierfold.compaction.model.errors import BadSettings, TierfoldError
from tierfold.compaction.model.segment_ids import is_kafka_uuid
from tierfold.compaction.model.segments import PartitionState
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.discovery import facts_of
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.jobs.pipeline.partition_report import FORGOTTEN, PartitionReport
from tierfold.jobs.pipeline.survey import known_by_name
from tierfold.jobs.verbs.row_change import changed_row, noted_binding
from tierfold.storage.catalog.catalog import new_commit_id

OPTION: Final = "--leave-alone"


def refuse_wrong_ids(context: RunContext, ids: Collection[str]) -> None:
    """Raise BadSettings if no brokers are named, or a text is no id of a segment."""
    if context.cluster is None:
        raise BadSettings(
            "only brokers can say which segments they never had, and none are named",
            where=OPTION,
            remedy="Name them with --bootstrap-server HOST:PORT.",
        )
    if wrong := sorted(one for one in ids if not is_kafka_uuid(one)):
        raise BadSettings(
            f"{wrong[0]!r} is no id of a segment",
            where=OPTION,
            remedy="Give ids of 22 characters, separated by commas, as `tierfold plan` shows them.",
        )


def planned_leaving(
    context: RunContext, known: KnownPartition, brokers: BrokerPartition, ids: Collection[str]
) -> LeftAlone | Refusal:
    """Plan it; raises nothing: an error in reading is the refusal."""
    try:
        facts = facts_of(context, known.key, known.state, known.listed, brokers)
    except TierfoldError as error:
        return refusal_of(error, str(known.key))
    found = left_alone(facts, ids)
    return found.at(context.place(known.key)) if isinstance(found, Refusal) else found


def recorded(
    context: RunContext,
    name: str,
    planned: PartitionReport,
    state: PartitionState | None,
    leaving: LeftAlone,
) -> PartitionReport:
    """Record what was planned in the row of the partition `name`; `state`: the row as read."""
    ids = [segment.segment_id for segment in leaving.segments]

    def propose(claimed: PartitionState) -> CommitProposal | None:
        # A run that was not fenced until now may have changed the tier, and brokers go on.
        known = known_by_name(context, name, where=context.tier_uri)
        if known.brokers is None:
            return None
        if planned_leaving(context, known, known.brokers, ids) != leaving:
            return None
        at_ms = context.clock()
        consent = leaving.consent(at_ms=at_ms, run=context.run)
        binding = noted_binding(context, claimed, at_ms)
        return proposed(claimed, consent, *binding, commit_id=new_commit_id(), at_ms=at_ms)

    row = state or never_claimed(planned.key)
    return changed_row(context, row, planned, propose, FORGOTTEN, "forget")
