"""Stage 1 of `vacuum`: finds what may be deleted of each partition.

It reads rows and listings; of a segment that no row names, also its end offset and its writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tierfold.compaction.deletion.deletion_plan import (
    DeletionPlan,
    VacuumLimits,
    deletion_plan_of,
    run_at_work,
)
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.unknown_segments import row_view
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.wording import counted
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.discovery import facts_of, view_from
from tierfold.jobs.pipeline.partition_report import LEFT, NOTHING_TO_DO, PLANNED, REFUSED
from tierfold.jobs.pipeline.survey import READERS, KnownPartition, known_among, refusal_of
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.vacuum_outcome import DeletionCandidate, Kind, VacuumReport
from tierfold.storage.catalog.rows import RowsRead
from tierfold.storage.tiers.local_tiered_storage import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One partition after the survey."""

    report: VacuumReport
    """`PLANNED` if there is something to do."""
    view: PartitionView | None = None
    """None, like the next field, if the partition is refused; it is then left unchanged."""
    deletion: DeletionPlan | None = None


def inspect(
    context: RunContext, settings: Settings, scope: Scope, times: VacuumLimits
) -> list[Inspection]:
    """Return what may be deleted of each partition, by topic and number; nothing is changed.

    The topic's policy does not matter. Raises BadSettings; an error in one partition is in its
    report.
    """
    everywhere, rows = context.tier.partitions(), context.catalog.look()
    keys = scope.chosen(sorted({*everywhere, *_emptied(rows)}))
    known = known_among(everywhere, keys, rows)
    rules = settings.rules_by_topic(partition.key.topic for partition in known)
    with ThreadPoolExecutor(READERS) as pool:
        return list(
            pool.map(
                lambda partition: _inspect(context, partition, rules[partition.key.topic], times),
                known,
            )
        )


def _emptied(rows: RowsRead) -> Iterator[PartitionKey]:
    """Partitions without live segments whose row still lists segments.

    A store without folders no longer lists them once their last object is gone.
    """
    return (key for key, row in rows.by_key.items() if row.retired and not row.segments)


def _inspect(
    context: RunContext, known: KnownPartition, rules: Rules, times: VacuumLimits
) -> Inspection:
    look = _judged(context, known, rules, times)
    epoch = 0 if known.state is None else known.state.epoch
    return replace(look, report=replace(look.report, epoch=epoch))


def _judged(
    context: RunContext, known: KnownPartition, rules: Rules, times: VacuumLimits
) -> Inspection:
    key = known.key
    try:
        if known.refusal is not None:
            return _refused(key, known.refusal)
        facts = facts_of(context, key, known.state)
        view = view_from(context, facts)
        refusal = view if isinstance(view, Refusal) else None
        if isinstance(view, Refusal):
            # Segments outside both histories may still be deleted, which can resolve the refusal.
            is_diverged = view.reason is RefusalReason.LINEAGE_DIVERGED
            rest = row_view(facts, view) if is_diverged else None
            if rest is None:
                return _refused(key, view)
            view = rest
        incomplete_uploads = context.tier.incomplete_uploads(key)
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        return _refused(key, refusal_of(error, str(key)))
    is_refused = refusal is not None
    deletion = deletion_plan_of(
        view, rules, times, incomplete_uploads=incomplete_uploads, is_refused=is_refused
    )
    if refusal is not None and deletion.is_nothing:
        return _refused(key, refusal, "; ".join(_waits(view, rules, times)))
    return _look(context, view, deletion, rules, times)


def _refused(key: PartitionKey, refusal: Refusal, waits: str = "") -> Inspection:
    """`waits`: what is deleted later nevertheless, and when; empty: nothing."""
    reason = f"{waits}; {refusal.sentence}" if waits else refusal.sentence
    return Inspection(report=VacuumReport(key=key, outcome=REFUSED, reason=reason))


def _look(
    context: RunContext,
    view: PartitionView,
    deletion: DeletionPlan,
    rules: Rules,
    times: VacuumLimits,
) -> Inspection:
    report = VacuumReport(
        key=view.key,
        outcome=PLANNED,
        expired=deletion.expired,
        log_start_offset=deletion.log_start_offset,
        candidates=tuple(_candidates(context, view, deletion)),
        notes=deletion.notes,
    )
    if deletion.is_nothing:
        report = replace(report, outcome=NOTHING_TO_DO, reason=_waiting(view, rules, times))
    elif (
        deletion.needs_claim and (run := run_at_work(view.state, times)) and view.state is not None
    ):
        reason = (
            f"run {run} holds it, its last commit was at"
            f" {timestamp_text(view.state.committed_at_ms)}: once"
            " it is silent for --orphan-age, it is taken over"
        )
        report = replace(report, outcome=LEFT, reason=reason)
    return Inspection(report=report, deletion=deletion, view=view)


def _waiting(view: PartitionView, rules: Rules, times: VacuumLimits) -> str:
    """Why there is nothing to do; the notes list what may not be deleted at all."""
    is_anything = bool(view.orphans and rules.is_detached)
    is_anything |= view.state is not None and bool(view.state.whole_retired)
    return "; ".join(_waits(view, rules, times)) or ("" if is_anything else "nothing is due")


def _waits(view: PartitionView, rules: Rules, times: VacuumLimits) -> Iterator[str]:
    """Clauses on what is not due yet, and until when."""
    retired = [] if view.state is None else [r.retired_at_ms for r in view.state.whole_retired]
    takes_apart = rules.is_detached and times.takes_set_apart
    for what, begun, stays_ms in (
        ("retired segment", retired, times.grace_ms),
        ("orphan", _written(view.orphans) if rules.is_detached else [], times.orphan_age_ms),
        ("segment set apart", _written(view.set_apart) if takes_apart else [], times.orphan_age_ms),
    ):
        ends = [partition + stays_ms for partition in begun if partition + stays_ms > times.now_ms]
        if ends:
            wait = "waits" if len(ends) == 1 else "wait, the first"
            yield f"{counted(len(ends), what)} {wait} until {timestamp_text(min(ends))}"


def _written(found: Sequence[ListedSegment]) -> list[int]:
    return [segment.modified_ms for segment in found]


def _candidates(
    context: RunContext, view: PartitionView, deletion: DeletionPlan
) -> Iterator[DeletionCandidate]:
    """Everything to delete, with the objects in the listing."""
    retired = {entry.segment_id: entry for entry in view.retired}
    for gone in (*deletion.going, *deletion.starting):
        found = retired.get(gone.segment.segment_id)
        why = f"retired at {timestamp_text(gone.retired_at_ms)} by run {gone.retired_by_run}"
        if gone.deletion_started_at_ms is not None:
            why += f", deletion started at {timestamp_text(gone.deletion_started_at_ms)}"
        yield DeletionCandidate(
            kind=Kind.RETIRED,
            why=why,
            segment_id=gone.segment.segment_id,
            start_offset=gone.segment.own_start_offset,
            objects=() if found is None else _objects(context, view.key, found),
        )
    for orphan in deletion.orphans:
        whole = "" if orphan.is_complete else ", incomplete"
        yield DeletionCandidate(
            kind=Kind.ORPHAN,
            why=f"no row names it, written at {timestamp_text(orphan.modified_ms)}{whole}",
            segment_id=orphan.segment_id,
            start_offset=orphan.start_offset,
            objects=_objects(context, view.key, orphan),
        )
    for apart in deletion.set_apart:
        yield DeletionCandidate(
            kind=Kind.SET_APART,
            why=f"outside the leader epoch lineage, written at {timestamp_text(apart.modified_ms)}",
            segment_id=apart.segment_id,
            start_offset=apart.start_offset,
            objects=_objects(context, view.key, apart),
        )
    for left in deletion.incomplete_uploads:
        yield DeletionCandidate(
            kind=Kind.INCOMPLETE,
            why=f"of a write that never ended, at {timestamp_text(left.modified_ms)}",
            objects=((left.object_key, left.size_bytes),),
        )


def _objects(
    context: RunContext, key: PartitionKey, segment: ListedSegment
) -> tuple[tuple[str, int], ...]:
    return tuple(
        (context.tier.object_key(key, segment.segment_id, segment.start_offset, Part(part)), size)
        for part, size in segment.parts
    )
