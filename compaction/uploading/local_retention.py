"""Which rolled segments of a broker's log directory may go: local retention (KIP-405, KIP-1272).

A segment may go if all of this holds, from the start of the log on; the active one never does.

    past local retention   by its age or by the log behind it; without a limit it stays
    in the tier            as a whole; or it has expired, and the tier begins above it
    compacted              if the policy is `compact` alone: it ends below the cleaner offset

KIP-1272 contradicts itself on the last one: its detailed design has it, another passage lets local
retention alone decide. `local.retention.compacted.only=false` chooses that one.
Rule: Kafka 4.4 `UnifiedLog.deleteRetentionMsBreachedSegments`,
`deleteRetentionSizeBreachedSegments`, `isSegmentEligibleForDeletion`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.cleaner_vectors import resolved_cleaner_offset
from tierfold.compaction.model.leader_epochs import epoch_ends
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Hole, LeaderEpoch
from tierfold.compaction.uploading.local_log import LocalLog, LocalSegment


class LocalRetentionReason(StrEnum):
    """Why a rolled segment may go, or stays."""

    OLD = "local.retention.ms has passed"
    BEHIND = "local.retention.bytes of log are behind it"
    KEPT = "local retention keeps it"
    NOT_IN_TIER = "it is not in the tier"
    NOT_COMPACTED = "it is not compacted yet"
    BEHIND_ANOTHER = "it waits for the segment below"

    @property
    def may_go(self) -> bool:
        """Whether the segment may go."""
        return self in {LocalRetentionReason.OLD, LocalRetentionReason.BEHIND}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRetentionDecision:
    """Whether a rolled segment may go."""

    segment: LocalSegment
    reason: LocalRetentionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TierCopy:
    """What the tier has of a log: all between two offsets."""

    start_offset: int
    """Its first live offset."""
    next_offset: int
    """The first offset that it does not have; `start_offset`: it has nothing."""
    cleaner_offset: int | None
    """What lies below is compacted; None: no round was committed."""
    holes: tuple[Hole, ...] = ()
    """Offsets in between that were taken for holes. Without brokers' metadata these may be of a
    segment that was lost."""

    def has(self, segment: LocalSegment, *, is_expired: bool) -> bool:
        """Whether it has the segment as a whole, or has dropped it.

        What lies below its start may never have been uploaded. So that counts only once it has
        expired.
        """
        is_begun = is_expired or segment.start_offset >= self.start_offset
        is_hole = segment.size_bytes > 0 and any(
            hole.start_offset <= segment.start_offset and segment.end_offset <= hole.end_offset
            for hole in self.holes
        )
        return is_begun and segment.end_offset < self.next_offset and not is_hole


def tier_copy(view: PartitionView, lineage: Sequence[LeaderEpoch]) -> TierCopy:
    """What the tier has of a log with these leader epochs, by its live segments."""
    row, ends = view.state, epoch_ends(lineage)
    clean = None if row is None else resolved_cleaner_offset(row, ends)
    return TierCopy(
        start_offset=view.segments[0].start_offset if view.segments else view.log_start_offset,
        next_offset=view.next_offset,
        cleaner_offset=None if clean is None else clean.offset,
        holes=(*view.holes, *(row.holes if row else ())),
    )


def local_retention_plan(
    log: LocalLog, rules: Rules, copy: TierCopy, now_ms: int
) -> tuple[LocalRetentionDecision, ...]:
    """Decide for each rolled segment, in offset order; `copy`: of the same log."""
    return tuple(
        LocalRetentionDecision(segment=segment, reason=reason)
        for segment, reason in _reasons(log, rules, copy, now_ms)
    )


def _reasons(
    log: LocalLog, rules: Rules, copy: TierCopy, now_ms: int
) -> Iterator[tuple[LocalSegment, LocalRetentionReason]]:
    is_waiting = False
    for segment, behind_bytes in log.with_bytes_behind():
        reason = LocalRetentionReason.BEHIND_ANOTHER
        if not is_waiting:
            reason = _reason(segment, behind_bytes, rules, copy, now_ms)
        is_waiting = not reason.may_go
        yield segment, reason


def _reason(
    segment: LocalSegment, behind_bytes: int, rules: Rules, copy: TierCopy, now_ms: int
) -> LocalRetentionReason:
    # As in a broker: by age once it is older, by size once as much is behind it.
    age_ms = now_ms - segment.max_timestamp_ms
    is_old = 0 <= rules.kept_locally_ms < age_ms
    is_behind = 0 <= rules.kept_locally_bytes <= behind_bytes
    if not is_old and not is_behind:
        return LocalRetentionReason.KEPT
    is_too_old = 0 <= rules.retention_ms < age_ms
    is_expired = is_too_old or 0 <= rules.retention_bytes <= behind_bytes
    if not copy.has(segment, is_expired=rules.is_deleted and is_expired):
        return LocalRetentionReason.NOT_IN_TIER
    waits = rules.local_retention_compacted_only
    is_waited_for = waits and rules.is_compacted and not rules.is_deleted
    if is_waited_for and segment.end_offset >= (copy.cleaner_offset or 0):
        return LocalRetentionReason.NOT_COMPACTED
    return LocalRetentionReason.OLD if is_old else LocalRetentionReason.BEHIND
