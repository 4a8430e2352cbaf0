"""`tierfold retain`: what expired is retired, and what nobody needs any more is deleted.

    1 look     rows, listings -> what may go (`jobs.verbs.vacuum_survey`); a dry run ends here
    2 claim    opens the next epoch: whoever wrote an orphan that was listed can commit it no more
    3 start    one commit: expired segments retired, log start moved, deletions said to start
    4 read     the rows again: still our epoch, nothing that is to go lives; orphans as they were
    5 delete   the objects, and leftovers; one that is gone already is fine
    6 finish   listed again; one commit forgets what is wholly gone and gives the claim back

Beside the partitions, files of the catalog that only its oldest past still needs are deleted.

Nothing is deleted unless 3 is known to have taken place. Killed anywhere, the marks of 3 say what
is being deleted, and the next run goes on. (docs/decisions/0005-what-retain-may-delete.md)

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
    proposed,
    verdict,
)
from tierfold.compaction.deletion.deletion_plan import (
    Sweep,
    SweepOrder,
    deletion_faults,
    taken_over,
)
from tierfold.compaction.discovery.view import PartitionView, state_with_new
from tierfold.compaction.model.errors import CorruptLog, TierfoldError, UnreadableObject
from tierfold.compaction.model.outcomes import Committed, LostRace, Outcome, Unknown
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.context.run_context import Wiring
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stopping import deferred, is_stopping
from tierfold.jobs.pipeline.commits import committed
from tierfold.jobs.pipeline.partition_report import FAILED, PLANNED
from tierfold.jobs.pipeline.run_records import keep_record
from tierfold.jobs.pipeline.survey import READERS
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.spark.progress import byte_bars
from tierfold.jobs.verbs.vacuum_outcome import Doomed, RetainReport
from tierfold.jobs.verbs.vacuum_survey import looked_at
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.clock import now_ms

BREATH: Final = 64
"""Partitions whose rows are read again at once, right before their objects are deleted."""

_NOTHING_DELETED: Final = "nothing was deleted"
_GOES_ON: Final = "what is being deleted is marked so, and the next run goes on"


@dataclass(slots=True, kw_only=True)
class Work:
    """One partition of which something is to go, on its way through the run."""

    report: RetainReport
    view: PartitionView
    sweep: Sweep
    row: PartitionState | None = None
    """The row under our epoch; None: no claim is needed, or none was had."""
    unknown: CommitProposal | None = None
    """The commit of stage 3, where it got no answer."""
    failure: str = ""
    """The first thing that went wrong while deleting."""

    @property
    def key(self) -> PartitionKey:
        """Which partition."""
        return self.report.key

    @property
    def is_open(self) -> bool:
        """Nothing has ended it yet."""
        return self.report.outcome == PLANNED

    def fail(self, what: str, *, so_far: str = _NOTHING_DELETED) -> None:
        """It ends here; other partitions go on."""
        reason = f"{what.rstrip('.')}; {so_far}"
        self.report = replace(self.report, outcome=FAILED, reason=reason)

    def end(self, outcome: Outcome, *, so_far: str = _NOTHING_DELETED) -> None:
        """It ends as a claim or a commit has ended."""
        self.report = self.report.ended(outcome, so_far=so_far)


def retain(
    live: Wiring,
    settings: Settings,
    scope: Scope,
    times: SweepOrder,
    console: Console,
    *,
    is_dry_run: bool = False,
) -> list[RetainReport]:
    """Sweep every partition in scope; one report each, by topic and number.

    A dry run looks, and changes nothing. `console` gets the progress. Raises BadSettings; whatever
    is wrong with one partition is in its report.
    """
    started_at_ms = now_ms()
    looks = looked_at(live, settings, scope, times)
    reports = {each.report.key: each.report for each in looks}
    works = [
        Work(report=each.report, view=each.view, sweep=each.sweep)
        for each in looks
        if each.report.outcome == PLANNED and each.view is not None and each.sweep is not None
    ]
    if not is_dry_run:
        with deferred():
            if works:
                _claim(live, [each for each in works if each.sweep.needs_claim])
                _start(live, [each for each in works if each.row is not None])
                _sweep(live, [each for each in works if each.is_open], console)
                reports |= {each.key: each.report for each in works}
            chunks = [(0, each.as_run()) for each in reports.values()]
            keep_record(live, chunks, started_at_ms, "retain", console)
    return [reports[each.report.key] for each in looks]


def vacuumed(live: Wiring, console: Console, *, is_dry_run: bool = False) -> int:
    """Let the catalog forget what was superseded for thirty days; how many of its files go.

    That is no partition's matter: where it fails, `console` says so, and nothing else changes.
    """
    gone = 0
    if is_stopping():
        return gone
    try:
        gone = live.catalog.vacuum(is_dry_run=is_dry_run)
        gone += RunsTable(live.catalog_uri).vacuum(is_dry_run=is_dry_run)
    except TierfoldError as error:
        said = f"The catalog's old files could not be deleted: {error}"
        console.print(Text(said, style="yellow"))
    return gone


def _claim(live: Wiring, works: Sequence[Work]) -> None:
    """Stage 2: one commit opens the next epoch of all of them."""
    rows = [state_with_new(each.view) for each in works]
    try:
        claims = live.catalog.claim(rows, live.run, at_ms=live.clock()) if rows else {}
    except (CorruptLog, UnreadableObject) as error:
        for each in works:
            each.fail(str(error))
        return
    for each in works:
        claim = claims[each.key]
        if isinstance(claim.outcome, Committed):
            each.row = claim.state
            each.report = replace(each.report, epoch=claim.state.epoch)
        else:
            each.end(claim.outcome)


def _start(live: Wiring, works: Sequence[Work]) -> None:
    """Stage 3: the rows say what expired, and what is being deleted from now on."""
    proposals = {}
    for each in works:
        at_ms = live.clock()
        updates = each.sweep.updates(at_ms=at_ms, run=live.run)
        if each.row is not None and updates:
            proposals[each.key] = proposed(
                each.row,
                *updates,
                commit_id=new_commit_id(),
                at_ms=at_ms,
                requires=each.sweep.requires,
            )
    outcomes = committed(live.catalog, [*proposals.values()])
    for each in works:
        outcome = outcomes.get(each.key)
        if isinstance(outcome, Committed) and each.row is not None:
            each.row = applied(proposals[each.key], each.row)
        elif isinstance(outcome, Unknown):
            each.unknown = proposals[each.key]
        elif outcome is not None:
            each.end(outcome)


def _hold(row: PartitionState) -> EpochIs:
    return EpochIs(epoch=row.epoch, owner_run=row.owner_run)


def _sweep(live: Wiring, works: Sequence[Work], console: Console) -> None:
    """Stages 4 to 6, some partitions at a time, so that what was read again is fresh."""
    with ThreadPoolExecutor(READERS) as pool, byte_bars(console) as bars:
        bar = bars.add_task("delete", total=sum(each.report.size_bytes for each in works))
        for first in range(0, len(works), BREATH):
            breath = works[first : first + BREATH]
            _read_again(live, [each for each in breath if each.row is not None])
            list(pool.map(lambda each: _keep_what_changed(live, each), breath))
            held = [each for each in breath if each.is_open]
            items = [(each, item) for each in held for item in each.report.doomed]
            for _, item in pool.map(lambda pair: _deleted(live, *pair), items):
                bars.advance(bar, item.size_bytes)
            list(pool.map(lambda each: _look_again(live, each), held))
            _finish(live, held)


def _read_again(live: Wiring, works: Sequence[Work]) -> None:
    """Stage 4: of what is not ours any more, or lives, nothing is deleted."""
    try:
        rows = live.catalog.look(each.key for each in works)
    except TierfoldError as error:
        for each in works:
            each.fail(str(error))
        return
    found = rows.by_key
    for each in works:
        refused = rows.refused.get((each.key.topic_id, each.key.partition))
        if refused is None:
            _judge(each, found.get(each.key))
        else:
            each.fail(str(refused))


def _keep_what_changed(live: Wiring, each: Work) -> None:
    """What got another object since it was looked at is not what was judged: it stays.

    A copy that goes on may have brought the `.log` of an upload that seemed to hold nothing.
    """
    judged = {one.segment_id: one for one in (*each.sweep.orphans, *each.sweep.set_apart)}
    if not (each.is_open and judged):
        return
    try:
        found = {one.segment_id: one for one in live.tier.listing(each.key)}
    except TierfoldError as error:
        each.fail(str(error))
        return
    changed = {name for name, was in judged.items() if found.get(name, was) != was}
    kept = tuple(one for one in each.report.doomed if one.segment_id not in changed)
    each.report = replace(each.report, doomed=kept)


def _judge(each: Work, row: PartitionState | None) -> None:
    if row is None or each.row is None:
        each.end(LostRace(found_commit_id=""))
        return
    lost = taken_over(row, _hold(each.row))
    if lost is not None:
        each.end(lost)
        return
    if each.unknown is not None and not isinstance(verdict(each.unknown, row), Committed):
        each.end(Unknown(commit_id=each.unknown.commit_id, cause="it may still take place"))
        return
    each.row = row
    faults = deletion_faults(each.sweep, row)
    if faults:
        each.fail(f"{each.key}: {'; '.join(faults)}; this is a bug, please report it")


def _deleted(live: Wiring, each: Work, item: Doomed) -> tuple[Work, Doomed]:
    """Stage 5, of one segment or leftover; after an error nothing more of its partition.

    After a signal nothing more of any: what is left is marked, and the claims are given back.
    """
    if is_stopping():
        each.failure = each.failure or "the run was told to stop"
    try:
        if not each.failure and item.segment_id:
            live.tier.delete_segment(each.key, item.segment_id, item.start_offset)
        elif not each.failure:
            for object_key, _ in item.objects:
                live.tier.store.delete(object_key)
    except TierfoldError as error:
        each.failure = str(error)
    return each, item


def _look_again(live: Wiring, each: Work) -> None:
    """What is gone is what a listing no longer shows, whatever the store answered."""
    try:
        listed = {one.segment_id for one in live.tier.listing(each.key)}
        unfinished = {one.object_key for one in live.tier.leftovers(each.key)}
    except TierfoldError as error:
        each.failure = each.failure or str(error)
        return
    each.report = replace(
        each.report,
        doomed=tuple(
            replace(item, is_gone=item.names.isdisjoint(listed | unfinished))
            for item in each.report.doomed
        ),
    )


def _finish(live: Wiring, works: Sequence[Work]) -> None:
    """Stage 6: the rows forget what is wholly gone, and the claims are given back."""
    proposals = {
        each.key: proposed(
            each.row,
            *_last_updates(live, each),
            commit_id=new_commit_id(),
            at_ms=live.clock(),
        )
        for each in works
        if each.row is not None
    }
    outcomes = committed(live.catalog, [*proposals.values()])
    for each in works:
        outcome = outcomes.get(each.key)
        if outcome is not None and not isinstance(outcome, Committed):
            each.end(outcome, so_far=_GOES_ON)
        elif each.failure:
            each.fail(each.failure, so_far=_GOES_ON)
        else:
            each.report = each.report.swept()


def _last_updates(live: Wiring, each: Work) -> tuple[Update, ...]:
    gone = {item.segment_id for item in each.report.doomed if item.is_gone}
    finished = tuple(marked for marked in each.sweep.marked_ids if marked in gone)
    release = ReleaseClaim(run=live.run)
    return (FinishDeletion(ids=finished), release) if finished else (release,)
