"""When a rolled segment is uploaded: the copy lag (KIP-1241).

    remote.copy.lag.ms      since its newest record
    remote.copy.lag.bytes   of log behind it, the active segment included

    0     at once, whatever the other one is
    > 0   as soon as the segment is so old, or so much lies behind it: either is enough
    -1    as the effective local retention; if that is without a limit, it never is

A segment waits for those below it.
Rule: Kafka 4.4 `RemoteLogManager.RLMCopyTask.isEligibleForUpload`, `LogConfig.remoteCopyLagMs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tierfold.compaction.model.rules import LONG_MAX, Rules, SettingViolation
from tierfold.compaction.uploading.local_log import LocalLog, LocalSegment


class UploadReason(StrEnum):
    """Why a rolled segment is uploaded, or is not."""

    NO_LAG = "no copy lag is set"
    OLD = "remote.copy.lag.ms has passed"
    BEHIND = "remote.copy.lag.bytes of log are behind it"
    BELOW_LOG_START = "it lies below the tier's log start"
    IN_TIER = "the tier has its offsets"
    EXPIRED = "it would expire at once"
    LAGGING = "it waits for its copy lag"
    UNSTABLE = "a transaction is open, or replicas lag behind, or it is not flushed"
    BEHIND_ANOTHER = "it waits for the segment below"

    @property
    def is_upload(self) -> bool:
        """Whether the segment is uploaded."""
        return self in {UploadReason.NO_LAG, UploadReason.OLD, UploadReason.BEHIND}

    @property
    def is_wait(self) -> bool:
        """Whether all segments above it wait, too."""
        return self in {UploadReason.LAGGING, UploadReason.UNSTABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLag:
    """The effective copy lag of a topic."""

    age_ms: int
    """-1: never by time."""
    behind_bytes: int
    """-1: never by size."""

    def reason(self, segment: LocalSegment, behind_bytes: int, now_ms: int) -> UploadReason:
        """Why the segment is uploaded, or waits; `behind_bytes`: of log behind it."""
        if 0 in (self.age_ms, self.behind_bytes):
            return UploadReason.NO_LAG
        # A timestamp in the future would hold it back for ever.
        age_ms = now_ms - segment.max_timestamp_ms
        if self.age_ms > 0 and (age_ms < 0 or age_ms >= self.age_ms):
            return UploadReason.OLD
        if 0 < self.behind_bytes <= behind_bytes:
            return UploadReason.BEHIND
        return UploadReason.LAGGING


def copy_lag_of(rules: Rules) -> CopyLag:
    """The lag of these settings, each -1 replaced by the effective local retention."""
    age_ms, behind_bytes = rules.remote_copy_lag_ms, rules.remote_copy_lag_bytes
    return CopyLag(
        age_ms=rules.kept_locally_ms if age_ms < 0 else age_ms,
        behind_bytes=rules.kept_locally_bytes if behind_bytes < 0 else behind_bytes,
    )


def lag_violations(rules: Rules) -> Iterator[SettingViolation]:
    """The settings that Kafka refuses together, of those that only uploads follow.

    Rule: Kafka 4.4 `LogConfig.validateRemoteStorageRetentionTime`, `validateRemoteCopyLagTime`, and
    the same by size (KIP-405, KIP-1241).
    """
    remedy = "Lower the former or raise the latter."
    for kind, kept in (("ms", rules.kept_locally_ms), ("bytes", rules.kept_locally_bytes)):
        if 0 <= getattr(rules, f"retention_{kind}") < (LONG_MAX if kept < 0 else kept):
            names = f"local_retention_{kind}", f"retention_{kind}"
            yield SettingViolation(names[0], "is above", names[1], remedy)
        if 0 <= kept < getattr(rules, f"remote_copy_lag_{kind}"):
            names = f"remote_copy_lag_{kind}", f"local_retention_{kind}"
            yield SettingViolation(names[0], "is above", names[1], remedy)


def is_expired(
    rules: Rules, segment: LocalSegment, behind_bytes: int, now_ms: int
) -> bool:
    """Whether retention would delete the segment as soon as it is uploaded (KIP-1241).

    That is usual if nothing is kept longer than locally, and the lag is as long as it can be: then
    the upload is skipped, and the log start moves on.
    """
    if not rules.is_deleted:
        return False
    age_ms = now_ms - segment.max_timestamp_ms
    is_old = 0 <= rules.retention_ms < age_ms
    return is_old or 0 <= rules.retention_bytes <= behind_bytes


def lag_reasons(
    log: LocalLog, rules: Rules, now_ms: int
) -> Iterator[tuple[LocalSegment, UploadReason]]:
    """Why each rolled segment would be uploaded or wait, by settings alone."""
    lag = copy_lag_of(rules)
    for segment, behind_bytes in log.with_bytes_behind():
        reason = lag.reason(segment, behind_bytes, now_ms)
        if reason.is_upload and is_expired(rules, segment, behind_bytes, now_ms):
            reason = UploadReason.EXPIRED
        yield segment, reason

