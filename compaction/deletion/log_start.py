"""Where the log start of a partition that brokers serve moves to, by tierfold's own retention.

    live segments, oldest first → those past retention (`deletion.expiry`) → the offset after them

Brokers are asked to move it (DeleteRecords); what lies below it they delete themselves, and it
never comes back. So `move_violation` checks each move against the look once more, and trusts no
decision.

Rule: SEMANTICS 9; SWAP.md 3; Kafka `RemoteLogManager.RLMExpirationTask`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.deletion.expiry import Expired, ExpiryReason, expired_head
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.bindings import Binding, Detached, ServedBy
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.wording import counted
from tierfold.compaction.publishing.look import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartMove:
    """What brokers are asked for, and why."""

    offset: int
    """The log start afterwards."""
    expired: tuple[Expired, ...]
    """The live segments that end below it and that consumers still read; at least one."""

    @property
    def note(self) -> str:
        """What happens, a sentence."""
        reasons = " and ".join(dict.fromkeys(one.reason for one in self.expired))
        return (
            f"{counted(len(self.expired), 'live segment')} past {reasons}: brokers are asked to"
            f" move the log start to offset {self.offset}, and then delete what lies below it"
        )


def log_start_move(
    segments: Sequence[Segment], rules: Rules, offsets: PartitionOffsets, now_ms: int
) -> LogStartMove | None:
    """Where the log start moves to; None: it stays.

    `segments`: all live ones in offset order. Only a retention counts that the user wrote for the
    topic (`Rules.beside_brokers`).
    """
    head = expired_head(segments, rules.beside_brokers, offsets.log_start, now_ms)
    end = min(offsets.high_watermark, offsets.last_stable)
    expired = tuple(
        one
        for one in head
        if one.reason is not ExpiryReason.LOG_START and one.segment.next_offset <= end
    )
    if not expired:
        return None
    return LogStartMove(offset=expired[-1].segment.next_offset, expired=expired)


def expired_beside(
    view: PartitionView, rules: Rules, binding: Binding, now_ms: int, *, is_refused: bool
) -> tuple[tuple[Expired, ...], tuple[Expired, ...]]:
    """The live segments past the retention that counts, and those that the run retires itself.

    It retires none that a broker may serve, and none of a partition that is refused.
    """
    counting = rules.beside_brokers if isinstance(binding, ServedBy) else rules
    due = expired_head(view.segments, counting, view.log_start_offset, now_ms)
    return due, due if isinstance(binding, Detached) and not is_refused else ()


def move_seen_by(view: PartitionView, rules: Rules, now_ms: int) -> LogStartMove | None:
    """As `log_start_move`, by what a survey saw; None also where the offsets are unknown."""
    offsets = None if view.brokers is None else view.brokers.known_offsets
    return None if offsets is None else log_start_move(view.segments, rules, offsets, now_ms)


def move_violation(look: Look, rules: Rules, offset: int, now_ms: int) -> str:
    """Why the log start must not move to this offset, a clause; empty: it may."""
    row, own = look.row, rules.beside_brokers
    end = min(look.offsets.high_watermark, look.offsets.last_stable)
    if not (row.is_served and rules.publish and rules.is_deleted):
        return "nothing of the partition is published, or its policy has no delete"
    if look.view.read_only:
        return look.view.read_only[0].finding
    if not look.log_start < offset <= end:
        return f"offset {offset} does not lie above the log start {look.log_start}, up to {end}"
    for found in look.finished:
        is_named = found.added.segment_id in row.named_ids
        if not is_named and found.added.start_offset < offset:
            return f"brokers have segment {found.added.segment_id}, which the row does not name"
    read = [one for one in row.segments if one.end_offset >= look.log_start]
    left_bytes = sum(one.size_bytes for one in read)
    for segment in read:
        if segment.start_offset >= offset:
            return ""
        left_bytes -= segment.size_bytes
        what = f"segment {segment.segment_id}, offsets {segment.start_offset} to"
        if segment.end_offset >= offset:
            return f"{what} {segment.end_offset}, would be cut at offset {offset}"
        is_old = own.retention_ms >= 0 and 0 <= segment.max_timestamp_ms < now_ms - own.retention_ms
        if not is_old and not 0 <= own.retention_bytes <= left_bytes:
            return f"{what} {segment.end_offset}, has not expired"
    return "" if read and offset == read[-1].next_offset else f"no segment ends below {offset}"
