"""`tierfold local-retention`: which segments of a broker's log directory may go.

It decides by the listing and the catalog alone. Nothing is claimed, written or deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.uploading.local_log import LocalSegment
from tierfold.compaction.uploading.local_retention import (
    LocalRetentionDecision,
    TierCopy,
    local_retention_plan,
    tier_copy,
)
from tierfold.compaction.uploading.upload_refusals import refused_lineage
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.partition_report import OK, REFUSED
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.logs_beside_tier import LogBesideTier, RefusedLog, logs_beside_tier
from tierfold.storage.log_dirs.log_directory import LogDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLocalRetention:
    """Which segments of one partition of a log directory may go."""

    key: PartitionKey
    decisions: tuple[LocalRetentionDecision, ...] = ()
    """For each rolled segment, in offset order."""
    copy: TierCopy | None = None
    """What the tier has of it; None: it is refused."""
    refusal: Refusal | None = None

    @property
    def outcome(self) -> str:
        """`ok`, or `refused`."""
        return REFUSED if self.refusal else OK

    @property
    def reason(self) -> str:
        """Why it is refused, or why the first segment that stays does; empty: none stays."""
        if self.refusal is not None:
            return self.refusal.sentence
        for one in self.decisions:
            if not one.reason.may_go:
                return f"from offset {one.segment.start_offset} on, {one.reason}"
        return ""

    @property
    def refusals(self) -> tuple[RefusalPart, ...]:
        """Why it is refused, each reason by itself; none: it is not."""
        return () if self.refusal is None else self.refusal.parts

    @property
    def rolled(self) -> tuple[LocalSegment, ...]:
        """All rolled segments."""
        return tuple(one.segment for one in self.decisions)

    @property
    def deletable(self) -> tuple[LocalSegment, ...]:
        """Those that may go: the first ones."""
        return tuple(one.segment for one in self.decisions if one.reason.may_go)


def local_retention(
    context: RunContext, settings: Settings, directory: LogDirectory, scope: Scope
) -> list[PartitionLocalRetention]:
    """Decide for each partition of the directory in scope, by topic and number.

    Raises as `logs_beside_tier`.
    """
    found = logs_beside_tier(context, settings, directory, scope)
    return [_decided(one, context.now_ms) for one in found]


def _decided(one: LogBesideTier | RefusedLog, now_ms: int) -> PartitionLocalRetention:
    if isinstance(one, RefusedLog):
        return PartitionLocalRetention(key=one.key, refusal=one.refusal)
    if (refusal := refused_lineage(one.log, one.view)) is not None:
        return PartitionLocalRetention(key=one.key, refusal=refusal)
    copy = tier_copy(one.view, one.log.lineage)
    decisions = local_retention_plan(one.log, one.rules, copy, now_ms)
    return PartitionLocalRetention(key=one.key, decisions=decisions, copy=copy)


def total_bytes(segments: Iterable[LocalSegment]) -> int:
    """Bytes of their logs."""
    return sum(segment.size_bytes for segment in segments)
