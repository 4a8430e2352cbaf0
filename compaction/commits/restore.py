"""Restore of an earlier row of a partition: which segments become live again, or a refusal.

Later uploads stay live, as brokers uploaded them. Their compacted form will not do: a pass may have
removed a tombstone whose older value the earlier row brings back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tierfold.compaction.commits.commit import RestoreState
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.leader_epochs import is_within_lineage
from tierfold.compaction.model.segments import PartitionState, Segment, uploads_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What a restore changes."""

    state: PartitionState
    """The earlier row."""
    segments: tuple[Segment, ...]
    """The segments that are live afterwards, in offset order."""
    back: tuple[Segment, ...]
    """Those of them that are retired now."""
    leaving: tuple[Segment, ...]
    """The live segments that it retires."""

    @property
    def is_nothing(self) -> bool:
        """Whether the live segments stay the same."""
        return not (self.back or self.leaving)

    @property
    def cleaner_offset(self) -> int:
        """The earlier row's cleaner offset, or its log start."""
        offset = self.state.cleaner_offset
        return self.state.log_start_offset if offset is None else offset

    def update(self, *, at_ms: int, run: str) -> RestoreState:
        """The change of the row; `at_ms` is epoch milliseconds."""
        return RestoreState(
            ids=tuple(segment.segment_id for segment in self.segments),
            cleaner_offset=self.cleaner_offset,
            log_start_offset=self.state.log_start_offset,
            strategies=self.state.strategies,
            spared=self.state.spared,
            at_ms=at_ms,
            run=run,
        )


def restore_plan_of(earlier: PartitionState, row: PartitionState) -> RestorePlan | Refusal:
    """What a restore from `row` back to `earlier` changes; both are rows of one partition."""
    if earlier.is_forgotten or row.is_forgotten:
        return _refusal(
            "`tierfold forget` emptied this partition's row in that state or after it",
            "A restore cannot cross it: the log has another history now.",
        )
    live = {segment.segment_id: segment for segment in row.segments}
    whole = {entry.segment.segment_id: entry.segment for entry in row.whole_retired}
    known = live | whole
    # As the row has them now: the last one's end may have risen over a hole.
    then = [known.get(segment.segment_id, segment) for segment in earlier.segments]
    uploads = uploads_of([*whole.values(), *live.values()])
    wanted = [*then, *(s for s in uploads if s.start_offset >= earlier.next_offset)]
    gone = [
        segment.segment_id
        for segment in wanted
        if segment.segment_id not in live.keys() | whole.keys()
    ]
    if gone:
        return _refusal(
            f"segments of that state are deleted, being deleted or forgotten: {', '.join(gone)}"
        )
    strays = [
        segment.segment_id for segment in wanted if not is_within_lineage(segment, row.lineage)
    ]
    if strays:
        return _refusal(
            "segments of that state are of a log that an unclean leader election truncated:"
            f" {', '.join(strays)}"
        )
    at = earlier.segments[0].start_offset if earlier.segments else earlier.log_start_offset
    for segment in wanted:
        if segment.start_offset != at:
            break
        at = segment.next_offset
    if any(hole.start_offset == at for hole in row.holes):
        return _refusal(f"the hole from offset {at} on was taken for one after that state")
    if at != row.next_offset:
        return _refusal(
            f"the uploads from offset {at} on no longer exist as brokers wrote them",
            "Choose a later state: with this one, a deleted key could come back.",
        )
    ids = {segment.segment_id for segment in wanted}
    return RestorePlan(
        state=earlier,
        segments=tuple(whole.get(segment.segment_id, segment) for segment in wanted),
        back=tuple(segment for segment_id, segment in whole.items() if segment_id in ids),
        leaving=tuple(segment for segment_id, segment in live.items() if segment_id not in ids),
    )


_LATER: Final = "Choose a later state; `tierfold history` shows which can be restored."


def _refusal(detail: str, remedy: str = _LATER) -> Refusal:
    return Refusal(reason=RefusalReason.NOT_RESTORABLE, detail=detail, remedy=remedy)
