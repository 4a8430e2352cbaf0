"""Which live segments have expired: whole segments, oldest first (SEMANTICS 9).

Rule: Kafka's `RemoteLogManager.RLMExpirationTask`, in its order: time before size, up to the first
segment that stays. One difference: segments below the log start do not count towards
`retention.bytes`. In Kafka they do, and more expires than the setting asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment


class ExpiryReason(StrEnum):
    """Why a segment expires; if a setting is the reason, its name."""

    LOG_START = "below the log start"
    TIME = "retention.ms"
    SIZE = "retention.bytes"
    TOPIC_DELETED = "topic deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A live segment that expires, and why."""

    segment: Segment
    reason: ExpiryReason


def expired_head(
    segments: Sequence[Segment], rules: Rules, log_start_offset: int, now_ms: int
) -> tuple[Expired, ...]:
    """The expired segments at the log's head; `segments` are all live ones, both in offset order.

    A segment without a timestamp does not expire by time. (Kafka uses the file's time instead,
    which a copied tier has lost.) If the policy does not name `delete`, only segments wholly below
    the log start expire.
    """
    excess_bytes = 0
    if rules.is_deleted and rules.retention_bytes >= 0:
        excess_bytes = sum(segment.size_bytes for segment in segments) - rules.retention_bytes
    found: list[Expired] = []
    for segment in segments:
        reason = _reason(segment, rules, log_start_offset, now_ms)
        if reason is None and 0 < excess_bytes >= segment.size_bytes:
            reason = ExpiryReason.SIZE
        if reason is None:
            break
        excess_bytes -= segment.size_bytes
        found.append(Expired(segment=segment, reason=reason))
    return tuple(found)


def _reason(
    segment: Segment, rules: Rules, log_start_offset: int, now_ms: int
) -> ExpiryReason | None:
    if segment.end_offset < log_start_offset:
        return ExpiryReason.LOG_START
    if not rules.is_deleted or rules.retention_ms < 0 or segment.max_timestamp_ms < 0:
        return None
    is_old = segment.max_timestamp_ms < now_ms - rules.retention_ms
    return ExpiryReason.TIME if is_old else None
