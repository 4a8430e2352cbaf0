"""What becomes of each rolled segment of a log directory.

    below the bound        flushed, on all replicas in sync, and of no open transaction
    beyond the tier's end  as a new leader does, the whole segment that holds the next offset
    after its copy lag     `copy_lag`

Rule: Kafka 4.4 `RemoteLogManager.RLMCopyTask.candidateLogSegments`, which takes the bound from the
last stable offset alone: a broker knows what is flushed and replicated, a directory is read beside
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.uploading.copy_lag import UploadReason, is_expired, lag_reasons
from tierfold.compaction.uploading.local_log import LocalLog, LocalSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadDecision:
    """What becomes of a rolled segment."""

    segment: LocalSegment
    reason: UploadReason


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadPlan:
    """What becomes of the rolled segments of a partition, in offset order."""

    decisions: tuple[UploadDecision, ...]

    @property
    def uploads(self) -> tuple[LocalSegment, ...]:
        """The segments to be uploaded, which follow each other."""
        return tuple(one.segment for one in self.decisions if one.reason.is_upload)

    @property
    def log_start_offset(self) -> int | None:
        """Where the log begins, behind what is skipped; None: nothing is."""
        skipped = [one for one in self.decisions if one.reason is UploadReason.EXPIRED]
        return skipped[-1].segment.end_offset + 1 if skipped else None


def upload_plan(
    log: LocalLog, rules: Rules, now_ms: int, *, tier_end: int | None = None, log_start: int = 0
) -> UploadPlan:
    """Decide for each rolled segment.

    `tier_end`: the last offset that the tier has of the log. `log_start`: where the log begins
    there; what lies below has expired, and the tier may have nothing else.
    What would expire at once is skipped only where the tier has nothing: it would leave a gap.
    """
    found = _reasons(log, rules, now_ms, -1 if tier_end is None else tier_end, log_start)
    return UploadPlan(
        decisions=tuple(UploadDecision(segment=one, reason=reason) for one, reason in found)
    )


def late_upload(
    log: LocalLog, rules: Rules, since_ms: int, *, tier_end: int | None
) -> str:
    """What a late upload may bring back, a sentence; empty: nothing.

    `since_ms`: how long ago the tier last got something of the log. The broker's cleaner removes a
    tombstone with the values that it hides; in the tier these may still be.
    """
    is_cleaned = tier_end is not None and log.cleaner_offset > tier_end + 1
    if not is_cleaned or since_ms <= rules.delete_retention_ms:
        return ""
    return (
        "the broker's cleaner has removed records that are not in the tier, and the last upload was"
        " longer than delete.retention.ms ago: a key that was deleted in between may come back."
        " Upload more often"
    )


def begun_late(plan: UploadPlan, log_start: int) -> str:
    """What a first upload of this plan leaves out for good, a clause; empty: nothing is known of.

    `log_start`: where the tier's log begins. What is skipped as expired is no loss.
    """
    start = plan.uploads[0].start_offset if plan.uploads else 0
    if start <= log_start or plan.log_start_offset is not None:
        return ""
    return (
        f"the log of this directory begins at offset {start}: nothing below it can be added to the"
        " tier later. If another replica's log begins lower, upload that one first, into a tier"
        " that has nothing of the partition"
    )


def shut_out(log: LocalLog, rules: Rules, row: PartitionState | None, now_ms: int) -> str:
    """What of the log the tier never gets though it never had it, a clause; empty: nothing.

    The first upload decides where the log begins in the tier. Retention moves that on, too: what
    was in the tier is retired there for a while, or has expired by the settings given here.
    """
    tier_start = 0 if row is None else row.log_start_offset
    gone = () if row is None else tuple(entry.segment for entry in row.retired)
    lost = [
        one
        for one, behind_bytes in log.with_bytes_behind()
        if (log.log_start_offset or 0) <= one.end_offset < tier_start
        and not is_expired(rules, one, behind_bytes, now_ms)
        and not any(
            old.start_offset <= one.end_offset and one.start_offset <= old.end_offset
            for old in gone
        )
    ]
    if not lost:
        return ""
    start = max(lost[0].start_offset, log.log_start_offset or 0)
    return (
        f"the tier never gets offsets {start} to {lost[-1].end_offset} of this log directory:"
        f" its log begins at offset {tier_start}, where the first upload began, and nothing is"
        " added below. If they have not expired there, and you want to keep them, upload this"
        " directory into another tier"
    )


def _reasons(
    log: LocalLog, rules: Rules, now_ms: int, tier_end: int, log_start: int
) -> Iterator[tuple[LocalSegment, UploadReason]]:
    bound = min(log.recovery_point, log.high_watermark, log.last_stable_offset)
    is_waiting, may_skip = False, tier_end < 0
    for segment, by_lag in lag_reasons(log, rules, now_ms):
        reason = by_lag
        if segment.end_offset < log_start:
            reason = UploadReason.BELOW_LOG_START
        elif segment.end_offset <= tier_end:
            reason = UploadReason.IN_TIER
        elif is_waiting:
            reason = UploadReason.BEHIND_ANOTHER
        elif segment.end_offset >= bound:
            reason = UploadReason.UNSTABLE
        elif by_lag is UploadReason.EXPIRED and not may_skip:
            reason = UploadReason.OLD
        is_waiting = is_waiting or reason.is_wait
        may_skip = may_skip and reason in {UploadReason.BELOW_LOG_START, UploadReason.EXPIRED}
        yield segment, reason
