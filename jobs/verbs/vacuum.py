"""`tierfold vacuum`: retires expired segments; deletes replaced, expired and orphaned ones.

    1 look     rows, listings -> candidates (`jobs.verbs.vacuum_survey`); a dry run ends here
    2 claim    open the next epoch: the writer of a listed orphan can no longer commit it
    3 start    one commit: retire expired segments, move the log start, record the deletions
    4 read     the rows again: still our epoch, no candidate is live; the orphans are unchanged
    5 delete   the objects and incomplete uploads; one that is already gone is fine
    6 finish   list again; one commit removes deleted segments and releases the claim

Catalog files that only the oldest history still needs are deleted too.

Nothing is deleted unless 3 is known to be committed. If the run is killed, the rows list what is
being deleted since 3, and the next run goes on. (docs/decisions/0005-what-vacuum-may-delete.md)

Also a script for spark-submit: `spark-submit --master local[1] jobs/vacuum_job.py TIER …`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from rich.console import Console
from rich.text import Text

from tierfold.compaction.commits.commit import (
    CommitProposal,
    EpochIs,
    FinishDeletion,
    ReleaseClaim,
    Update,
    applied,
    outcome_of,
    proposed,
)
from tierfold.compaction.deletion.deletion_plan import (
    DeletionPlan,
    VacuumLimits,
    deletion_violations,
    taken_over,
)
from tierfold.compaction.discovery.view import PartitionView, state_with_new
from tierfold.compaction.model.errors import CorruptLog, TierfoldError, UnreadableObject
from tierfold.compaction.model.outcomes import Committed, LostRace, Outcome, Unknown
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.context.progress_bars import byte_bars
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stopping import deferred, is_stopping
from tierfold.jobs.pipeline.commits import committed
from tierfold.jobs.pipeline.partition_report import FAILED, PLANNED
from tierfold.jobs.pipeline.run_records import keep_record
from tierfold.jobs.pipeline.survey import READERS
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.vacuum_outcome import DeletionCandidate, VacuumReport
from tierfold.jobs.verbs.vacuum_survey import inspect
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.clock import now_ms

PARTITIONS_PER_RECHECK: Final = 64
"""Partitions whose rows are read again together, right before their objects are deleted."""

_NOTHING_DELETED: Final = "nothing was deleted"
_GOES_ON: Final = "what is being deleted is marked so, and the next run goes on"


@dataclass(slots=True, kw_only=True)
class PartitionVacuum:
    """The state of one partition with candidates during the run."""

    report: VacuumReport
    view: PartitionView
    deletion: DeletionPlan
    row: PartitionState | None = None
    """The row under this run's epoch; None: no claim was needed, or the claim failed."""
    unknown: CommitProposal | None = None
    """The commit of stage 3, if it got no answer."""
    failure: str = ""
    """The first error during the deletion."""

    @property
    def key(self) -> PartitionKey:
        """The partition's key."""
        return self.report.key

    @property
    def is_open(self) -> bool:
        """The partition has not ended yet."""
        return self.report.outcome == PLANNED

    def fail(self, what: str, *, so_far: str = _NOTHING_DELETED) -> None:
        """End the partition with a failure; other partitions go on."""
        reason = f"{what.rstrip('.')}; {so_far}"
        self.report = replace(self.report, outcome=FAILED, reason=reason)

    def end(self, outcome: Outcome, *, so_far: str = _NOTHING_DELETED) -> None:
        """End the partition with the outcome of a claim or a commit."""
        self.report = self.report.ended(outcome, so_far=so_far)


def vacuum(
    context: RunContext,
    settings: Settings,
    scope: Scope,
    times: VacuumLimits,
    console: Console,
    *,
    is_dry_run: bool = False,
) -> list[VacuumReport]:
    """Vacuum every partition in scope; return one report each, by topic and number.

    A dry run changes nothing. `console` shows the progress. Raises BadSettings; an error in one
    partition is in its report.
    """
    started_at_ms = now_ms()
    looks = inspect(context, settings, scope, times)
    reports = {look.report.key: look.report for look in looks}
    works = [
        PartitionVacuum(report=look.report, view=look.view, deletion=look.deletion)
        for look in looks
        if look.report.outcome == PLANNED and look.view is not None and look.deletion is not None
    ]
    if not is_dry_run:
        with deferred():
            if works:
                _claim(context, [work for work in works if work.deletion.needs_claim])
                _start(context, [work for work in works if work.row is not None])
                _deletion(context, [work for work in works if work.is_open], console)
                reports |= {work.key: work.report for work in works}
            chunks = [(0, report.as_run()) for report in reports.values()]
            keep_record(context, chunks, started_at_ms, "vacuum", console)
    return [reports[look.report.key] for look in looks]


def catalog_cleaned(context: RunContext, console: Console, *, is_dry_run: bool = False) -> int:
    """Delete catalog files that were superseded for thirty days; return how many.

    If that fails, `console` gets a warning; the partitions' reports do not change.
    """
    gone = 0
    if is_stopping():
        return gone
    try:
        gone = context.catalog.clean_up(is_dry_run=is_dry_run)
        gone += RunsTable(context.catalog_uri).clean_up(is_dry_run=is_dry_run)
    except TierfoldError as error:
        said = f"The catalog's old files could not be deleted: {error}"
        console.print(Text(said, style="yellow"))
    return gone


def _claim(context: RunContext, works: Sequence[PartitionVacuum]) -> None:
    """Stage 2: one commit opens the next epoch of all partitions."""
    rows = [state_with_new(partition.view) for partition in works]
    try:
        claims = context.catalog.claim(rows, context.run, at_ms=context.clock()) if rows else {}
    except (CorruptLog, UnreadableObject) as error:
        for partition in works:
            partition.fail(str(error))
        return
    for partition in works:
        claim = claims[partition.key]
        if isinstance(claim.outcome, Committed):
            partition.row = claim.state
            partition.report = replace(partition.report, epoch=claim.state.epoch)
        else:
            partition.end(claim.outcome)


def _start(context: RunContext, works: Sequence[PartitionVacuum]) -> None:
    """Stage 3: commit what expired and what is being deleted from now on."""
    proposals = {}
    for partition in works:
        at_ms = context.clock()
        updates = partition.deletion.updates(at_ms=at_ms, run=context.run)
        if partition.row is not None and updates:
            proposals[partition.key] = proposed(
                partition.row,
                *updates,
                commit_id=new_commit_id(),
                at_ms=at_ms,
                requires=partition.deletion.requires,
            )
    outcomes = committed(context.catalog, [*proposals.values()])
    for partition in works:
        outcome = outcomes.get(partition.key)
        if isinstance(outcome, Committed) and partition.row is not None:
            partition.row = applied(proposals[partition.key], partition.row)
        elif isinstance(outcome, Unknown):
            partition.unknown = proposals[partition.key]
        elif outcome is not None:
            partition.end(outcome)


def _hold(row: PartitionState) -> EpochIs:
    return EpochIs(epoch=row.epoch, owner_run=row.owner_run)


def _deletion(context: RunContext, works: Sequence[PartitionVacuum], console: Console) -> None:
    """Stages 4 to 6, some partitions at a time, so that the rows are fresh."""
    with ThreadPoolExecutor(READERS) as pool, byte_bars(console) as bars:
        bar = bars.add_task("delete", total=sum(partition.report.size_bytes for partition in works))
        for first in range(0, len(works), PARTITIONS_PER_RECHECK):
            checked = works[first : first + PARTITIONS_PER_RECHECK]
            _read_again(context, [partition for partition in checked if partition.row is not None])
            list(pool.map(lambda partition: _keep_what_changed(context, partition), checked))
            held = [partition for partition in checked if partition.is_open]
            items = [(owner, item) for owner in held for item in owner.report.candidates]
            for _, item in pool.map(lambda pair: _deleted(context, *pair), items):
                bars.advance(bar, item.size_bytes)
            list(pool.map(lambda partition: _look_again(context, partition), held))
            _finish(context, held)


def _read_again(context: RunContext, works: Sequence[PartitionVacuum]) -> None:
    """Stage 4: end partitions that another run claimed, or of which a candidate is live."""
    try:
        rows = context.catalog.look(partition.key for partition in works)
    except TierfoldError as error:
        for partition in works:
            partition.fail(str(error))
        return
    found = rows.by_key
    for partition in works:
        refused = rows.refused.get((partition.key.topic_id, partition.key.partition))
        if refused is None:
            _judge(partition, found.get(partition.key))
        else:
            partition.fail(str(refused))


def _keep_what_changed(context: RunContext, partition: PartitionVacuum) -> None:
    """Keep candidates whose objects changed since the survey.

    An ongoing copy may have added the `.log` of an upload that had none.
    """
    judged = {
        one.segment_id: one for one in (*partition.deletion.orphans, *partition.deletion.set_apart)
    }
    if not (partition.is_open and judged):
        return
    try:
        found = {one.segment_id: one for one in context.tier.listing(partition.key)}
    except TierfoldError as error:
        partition.fail(str(error))
        return
    changed = {name for name, was in judged.items() if found.get(name, was) != was}
    kept = tuple(one for one in partition.report.candidates if one.segment_id not in changed)
    partition.report = replace(partition.report, candidates=kept)


def _judge(partition: PartitionVacuum, row: PartitionState | None) -> None:
    if row is None or partition.row is None:
        partition.end(LostRace(found_commit_id=""))
        return
    lost = taken_over(row, _hold(partition.row))
    if lost is not None:
        partition.end(lost)
        return
    if partition.unknown is not None and not isinstance(
        outcome_of(partition.unknown, row), Committed
    ):
        partition.end(
            Unknown(commit_id=partition.unknown.commit_id, cause="it may still take place")
        )
        return
    partition.row = row
    violations = deletion_violations(partition.deletion, row)
    if violations:
        partition.fail(
            f"{partition.key}: {'; '.join(violations)}; this is a bug, please report it"
        )


def _deleted(
    context: RunContext, partition: PartitionVacuum, item: DeletionCandidate
) -> tuple[PartitionVacuum, DeletionCandidate]:
    """Stage 5 for one segment or incomplete upload; an error ends it for the whole partition.

    A signal ends it for all partitions: the rest stays recorded, and the claims are released.
    """
    if is_stopping():
        partition.failure = partition.failure or "the run was told to stop"
    try:
        if not partition.failure and item.segment_id:
            context.tier.delete_segment(partition.key, item.segment_id, item.start_offset)
        elif not partition.failure:
            for object_key, _ in item.objects:
                context.tier.store.delete(object_key)
    except TierfoldError as error:
        partition.failure = str(error)
    return partition, item


def _look_again(context: RunContext, partition: PartitionVacuum) -> None:
    """List again: only what the listing no longer shows is gone, whatever the store answered."""
    try:
        listed = {one.segment_id for one in context.tier.listing(partition.key)}
        unfinished = {one.object_key for one in context.tier.incomplete_uploads(partition.key)}
    except TierfoldError as error:
        partition.failure = partition.failure or str(error)
        return
    partition.report = replace(
        partition.report,
        candidates=tuple(
            replace(item, is_gone=item.names.isdisjoint(listed | unfinished))
            for item in partition.report.candidates
        ),
    )


def _finish(context: RunContext, works: Sequence[PartitionVacuum]) -> None:
    """Stage 6: remove deleted segments from the rows and release the claims."""
    proposals = {
        partition.key: proposed(
            partition.row,
            *_last_updates(context, partition),
            commit_id=new_commit_id(),
            at_ms=context.clock(),
        )
        for partition in works
        if partition.row is not None
    }
    outcomes = committed(context.catalog, [*proposals.values()])
    for partition in works:
        outcome = outcomes.get(partition.key)
        if outcome is not None and not isinstance(outcome, Committed):
            partition.end(outcome, so_far=_GOES_ON)
        elif partition.failure:
            partition.fail(partition.failure, so_far=_GOES_ON)
        else:
            partition.report = partition.report.vacuumed()


def _last_updates(context: RunContext, partition: PartitionVacuum) -> tuple[Update, ...]:
    gone = {item.segment_id for item in partition.report.candidates if item.is_gone}
    finished = tuple(marked for marked in partition.deletion.marked_ids if marked in gone)
    release = ReleaseClaim(run=context.run)
    return (FinishDeletion(ids=finished), release) if finished else (release,)
