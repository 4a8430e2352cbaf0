"""What `tierfold upload` would do: each partition of a log directory beside the tier."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.cleaner_vectors import resolved_cleaner_offset
from tierfold.compaction.model.leader_epochs import epoch_ends
from tierfold.compaction.model.segments import CleanerOffset
from tierfold.compaction.uploading.copy_lag import UploadReason
from tierfold.compaction.uploading.local_log import LocalLog, LocalSegment
from tierfold.compaction.uploading.upload_plan import (
    UploadPlan,
    begun_late,
    late_upload,
    shut_out,
    upload_plan,
)
from tierfold.compaction.uploading.upload_refusals import refused_upload
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.partition_report import (
    NOTHING_TO_DO,
    PLANNED,
    PartitionReport,
    Reporting,
)
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.logs_beside_tier import LogBesideTier, RefusedLog, logs_beside_tier
from tierfold.jobs.verbs.row_change import refused
from tierfold.storage.log_dirs.log_directory import LogDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadFacts:
    """What a directory and the tier have of one partition, and what follows."""

    log: LocalLog
    view: PartitionView
    plan: UploadPlan
    cleaner_offset: CleanerOffset | None
    """What a new leader with this log finds cleaned in the tier, and from which leader epoch; None:
    nothing that it has."""

    @property
    def cleaned(self) -> tuple[LocalSegment, ...]:
        """The rolled segments that lie below that offset."""
        offset = 0 if self.cleaner_offset is None else self.cleaner_offset.offset
        return tuple(one for one in self.log.rolled if one.end_offset < offset)

    @property
    def moves_log_start(self) -> bool:
        """Whether nothing is uploaded, and the log start of an empty row moves on.

        It moves behind what would expire at once (KIP-1241).
        """
        has_skipped = self.plan.log_start_offset is not None
        return has_skipped and self.view.state is not None and not self.plan.uploads


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionUpload(Reporting):
    """What is uploaded of one partition of a log directory."""

    report: PartitionReport
    """`segments_in`, `bytes_in`: the rolled segments of the directory; `segments_out`,
    `bytes_out`: those that are uploaded."""
    facts: UploadFacts | None = None
    """What becomes of each rolled segment; None: it is refused."""


def survey_uploads(
    context: RunContext,
    settings: Settings,
    directory: LogDirectory,
    scope: Scope,
    *,
    is_new: bool = False,
) -> list[PartitionUpload]:
    """Decide for each partition of the directory in scope; in order of topic and number.

    `is_new` and errors as of `logs_beside_tier`.
    """
    return [
        PartitionUpload(report=refused(*one))
        if isinstance(one, RefusedLog)
        else _surveyed(one, context.now_ms)
        for one in logs_beside_tier(context, settings, directory, scope, is_new=is_new)
    ]


def _surveyed(beside: LogBesideTier, now_ms: int) -> PartitionUpload:
    log, view, rules, state = beside.log, beside.view, beside.rules, beside.known.state
    if (refusal := refused_upload(log, view)) is not None:
        return PartitionUpload(report=refused(beside.key, refusal))
    # What no row names yet is uploaded again, which writes nothing, and then adopted as it is.
    adopted = view.segments if state is None else state.segments
    tier_end = adopted[-1].end_offset if adopted else None
    log_start = 0 if state is None else state.log_start_offset
    plan = upload_plan(log, rules, now_ms, tier_end=tier_end, log_start=log_start)
    clean = None if state is None else resolved_cleaner_offset(state, epoch_ends(log.lineage))
    facts = UploadFacts(log=log, view=view, plan=plan, cleaner_offset=clean)
    since_ms = 0 if state is None else now_ms - state.committed_at_ms
    late = late_upload(log, rules, since_ms, tier_end=tier_end)
    lost = shut_out(log, rules, state, now_ms)
    begun = "" if adopted else begun_late(plan, log_start)
    return PartitionUpload(report=_planned(facts, [begun, lost, late]), facts=facts)


def _planned(facts: UploadFacts, notes: Iterable[str]) -> PartitionReport:
    log, uploads, row = facts.log, facts.plan.uploads, facts.view.state
    is_due = bool(uploads) or facts.moves_log_start
    moved = (
        f"the log begins at offset {facts.plan.log_start_offset} from now on: what lies below would"
        " expire at once"
        if facts.moves_log_start
        else ""
    )
    return PartitionReport(
        key=log.key,
        outcome=PLANNED if is_due else NOTHING_TO_DO,
        reason="" if is_due else why_nothing(facts.plan),
        epoch=0 if row is None else row.epoch,
        next_offset=uploads[-1].end_offset + 1 if uploads else None,
        segments_in=len(log.rolled),
        bytes_in=sum(one.size_bytes for one in log.rolled),
        segments_out=len(uploads),
        bytes_out=sum(one.size_bytes for one in uploads),
        notes=tuple(filter(None, (moved, *notes))),
    )


def why_nothing(plan: UploadPlan) -> str:
    """Why nothing is uploaded, by the first segment that waits, a clause."""
    if not plan.decisions:
        return "only the active segment is there, which is never uploaded"
    waits = [one for one in plan.decisions if one.reason.is_wait]
    if waits:
        return f"from offset {waits[0].segment.start_offset} on, {waits[0].reason}"
    if plan.decisions[-1].reason is UploadReason.EXPIRED:
        return "what is not in the tier would expire at once"
    if plan.decisions[-1].reason is UploadReason.BELOW_LOG_START:
        return "all rolled segments lie below the tier's log start"
    return "the tier has all rolled segments"
