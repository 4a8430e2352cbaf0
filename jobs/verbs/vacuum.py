"""`tierfold vacuum`: retires expired segments; deletes replaced, expired and orphaned ones.

    1 survey   rows, listings -> candidates (`jobs.verbs.vacuum_survey`); a dry run ends here
    2 claim    open the next epoch: the writer of a listed orphan can no longer commit it; where
               brokers serve a partition, look at them again (`jobs.verbs.vacuum_sends`)
    3 start    one commit: retire expired segments, move the log start, record the deletions
    4 recheck  read the rows again: same epoch, no candidate is live, the orphans are unchanged
    5 delete   the objects and incomplete uploads; an object that is already gone is fine
    6 finish   list again; let brokers forget what they had listed; one commit removes deleted
               segments
    7 release  one commit gives up all claims, whatever happened

Stages 2 to 6 are done for a wave of partitions at a time: a few at first, then as many as take half
a minute. The claim of a wave gives up the claims of the waves before it.

Catalog files that only the oldest history still needs are deleted too.

Nothing is deleted unless stage 3 is known to be committed. If the run is killed later, the rows
list the segments being deleted, and the next run continues.
(docs/decisions/0005-what-vacuum-may-delete.md)

Also a script for spark-submit: `spark-submit --master local[1] jobs/vacuum_job.py TIER …`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Final, TypeAlias

from tierfold.compaction.commits.commit import proposed
from tierfold.compaction.commits.holders import ENDED_RUN, NotClaimed, Skip, Wait
from tierfold.compaction.deletion.deletion_checks import (
    changed_ids,
    changed_uploads,
    deletion_violations,
)
from tierfold.compaction.deletion.deletion_plan import VacuumLimits
from tierfold.compaction.discovery.listing import IncompleteUpload
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.outcomes import Fenced, LostRace
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.waves import FIRST_WAVE_OF_OBJECTS
from tierfold.jobs.context.byte_progress import Step
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import deferred, finishing, is_stopping
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.known_partition import refusal_of
from tierfold.jobs.pipeline.pace import Pace, pace_ended
from tierfold.jobs.pipeline.partition_report import LEFT, NOT_BEGUN, VACUUMED
from tierfold.jobs.pipeline.run_records import keep_record
from tierfold.jobs.pipeline.survey import READERS
from tierfold.jobs.publishing.service_note import note_moved
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.vacuum_outcome import (
    GOES_ON,
    NOTHING_DELETED,
    DeletionCandidate,
    Kind,
    PartitionVacuum,
)
from tierfold.jobs.verbs.vacuum_sends import VacuumSends, sends_of
from tierfold.jobs.verbs.vacuum_survey import inspect
from tierfold.jobs.verbs.waiting import freed_scope, waiting
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.catalog.schema import bucket_of
from tierfold.storage.clock import now_ms
from tierfold.storage.tiers.remote_tier import Listing

_log: Final = logging.getLogger(__name__)

STOPS: Final = (
    "no further segment is deleted, what is deleted is recorded, and the claims are released"
)

Uploads: TypeAlias = Mapping[PartitionKey, tuple[IncompleteUpload, ...] | Exception]
"""By partition, what unfinished writes left of its objects, or why that is unknown."""


def vacuum(
    context: RunContext,
    settings: Settings,
    scope: Scope,
    times: VacuumLimits,
    *,
    max_duration_ms: int | None = None,
) -> list[PartitionVacuum]:
    """Vacuum every partition in scope; return them by topic and number.

    No wave begins `max_duration_ms` after the start; None: no limit. Raises BadSettings; an error
    in one partition is its outcome.
    """
    started_at_ms = now_ms()
    with context.seconds.timed(TimedStage.SURVEY):
        surveyed = inspect(context, settings, scope, times)
    pace = Pace(
        limit=FIRST_WAVE_OF_OBJECTS, started_at_ms=started_at_ms, max_duration_ms=max_duration_ms
    )
    with deferred():
        if (refusal := note_moved(context)) is not None:
            surveyed = [one.refused(refusal) if one.is_open else one for one in surveyed]
        sends = sends_of(context, settings, times)
        ended = _in_waves(context, surveyed, pace, sends)
        while keys := waiting(context, ended.values()):
            left = freed_scope(context, keys, "vacuum", scope, pace.ends_at_ms)
            if left is None:
                break
            try:
                again = inspect(context, settings, left, times)
            except TierfoldError:
                break  # What is done must be reported; what was waited for stays left.
            ended |= _in_waves(context, again, pace, sends)
        not_begun = [one for one in ended.values() if one.outcome in NOT_BEGUN]
        _record(context, not_begun, started_at_ms)
    return [*ended.values()]


def _in_waves(
    context: RunContext,
    surveyed: Sequence[PartitionVacuum],
    pace: Pace,
    sends: VacuumSends | None,
) -> dict[PartitionKey, PartitionVacuum]:
    """Vacuum the open partitions wave by wave; those that no wave reaches are left. Return all."""
    due = [partition for partition in surveyed if partition.is_open]
    ended = {partition.key: partition for partition in surveyed}
    if not due:
        return ended
    bytes_total = sum(partition.size_bytes for partition in due)
    ordered = sorted(due, key=lambda partition: bucket_of(partition.key.topic_id))
    progress = context.progress
    progress.begin(len(due), bytes_total)
    with (
        finishing(STOPS),
        HeldPartitions(context=context, verb="vacuum") as held,
        progress.wave(bytes_total),
        Step(progress, "delete", bytes_total) as step,
    ):
        for wave in pace.waves(ordered, attrgetter("objects")):
            began_at_ms = now_ms()
            of_wave = _vacuumed(held, sends, wave, step.advance)
            left = [partition for partition in of_wave if partition.outcome == LEFT]
            pace.leave(len(left), sum(partition.objects for partition in left))
            begun = [partition for partition in of_wave if partition.outcome != LEFT]
            _record(context, begun, began_at_ms)
            ended |= {partition.key: partition for partition in of_wave}
            progress.ended(len(of_wave))
    unreached = [partition for partition in ended.values() if partition.is_open]
    return ended | {partition.key: partition.left(pace_ended()) for partition in unreached}


def _vacuumed(
    held: HeldPartitions,
    sends: VacuumSends | None,
    wave: Sequence[PartitionVacuum],
    advance: Callable[[int], None],
) -> list[PartitionVacuum]:
    """Stages 2 to 6 for one wave; `advance` as in `_deleted`."""
    seconds = held.context.seconds
    with seconds.timed(TimedStage.CLAIM):
        claimed = _claimed(held, wave)
        if sends is not None:
            claimed = sends.before(held, claimed)
    with seconds.timed(TimedStage.COMMIT):
        started = _started(held, claimed)
    with seconds.timed(TimedStage.DELETE):
        return _deletion(held, sends, started, advance)


def _record(
    context: RunContext, partitions: Sequence[PartitionVacuum], started_at_ms: int
) -> None:
    chunks = [(0, partition.as_run()) for partition in partitions]
    keep_record(context, chunks, started_at_ms, "vacuum")


def _claimed(held: HeldPartitions, going: Sequence[PartitionVacuum]) -> list[PartitionVacuum]:
    """Stage 2: one commit opens the next epoch of all partitions that need a claim."""
    refused = held.claim([one.row for one in going if one.deletion.needs_claim], [*held.by_key])
    return [_with_claim(one, held, refused.get(one.key)) for one in going]


def _with_claim(
    partition: PartitionVacuum, held: HeldPartitions, why_not: NotClaimed | None
) -> PartitionVacuum:
    match why_not:
        case None:
            return _after(partition, held, {})
        case Skip(holder=holder) | Wait(holder=holder):
            return partition.left_to(holder)
        case LostRace() | Fenced():
            return partition.left_to(ENDED_RUN)
        case _:
            return partition.after(why_not)


def _after(
    partition: PartitionVacuum,
    held: HeldPartitions,
    refused: Mapping[PartitionKey, TierfoldError],
    so_far: str = NOTHING_DELETED,
) -> PartitionVacuum:
    """The partition after a step of its claim; unchanged if it needs none."""
    if partition.key in refused:
        return partition.after(refused[partition.key], so_far=so_far)
    now = held.by_key.get(partition.key)
    return partition if now is None else replace(partition, row=now.row).after(now.outcome, so_far)


def _started(held: HeldPartitions, going: Sequence[PartitionVacuum]) -> list[PartitionVacuum]:
    """Stage 3: commit what expired and what is being deleted from now on."""
    proposals = []
    for partition in going:
        at_ms = held.context.clock()
        updates = partition.deletion.updates(at_ms=at_ms, run=held.context.run)
        if partition.is_open and updates:
            proposal = proposed(
                partition.row,
                *updates,
                commit_id=new_commit_id(),
                at_ms=at_ms,
                requires=partition.deletion.requires,
            )
            proposals.append(proposal)
    held.commit(proposals)
    held.settle()
    return [_after(one, held, {}) for one in going]


def _deletion(
    held: HeldPartitions,
    sends: VacuumSends | None,
    started: Sequence[PartitionVacuum],
    advance: Callable[[int], None],
) -> list[PartitionVacuum]:
    """Stages 4 to 6."""
    context = held.context
    going = [partition for partition in started if partition.is_open]
    ended = [partition for partition in started if not partition.is_open]
    with ThreadPoolExecutor(READERS) as pool:
        read = _read_again(held, going)
        uploads = _uploads_of([partition for partition in read if partition.is_open], context)
        checked = list(pool.map(partial(_without_changed, context, uploads), read))
        ended += [partition for partition in checked if not partition.is_open]
        open_ones = [partition for partition in checked if partition.is_open]
        deleted = _deleted(context, open_ones, pool, advance)
        listed = _listed_again(context, deleted)
        return ended + _finished(held, listed if sends is None else sends.after(held, listed))


def _read_again(held: HeldPartitions, going: Sequence[PartitionVacuum]) -> list[PartitionVacuum]:
    """Stage 4: end partitions that another run claimed, or of which a candidate is live."""
    refused = held.recheck([one.key for one in going if one.deletion.needs_claim])
    return [_within_the_row(_after(one, held, refused)) for one in going]


def _within_the_row(partition: PartitionVacuum) -> PartitionVacuum:
    violations = deletion_violations(partition.deletion, partition.row)
    if not partition.is_open or not violations:
        return partition
    bug = f"{partition.key}: {'; '.join(violations)}; this is a bug, please report it"
    return partition.failed(bug)


def _uploads_of(partitions: Sequence[PartitionVacuum], context: RunContext) -> Uploads:
    """What unfinished writes left now, by partition, where the survey found some."""
    return context.tier.incomplete_uploads(
        [partition.key for partition in partitions if partition.deletion.incomplete_uploads]
    )


def _without_changed(
    context: RunContext, uploads: Uploads, partition: PartitionVacuum
) -> PartitionVacuum:
    """Keep candidates whose objects changed since the survey."""
    deletion, key = partition.deletion, partition.key
    if not partition.is_open:
        return partition
    found = uploads.get(key, ())
    if isinstance(found, Exception):
        return partition.failed(str(found))
    changed = changed_uploads(deletion, found)
    try:
        if deletion.orphans or deletion.set_apart:
            changed |= changed_ids(deletion, context.tier.listing(key))
    except TierfoldError as error:
        return partition.failed(str(error))
    stay = tuple(one for one in partition.candidates if one.names.isdisjoint(changed))
    return replace(partition, candidates=stay)


def _deleted(
    context: RunContext,
    going: Sequence[PartitionVacuum],
    pool: ThreadPoolExecutor,
    advance: Callable[[int], None],
) -> list[PartitionVacuum]:
    """Stage 5: delete the candidates; the first error ends it for the whole partition.

    Unfinished uploads come first: once one is aborted, its writer cannot complete a segment that
    loses its other objects. Where that fails, only retired segments are deleted. Only objects that
    were listed are deleted: what came later was not looked at. A signal ends it for all partitions:
    their rows keep the rest, and the claims are released. `advance` is called with the bytes of
    each candidate, deleted or not.
    """
    items = [(partition.key, one) for partition in going for one in partition.candidates]
    uploads = [item for item in items if item[1].kind is Kind.INCOMPLETE]
    segments = [item for item in items if item[1].kind is not Kind.INCOMPLETE]

    def failures(
        items: Sequence[tuple[PartitionKey, DeletionCandidate]], failed: Container[PartitionKey]
    ) -> dict[PartitionKey, str]:
        errors: dict[PartitionKey, str] = {}

        def delete(item: tuple[PartitionKey, DeletionCandidate]) -> int:
            key, candidate = item
            if is_stopping():
                errors.setdefault(key, "the run was stopped")
            stays = key in errors or (key in failed and candidate.kind is not Kind.RETIRED)
            try:
                for object_key, _ in () if stays else candidate.objects:
                    context.tier.delete(object_key)
            except TierfoldError as error:
                errors.setdefault(key, str(error))
            return candidate.size_bytes

        for size_bytes in pool.map(delete, items):
            advance(size_bytes)
        return errors

    not_aborted = failures(uploads, ())
    errors = not_aborted | failures(segments, not_aborted)
    return [
        one.failed(errors[one.key], so_far=GOES_ON) if one.key in errors else one for one in going
    ]


def _listed_again(
    context: RunContext, deleted: Sequence[PartitionVacuum]
) -> list[PartitionVacuum]:
    """List again: only objects that the listing lacks are gone, whatever the store answered."""
    segments = context.tier.listings([partition.key for partition in deleted])
    uploads = _uploads_of(deleted, context)
    return [
        _after_listing(partition, segments[partition.key], uploads.get(partition.key, ()))
        for partition in deleted
    ]


def _after_listing(
    partition: PartitionVacuum,
    segments: Listing | Exception,
    uploads: tuple[IncompleteUpload, ...] | Exception,
) -> PartitionVacuum:
    if isinstance(segments, Exception):
        return _not_listed(partition, segments)
    if isinstance(uploads, Exception):
        return _not_listed(partition, uploads)
    listed = {one.segment_id for one in segments} | {one.object_key for one in uploads}
    candidates = tuple(
        replace(one, is_gone=one.names.isdisjoint(listed)) for one in partition.candidates
    )
    return replace(partition, candidates=candidates)


def _not_listed(partition: PartitionVacuum, error: Exception) -> PartitionVacuum:
    why = refusal_of(error, str(partition.key)).sentence
    return partition.failed(why, so_far=GOES_ON) if partition.is_open else partition


def _finished(
    held: HeldPartitions, deleted: Sequence[PartitionVacuum]
) -> list[PartitionVacuum]:
    """Stage 6: remove deleted segments from the rows, also of partitions that failed."""
    held.commit(
        [
            proposed(one.row, *updates, commit_id=new_commit_id(), at_ms=held.context.clock())
            for one in deleted
            if (updates := one.deletion.last_updates(one.gone_ids))
        ]
    )
    held.settle()
    after = [_after(one, held, {}, GOES_ON) for one in deleted]
    return [replace(one, outcome=VACUUMED) if one.is_open else one for one in after]
