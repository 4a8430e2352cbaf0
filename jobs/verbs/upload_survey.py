"""What `tierfold upload` would do: each partition of a log directory beside the tier."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.uploading.copy_lag import UploadReason, lag_violations
from tierfold.compaction.uploading.local_log import LocalLog
from tierfold.compaction.uploading.upload_plan import UploadPlan, late_upload, upload_plan
from tierfold.compaction.uploading.upload_refusals import refused_upload
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.jobs.pipeline.partition_report import (
    NOTHING_TO_DO,
    PLANNED,
    PartitionReport,
    Reporting,
)
from tierfold.jobs.pipeline.survey import READERS, inspected, known_among
from tierfold.jobs.settings.cluster_settings import rules_of
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.row_change import refused
from tierfold.storage.log_dirs.log_directory import LogCheckpoints, LogDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadFacts:
    """What a directory and the tier have of one partition, and what follows."""

    log: LocalLog
    view: PartitionView
    plan: UploadPlan


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

    `is_new`: there is no tier yet. Raises BadSettings if there is no such directory or a topic's
    settings conflict, and UnreadableObject or CorruptLog if the directory or the catalog cannot be
    read.
    """
    with context.progress.survey():
        keys = scope.chosen(directory.partitions())
        checkpoints = directory.checkpoints()
        everywhere = {*keys, *(() if is_new else context.tier.partitions())}
        known = known_among(context, sorted(everywhere), keys, context.catalog.look(keys))
        rules, wrong = rules_of(settings, [key.topic for key in keys])

        def surveyed(one: KnownPartition) -> PartitionUpload:
            if one.key.topic in wrong:
                return _refused(one.key, refusal_of(wrong[one.key.topic], one.key.topic))
            return surveyed_upload(context, directory, checkpoints, one, rules[one.key.topic])

        with ThreadPoolExecutor(READERS) as pool:
            return list(context.progress.inspected(pool.map(surveyed, known)))


def surveyed_upload(
    context: RunContext,
    directory: LogDirectory,
    checkpoints: LogCheckpoints,
    known: KnownPartition,
    rules: Rules,
) -> PartitionUpload:
    """Decide for one partition; raises nothing."""
    if (refusal := _refused_settings(rules)) is not None:
        return _refused(known.key, refusal)
    try:
        log = directory.log(known.key, checkpoints)
    except TierfoldError as error:
        return _refused(known.key, refusal_of(error, str(known.key)))
    view = inspected(context, known)
    if isinstance(view, Refusal):
        return _refused(known.key, view)
    if (refusal := refused_upload(log, view)) is not None:
        return _refused(known.key, refusal)
    # What no row names yet is uploaded again, which writes nothing, and then adopted as it is.
    adopted = view.segments if view.state is None else view.state.segments
    tier_end = adopted[-1].end_offset if adopted else None
    plan = upload_plan(log, rules, context.now_ms, tier_end=tier_end)
    facts = UploadFacts(log=log, view=view, plan=plan)
    since_ms = 0 if known.state is None else context.now_ms - known.state.committed_at_ms
    late = late_upload(log, rules, since_ms, tier_end=tier_end)
    report = replace(_planned(known, facts), notes=(late,) if late else ())
    return PartitionUpload(report=report, facts=facts)


def _planned(known: KnownPartition, facts: UploadFacts) -> PartitionReport:
    log, uploads = facts.log, facts.plan.uploads
    return PartitionReport(
        key=known.key,
        outcome=PLANNED if uploads else NOTHING_TO_DO,
        reason="" if uploads else why_nothing(facts.plan),
        epoch=0 if known.state is None else known.state.epoch,
        next_offset=uploads[-1].end_offset + 1 if uploads else None,
        segments_in=len(log.rolled),
        bytes_in=sum(one.size_bytes for one in log.rolled),
        segments_out=len(uploads),
        bytes_out=sum(one.size_bytes for one in uploads),
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
    return "the tier has all rolled segments"


def _refused_settings(rules: Rules) -> Refusal | None:
    found = next(lag_violations(rules), None)
    if found is None:
        return None
    first, second = (name.replace("_", ".") for name in (found.first, found.second))
    return Refusal(
        reason=RefusalReason.BAD_SETTINGS,
        detail=f"{first} {found.says} {second}",
        remedy=found.remedy,
    )


def _refused(key: PartitionKey, refusal: Refusal) -> PartitionUpload:
    return PartitionUpload(report=refused(key, refusal))
