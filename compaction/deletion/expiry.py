"""Which live segments have expired: whole segments, oldest first (SEMANTICS 9).

Rule: Kafka's `RemoteLogManager.RLMExpirationTask`, in its order: time before size, up to the first
segment that stays. One difference: a segment below the log start counts as gone when the rest is
compared with `retention.bytes`. In Kafka it does not, and more expires than was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment


class ExpiryReason(StrEnum):
    """Why a segment expires; the name of the setting where it is one."""

    LOG_START = "below the log start"
    TIME = "retention.ms"
    SIZE = "retention.bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A live segment that expires, and why."""

    segment: Segment
    reason: ExpiryReason


def expired_head(
    segments: Sequence[Segment], rules: Rules, log_start_offset: int, now_ms: int
) -> tuple[Expired, ...]:
    """The segments at the log's head that may go, in offset order.

    A segment without a timestamp has no age, and does not expire by time. (Kafka uses the file's
    time instead, which a copied tier no longer has.) Under a policy without `delete` only what lies
    wholly below the log start expires.

    Args:
        segments: all live ones, in offset order.
        rules: the topic's settings.
        log_start_offset: the first offset that consumers may read.
        now_ms: epoch milliseconds.
    """
    excess_bytes = _excess_bytes(segments, rules)
    found: list[Expired] = []
    for segment in segments:
        reason = _reason(segment, rules, log_start_offset, now_ms)
        if reason is None and excess_bytes > 0 and segment.size_bytes <= excess_bytes:
            reason = ExpiryReason.SIZE
        if reason is None:
            break
        excess_bytes = max(0, excess_bytes - segment.size_bytes)
        found.append(Expired(segment=segment, reason=reason))
    return tuple(found)


def _excess_bytes(segments: Sequence[Segment], rules: Rules) -> int:
    """By how much the log is larger than `retention.bytes`; 0 where that is not checked."""
    if not rules.is_deleted or rules.retention_bytes < 0:
        return 0
    return max(0, sum(segment.size_bytes for segment in segments) - rules.retention_bytes)


def _reason(
    segment: Segment, rules: Rules, log_start_offset: int, now_ms: int
) -> ExpiryReason | None:
    if segment.end_offset < log_start_offset:
        return ExpiryReason.LOG_START
    if not rules.is_deleted or rules.retention_ms < 0 or segment.max_timestamp_ms < 0:
        return None
    is_old = segment.max_timestamp_ms < now_ms - rules.retention_ms
    return ExpiryReason.TIME if is_old else None
