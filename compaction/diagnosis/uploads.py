"""Uploads and deletions that never ended, and swaps that are not wholly published.

Rule: Kafka `RemoteLogManager`, KAFKA-17062; SWAP.md 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.diagnosis.examined import Examined, noted
from tierfold.compaction.diagnosis.findings import Finding, FindingCode, Severity
from tierfold.compaction.discovery.view import PLACE
from tierfold.compaction.model.segment_ids import is_own_id
from tierfold.compaction.model.wording import counted, duration
from tierfold.compaction.publishing.steps import Done, Refused, Wait
from tierfold.compaction.publishing.uploads import uploads_at_work

_COMPLETE: Final = (
    "Run `tierfold compact TIER --publish` with the same brokers and catalog: it completes what is"
    " open before anything new."
)


def stuck_uploads(one: Examined) -> Iterator[Finding]:
    """Uploads that brokers began and never ended (`COPY_SEGMENT_STARTED`)."""
    if one.brokers is None:
        return
    stuck = [
        segment
        for segment in uploads_at_work(one.brokers.view)
        if one.is_settled(segment.since_ms, one.rules.upload_wait_ms)
    ]
    if not stuck:
        return
    age = duration(one.now_ms - min(segment.since_ms for segment in stuck))
    size_bytes = one.stored_bytes(stuck)
    yield one.finding(
        FindingCode.UPLOAD_STUCK,
        Severity.LEAKS if size_bytes else Severity.NOTE,
        f"{counted(len(stuck), 'upload')} of brokers began and never ended, the oldest {age} ago:"
        f" {noted(stuck)}",
        remedy="No record is missing: brokers have uploaded them again under another id. You can"
        " only wait: brokers delete the unfinished upload, objects included, once the log start has"
        " passed it or the topic is deleted (KAFKA-17062).",
        size_bytes=size_bytes,
    )


def stuck_deletions(one: Examined) -> Iterator[Finding]:
    """Segments whose deletion began and never ended, and that the row has not retired."""
    if one.brokers is None:
        return
    ours = {segment.added.segment_id for segment in one.replaced} | one.retired_ids
    stuck = [
        segment
        for segment in one.brokers.view.in_state(SegmentState.DELETE_STARTED)
        if segment.added.segment_id not in ours and one.is_settled(segment.since_ms)
    ]
    if not stuck:
        return
    age = duration(one.now_ms - min(segment.since_ms for segment in stuck))
    size_bytes = one.stored_bytes(stuck)
    yield one.finding(
        FindingCode.DELETION_STUCK,
        Severity.LEAKS if size_bytes else Severity.NOTE,
        f"brokers began to delete {counted(len(stuck), 'segment')} and have not finished, the"
        f" oldest {age} ago: {noted(stuck)}",
        remedy="Brokers finish it once their log start has passed the segment. If it has, look in"
        " the log of the partition's leader for what keeps it from deleting, such as a right on"
        " the store.",
        size_bytes=size_bytes,
    )


def unfinished_swaps(one: Examined) -> Iterator[Finding]:
    """What a run has committed, and brokers have not wholly been sent."""
    match one.step:
        case Refused(why=why):
            yield one.finding(
                FindingCode.UNPUBLISHED,
                Severity.HINDERS,
                "a run of tierfold has compacted it, brokers do not have all of the result, and"
                f" nothing can be sent: {why}",
                remedy=f"`tierfold forget {PLACE} --dry-run`, with the same brokers, shows what it"
                " would take over from them and what it would give up.",
            )
        case None | Done() | Wait():
            yield from _started_by_runs(one)
        case step:
            yield one.finding(
                FindingCode.UNPUBLISHED,
                Severity.HINDERS,
                "a run of tierfold has compacted it, and brokers do not have all of the result:"
                f" {step.why}",
                remedy=_COMPLETE,
            )


def _started_by_runs(one: Examined) -> Iterator[Finding]:
    """Replacements that brokers have as started, where no row says what comes next."""
    if one.brokers is None or one.row is not None:
        return
    started = [
        segment
        for segment in one.brokers.view.in_state(SegmentState.COPY_STARTED)
        if is_own_id(segment.added.segment_id)
    ]
    if started:
        yield one.finding(
            FindingCode.UNPUBLISHED,
            Severity.HINDERS,
            f"tierfold began to publish {counted(len(started), 'segment')} and has not finished:"
            f" {noted(started)}",
            remedy=_COMPLETE,
            size_bytes=one.stored_bytes(started),
        )
