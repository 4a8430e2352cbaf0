"""Restore of an earlier row of a partition: which segments become live again, or a refusal.

Later uploads stay live, as brokers uploaded them. Their compacted form will not do: a pass may have
removed a tombstone whose older value the earlier row brings back.

A segment and its copies have the same bytes, so a live copy stands for a retired segment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tierfold.compaction.commits.commit import RestoreState
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.leader_epochs import is_within_lineage
from tierfold.compaction.model.segments import (
    PartitionState,
    Segment,
    SparedBytes,
    uploads_of,
)


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
    spared: tuple[SparedBytes, ...]
    """What the earlier row says was left in segments, by their present ids."""

    @property
    def is_nothing(self) -> bool:
        """Whether the live segments stay the same."""
        return not (self.back or self.leaving)

    @property
    def cleaner_offset(self) -> int:
        """The earlier row's cleaner offset, or its log start."""
        offset = self.state.cleaner_offset
        return self.state.log_start_offset if offset is None else offset

    def update(self, *, at_ms: int, run: str, copies: Sequence[Segment] = ()) -> RestoreState:
        """The change of the row; `at_ms` is epoch milliseconds.

        Segments of `back` of which there is a copy stay retired: the copy is live instead.
        """
        new_ids = {copy.copy_of: copy.segment_id for copy in copies}
        instead = {
            segment.segment_id: new_ids[segment.first_id]
            for segment in self.back
            if segment.first_id in new_ids
        }
        return RestoreState(
            ids=tuple(s.segment_id for s in self.segments if s.segment_id not in instead),
            copies=tuple(copies),
            cleaner_offset=self.cleaner_offset,
            log_start_offset=self.state.log_start_offset,
            strategies=self.state.strategies,
            spared=_renamed(self.spared, instead),
            at_ms=at_ms,
            run=run,
        )


def unpublished_restore(row: PartitionState | None, *, is_taken_out: bool) -> Refusal | None:
    """Why nothing comes back in a row that a cluster serves, by a run that publishes nothing of it.

    None: none serves it. `is_taken_out`: whether `publish` is false in the topic's settings.
    """
    if row is None or row.cluster is None or not row.is_served:
        return None
    why, remedy = "publishing to them is not on", _TURN_ON
    if is_taken_out:
        why = "nothing of its topic is published, because publish is false in the topic's settings"
        remedy = f"`tierfold config {row.key.topic}` shows where: take it out there."
    return Refusal(
        reason=RefusalReason.SERVED,
        detail=f"brokers of cluster {row.cluster.cluster_id} serve it, and {why}: they would not"
        " learn what comes back",
        remedy=remedy,
    )


_TURN_ON: Final = (
    "Turn it on with --publish, or with publish = true under [cluster]. On a copy that no broker"
    " serves, set tier.binding=detached and leave out --bootstrap-server."
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
    now = as_now(earlier, row)
    uploads = uploads_of([*whole.values(), *live.values()])
    later = [segment for segment in uploads if segment.start_offset >= earlier.next_offset]
    later.sort(key=lambda one: (one.start_offset, one.segment_id not in live))  # Live ones first.
    start = earlier.segments[0].start_offset if earlier.segments else earlier.log_start_offset
    wanted = _chain([*now.values(), *later], start)
    gone = [
        segment.segment_id
        for segment in now.values()
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
    at = wanted[-1].next_offset if wanted else start
    if any(hole.start_offset == at for hole in row.holes):
        return _refusal(f"the hole from offset {at} on was taken for one after that state")
    if at != row.next_offset:
        return _refusal(
            f"the uploads from offset {at} on no longer exist as brokers wrote them",
            "Choose a later state: with this one, a deleted key could come back.",
        )
    ids = {segment.segment_id for segment in wanted}
    new_ids = {old_id: segment.segment_id for old_id, segment in now.items()}
    return RestorePlan(
        state=earlier,
        segments=tuple(wanted),
        back=tuple(segment for segment_id, segment in whole.items() if segment_id in ids),
        leaving=tuple(segment for segment_id, segment in live.items() if segment_id not in ids),
        spared=_renamed(earlier.spared, new_ids),
    )


def _chain(segments: Sequence[Segment], start: int) -> list[Segment]:
    """Those that follow on each other from an offset on; `segments`: by start offset.

    Of others that brokers uploaded for the same offsets, as after a change of leader, none.
    """
    chain: list[Segment] = []
    at = start
    for segment in segments:
        if segment.start_offset == at:
            chain.append(segment)
            at = segment.next_offset
        elif segment.start_offset > at:
            break
    return chain


def as_now(earlier: PartitionState, row: PartitionState) -> dict[str, Segment]:
    """By id, the live segments of an earlier row as the row has them: an end may have risen.

    Each may be another one with the same bytes, best a live one; the earlier one, if the row names
    none as live or whole.
    """
    same, live_ids = defaultdict(list), row.live_ids
    for segment in (*row.segments, *(entry.segment for entry in row.whole_retired)):
        same[segment.first_id].append(segment)

    def found(segment: Segment) -> Segment:
        def rank(one: Segment) -> tuple[bool, bool]:
            return one.segment_id in live_ids, one.segment_id == segment.segment_id

        return max(same[segment.first_id], key=rank, default=segment)

    return {segment.segment_id: found(segment) for segment in earlier.segments}


def _renamed(spared: Sequence[SparedBytes], ids: Mapping[str, str]) -> tuple[SparedBytes, ...]:
    return tuple(replace(one, segment_id=ids.get(one.segment_id, one.segment_id)) for one in spared)


_LATER: Final = "Choose a later state; `tierfold history` shows which can be restored."


def _refusal(detail: str, remedy: str = _LATER) -> Refusal:
    return Refusal(reason=RefusalReason.NOT_RESTORABLE, detail=detail, remedy=remedy)
