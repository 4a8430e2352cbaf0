"""`tierfold upload`: uploads the rolled segments of a broker's log directory into a tier.

    1 survey   the directory, rows, listings -> what becomes of each segment; a dry run ends here
    2 claim    one commit opens the next epoch of all partitions that get something
    3 upload   each segment: checked whole, then written under an id made of its bytes; what the
               tier has already is not written again
    4 adopt    list and inspect again, as any run does; a second claim makes the new segments live
    5 release  one commit gives up all claims

If another run claims a partition meanwhile, the second claim is fenced. What was written stays in
the tier as an upload that no row names, and the next run judges it by its leader epochs. Nothing of
the directory is written, renamed or deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, NamedTuple

from tierfold.compaction.commits.receipts import VerifiedParts
from tierfold.compaction.discovery.candidates import Candidate, EndFrom
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.view import Refusal, never_claimed, state_with_new
from tierfold.compaction.model.cleaner_vectors import with_vectors
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.compaction.uploading.local_log import LocalLog, LocalSegment
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import deferred, finishing, is_stopping, stopped_by
from tierfold.jobs.pipeline.claim_report import claim_report
from tierfold.jobs.pipeline.discovery import facts_of, view_from
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.partition_report import (
    LEFT,
    PLANNED,
    UPLOADED,
    PartitionReport,
    failure_report,
)
from tierfold.jobs.pipeline.run_records import keep_record
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.upload_survey import PartitionUpload, UploadFacts, survey_uploads
from tierfold.storage.clock import now_ms
from tierfold.storage.log_dirs.log_directory import LogDirectory
from tierfold.storage.log_dirs.segment_files import SegmentReplaced, opened
from tierfold.storage.log_dirs.segment_upload import (
    address_of_upload,
    checked,
    metadata_of,
    uploaded,
)

UPLOADERS: Final = 4
"""Partitions at a time: each reads a disk and waits for the store."""

_STOPS: Final = "no further segment is uploaded, and what is uploaded is recorded"


class _Due(NamedTuple):
    """A partition that something is to be uploaded of."""

    planned: PartitionReport
    facts: UploadFacts

    @property
    def key(self) -> PartitionKey:
        return self.planned.key


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What was written of one partition, and why no more."""

    segments: tuple[Segment, ...] = ()
    """All that the tier has of what was planned, in offset order."""
    verified: VerifiedParts = field(default_factory=VerifiedParts)
    size_bytes: int = 0
    """Bytes of the `.log`s that were written now."""
    note: str = ""
    """Why the rest was not, a sentence; empty: all was."""
    error: str = ""


def upload(
    context: RunContext,
    settings: Settings,
    directory: LogDirectory,
    scope: Scope,
    *,
    is_new: bool = False,
) -> list[PartitionUpload]:
    """Upload what is due of every partition in scope; return them by topic and number.

    `is_new`: there is no tier yet. Raises as `survey_uploads`; an error in one partition is its
    outcome.
    """
    started_at_ms = now_ms()
    with context.seconds.timed(TimedStage.SURVEY):
        surveyed = survey_uploads(context, settings, directory, scope, is_new=is_new)
    due = [_Due(one.report, one.facts) for one in surveyed if one.facts and one.outcome == PLANNED]
    ended = {one.key: one.report for one in surveyed}
    if due:
        size_bytes = sum(one.planned.bytes_out for one in due)
        context.progress.begin(len(due), size_bytes)
        holding = HeldPartitions(context=context, verb="upload")
        with deferred(), finishing(_STOPS), holding as held:
            ended |= _uploaded(context, directory, held, due)
    with deferred():
        keep_record(context, [(0, report) for report in ended.values()], started_at_ms, "upload")
    return [replace(one, report=ended[one.key]) for one in surveyed]


def _uploaded(
    context: RunContext, directory: LogDirectory, held: HeldPartitions, due: Sequence[_Due]
) -> dict[PartitionKey, PartitionReport]:
    """Claim, write and adopt; return how each partition ended."""
    by_key = {one.key: one for one in due}
    with context.seconds.timed(TimedStage.COMMIT):
        why_not = held.claim([_row_before(one.facts, one.key) for one in due])
    ended = {key: claim_report(by_key[key].planned, why) for key, why in why_not.items()}
    claimed = [one for one in due if one.key not in ended]
    written = _written_each(context, directory, claimed)
    rows: list[PartitionState] = []
    for one in claimed:
        done = written[one.key]
        if one.facts.moves_log_start:  # The claim has moved it.
            epoch = held.by_key[one.key].row.epoch
            ended[one.key] = replace(one.planned, outcome=UPLOADED, epoch=epoch)
            continue
        if not done.segments and not done.error:
            ended[one.key] = replace(one.planned, outcome=LEFT, reason=done.note, bytes_out=0)
            continue
        row = _row_after(context, held.by_key[one.key].row, done)
        if isinstance(row, str):
            ended[one.key] = failure_report(one.planned, row)
        else:
            rows.append(row)
    with context.seconds.timed(TimedStage.COMMIT):
        lost = held.claim(rows)
    for row in rows:
        planned = by_key[row.key].planned
        why = lost.get(row.key)
        report = _done(planned, written[row.key]) if why is None else claim_report(planned, why)
        ended[row.key] = replace(report, epoch=held.by_key[row.key].row.epoch)
    return ended


def _row_before(facts: UploadFacts, key: PartitionKey) -> PartitionState:
    """The row that the first claim starts from; an empty log begins with the first upload."""
    view = facts.view
    if view.state is not None and view.state.segments:
        return view.state
    if view.state is None and view.segments:
        return state_with_new(view)
    row = never_claimed(key) if view.state is None else view.state
    skipped = facts.plan.log_start_offset
    start = facts.plan.uploads[0].start_offset if skipped is None else skipped
    start = max(start, row.log_start_offset)
    begun = tuple(epoch for epoch in facts.log.lineage if epoch.start_offset < start)
    return replace(row, log_start_offset=start, lineage=begun)


def _written_each(
    context: RunContext, directory: LogDirectory, due: Sequence[_Due]
) -> dict[PartitionKey, _Written]:
    """Write what is planned of each partition."""
    if not due:
        return {}
    uploader = _Uploader(context, directory, context.catalog.fingerprint())

    def written(one: _Due) -> _Written:
        found = uploader.written(one.facts)
        context.progress.ended(1)
        return found

    with ThreadPoolExecutor(UPLOADERS) as pool:
        return dict(zip((one.key for one in due), pool.map(written, due), strict=True))


@dataclass(frozen=True, slots=True)
class _Uploader:
    """Writes segments of a log directory into the tier."""

    context: RunContext
    directory: LogDirectory
    fingerprint: int

    def written(self, facts: UploadFacts) -> _Written:
        """Write the planned segments of one partition, in order, until one cannot be."""
        done = _Written()
        try:
            there = {one.segment_id: one for one in self.context.tier.listing(facts.log.key)}
            for segment in facts.plan.uploads:
                if is_stopping():
                    return replace(done, note=f"stopped by {stopped_by()}")
                done = self._with_next(done, facts.log, segment, there)
        except SegmentReplaced as error:
            return replace(done, note=str(error))
        except TierfoldError as error:
            return replace(done, error=str(error))
        return done

    def _with_next(
        self,
        done: _Written,
        log: LocalLog,
        segment: LocalSegment,
        there: Mapping[str, ListedSegment],
    ) -> _Written:
        """Write one segment, unless the tier has it; `there`: what it has, by id."""
        tier = self.context.tier
        with opened(self.directory.folder(log.key), segment) as files:
            found = checked(files, log.key, log.lineage)
            # What was begun and not finished is left to `vacuum`.
            drawn = (address_of_upload(found, log.key, self.fingerprint, n) for n in count())
            at = next(one for one in drawn if _is_free_or_whole(there.get(one.segment_id)))
            metadata = metadata_of(found, log.lineage, at)
            if (listed := there.get(at.segment_id)) is not None:
                known = tier.with_stored_sizes(metadata, listed)
                return replace(done, segments=(*done.segments, known))
            written, verified = uploaded(tier, found, at, metadata)
        return replace(
            done,
            segments=(*done.segments, written),
            verified=done.verified + verified,
            size_bytes=done.size_bytes + segment.size_bytes,
        )


def _is_free_or_whole(listed: ListedSegment | None) -> bool:
    return listed is None or listed.is_complete


def _row_after(
    context: RunContext, row: PartitionState, done: _Written
) -> PartitionState | str:
    """The row with what is in the tier now, or why there is none, a sentence."""
    if not done.segments:
        return done.error
    try:
        facts = facts_of(context, row.key, row, context.tier.listing(row.key))
        view = view_from(context, _with_ends(facts, with_vectors(done.segments, row)))
    except TierfoldError as error:
        return str(error)
    return view.sentence if isinstance(view, Refusal) else state_with_new(view)


def _with_ends(facts: PartitionFacts, segments: Sequence[Segment]) -> PartitionFacts:
    """The facts with what is known of segments that this run uploaded."""
    known: Mapping[str, Segment] = {one.segment_id: one for one in segments}

    def exact(candidate: Candidate) -> Candidate:
        own = known.get(candidate.segment_id)
        if own is None or candidate.segment is None:
            return candidate
        return replace(
            candidate, segment=own, end_offset=own.end_offset, end_from=EndFrom.LOG_DIRECTORY
        )

    return replace(facts, candidates=tuple(map(exact, facts.candidates)))


def _done(planned: PartitionReport, done: _Written) -> PartitionReport:
    """Report what was uploaded and is live."""
    report = replace(
        planned,
        outcome=UPLOADED,
        reason=done.note,
        segments_out=len(done.segments),
        bytes_out=sum(one.size_bytes for one in done.segments),
        bytes_written=done.size_bytes,
        next_offset=done.segments[-1].next_offset,
        parts_verified=done.verified,
    )
    return failure_report(report, done.error) if done.error else report


