"""Stage 1 of `vacuum`: finds what may be deleted of each partition.

It reads rows and listings; for a segment that is in no row, also its end offset and its writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tierfold.compaction.brokers.preconditions import deletion_right
from tierfold.compaction.deletion.deletion_plan import (
    DeletionPlan,
    VacuumLimits,
    deletion_plan_of,
    waits_until,
)
from tierfold.compaction.deletion.served_grace import grace_refusal
from tierfold.compaction.deletion.third_send import why_open
from tierfold.compaction.discovery.broker_refusals import refusal_for
from tierfold.compaction.discovery.drafted_view import row_view
from tierfold.compaction.discovery.listing import IncompleteUpload
from tierfold.compaction.discovery.view import (
    PartitionView,
    Refusal,
    RefusalReason,
    never_claimed,
    state_with_new,
)
from tierfold.compaction.model.bindings import Binding
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.compaction.model.wording import counted
from tierfold.compaction.planning.open_step import look_of
from tierfold.compaction.publishing.look import PublishingLimits
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Refused
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.tier_identity import tier_identity
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.asked_brokers import binding_of_run
from tierfold.jobs.pipeline.discovery import facts_of, view_from
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.jobs.pipeline.partition_report import LEFT, NOTHING_TO_DO, REFUSED
from tierfold.jobs.pipeline.survey import READERS, known_among, with_identity
from tierfold.jobs.publishing.canary_note import canary_proof
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.deletion_candidates import candidates_of
from tierfold.jobs.verbs.vacuum_deleted_topics import DeletedTopics
from tierfold.jobs.verbs.vacuum_outcome import PartitionVacuum
from tierfold.storage.catalog.rows import RowsRead

_UNPROVEN: Final = (
    "no canary has shown yet that these brokers read this tier, so nothing that they may need is"
    " deleted, with --canary off neither; `tierfold compact` reads it again"
)


def inspect(
    context: RunContext, settings: Settings, scope: Scope, times: VacuumLimits
) -> list[PartitionVacuum]:
    """Return what may be deleted of each partition, by topic and number, of any policy.

    Nothing is changed. Raises BadSettings; an error in one partition is its outcome.
    """
    with context.progress.survey():
        return _inspected(context, settings, scope, times)


def _inspected(
    context: RunContext, settings: Settings, scope: Scope, times: VacuumLimits
) -> list[PartitionVacuum]:
    everywhere, rows = context.tier.partitions(), context.catalog.look()
    keys = scope.chosen(sorted({*everywhere, *_emptied(rows)}))
    found = known_among(context, everywhere, keys, rows)
    binding = binding_of_run(context, settings)
    identity = tier_identity(context, binding, deletes=True)
    known = [one if one.is_left_alone else with_identity(one, identity) for one in found]
    rules = settings.rules_by_topic(partition.key.topic for partition in known)
    topics = [rules[partition.key.topic] for partition in known]
    uploads = context.tier.incomplete_uploads(keys)
    unfinished = [uploads[partition.key] for partition in known]
    is_proven = _is_proven(context, times)
    gone = DeletedTopics.among(context, known, times, identity, is_proven=is_proven)
    terms = _Terms(binding=binding, times=times, is_proven=is_proven, deleted_topics=gone)
    inspect_one = partial(_inspect, context, terms)
    with ThreadPoolExecutor(READERS) as pool:
        found_all = pool.map(inspect_one, known, topics, unfinished)
        return list(context.progress.inspected(found_all))


def _emptied(rows: RowsRead) -> Iterator[PartitionKey]:
    """Partitions without live segments whose row still lists segments.

    A store without folders no longer lists them once their last object is gone.
    """
    return (key for key, row in rows.by_key.items() if row.retired and not row.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """What counts for all partitions."""

    binding: Binding
    times: VacuumLimits
    is_proven: bool
    """Whether a canary has shown that the brokers asked read this tier, or a person answers for it
    (PUBLISHING 7.2)."""
    deleted_topics: DeletedTopics


def _is_proven(context: RunContext, times: VacuumLimits) -> bool:
    if not times.publishes or not context.catalog.exists():
        return False
    return not canary_proof(context).is_open


def _inspect(
    context: RunContext,
    terms: _Terms,
    known: KnownPartition,
    rules: Rules,
    incomplete_uploads: tuple[IncompleteUpload, ...] | Exception,
) -> PartitionVacuum:
    row = never_claimed(known.key) if known.state is None else known.state
    binding, times = terms.binding, terms.times
    try:
        if known.refusal is not None:
            return _refused(row, known.refusal)
        if known.is_left_alone:
            return terms.deleted_topics.vacuum_of(known, row, rules, incomplete_uploads)
        facts = facts_of(context, known.key, known.state, known.listed, known.brokers)
        view = view_from(context, facts)
        refusal = view if isinstance(view, Refusal) else None
        if isinstance(view, Refusal):
            # Segments outside both histories may still be deleted, which can resolve the refusal.
            is_diverged = view.reason is RefusalReason.LINEAGE_DIVERGED
            rest = row_view(facts, view) if is_diverged else None
            if rest is None:
                return _refused(row, view)
            view = rest
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        return _refused(row, refusal_of(error, str(known.key)))
    if isinstance(incomplete_uploads, Exception):
        return _refused(row, refusal_of(incomplete_uploads, str(known.key)))
    if (too_short := _grace_refusal(context, row, times)) is not None:
        return _refused(row, refusal or too_short)
    deletion = deletion_plan_of(
        view,
        rules,
        binding,
        times,
        incomplete_uploads=incomplete_uploads,
        is_refused=refusal is not None,
    )
    if deletion.publishes and (held_up := _held_up(context, known, view, rules, terms)) is not None:
        return held_up
    waits = _waits(view, rules, binding, times)
    if refusal is not None and deletion.is_nothing:
        return _refused(row, refusal, waits)
    found = PartitionVacuum(
        deletion=deletion,
        row=state_with_new(view),
        candidates=tuple(candidates_of(context, view.retired, deletion)),
        rules=rules,
    )
    return _unless_nothing(found, waits)


def _unless_nothing(found: PartitionVacuum, waits: Sequence[str]) -> PartitionVacuum:
    if not found.deletion.is_nothing:
        return found
    reason = "; ".join(waits) or _why_nothing(found)
    return replace(found, outcome=NOTHING_TO_DO, reason=reason)


def _grace_refusal(
    context: RunContext, row: PartitionState, times: VacuumLimits
) -> Refusal | None:
    look = context.cluster_view
    if look is None:
        return None
    return grace_refusal(look.setup, row, times.grace_ms, times.least_served_ms)


def _denied(context: RunContext, key: PartitionKey, rules: Rules) -> Refusal | None:
    """The refusal for the right to move the log start, asked for before anything is claimed."""
    look = context.cluster_view
    if look is None or key.topic not in look.topics:
        return None
    missing = deletion_right(look.topics[key.topic], look.setup, rules)
    return None if missing is None else refusal_for([missing])


def _refused(row: PartitionState, refusal: Refusal, waits: Sequence[str] = ()) -> PartitionVacuum:
    """`waits`: what is deleted later despite the refusal, and when."""
    return PartitionVacuum(
        deletion=DeletionPlan(key=row.key),
        row=row,
        outcome=REFUSED,
        reason="; ".join((*waits, refusal.sentence)),
        refusals=refusal.parts,
        waits=tuple(waits),
    )


def _why_nothing(found: PartitionVacuum) -> str:
    """Why nothing is deleted where nothing waits; empty: the notes say it."""
    retired = len(found.row.whole_retired)
    if not retired:
        return "nothing is due"
    return "" if found.deletion.notes else f"{counted(retired, 'retired segment')} kept for brokers"


def _held_up(
    context: RunContext, known: KnownPartition, view: PartitionView, rules: Rules, terms: _Terms
) -> PartitionVacuum | None:
    """The outcome of a partition with a swap that is half done or unproven, or without a right.

    None: nothing is in the way.
    """
    times = terms.times
    limits = PublishingLimits(grace_ms=times.listed_grace_ms, upload_wait_ms=rules.upload_wait_ms)
    look = look_of(view, limits, times.now_ms, known.listed)
    if look is None:
        raise ValueError(f"{known.key}: discovery lets nothing pass without row and offsets")
    if (denied := _denied(context, known.key, rules)) is not None:
        return _refused(look.row, denied)
    step = next_step(look)
    why = why_open(step) or ("" if terms.is_proven else _UNPROVEN)
    if not why:
        return None
    found = PartitionVacuum(deletion=DeletionPlan(key=known.key), row=look.row)
    return replace(found, outcome=REFUSED if isinstance(step, Refused) else LEFT, reason=why)


def _waits(
    view: PartitionView, rules: Rules, binding: Binding, times: VacuumLimits
) -> list[str]:
    """What is not due yet, and until when; clauses."""
    return [
        f"{counted(len(ends_ms), what)} {'waits' if len(ends_ms) == 1 else 'wait, the first'}"
        f" until {timestamp_text(min(ends_ms))}"
        for what, ends_ms in waits_until(view, rules, binding, times).items()
    ]
