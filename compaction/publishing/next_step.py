"""The next step of a partition: from what brokers must have and what they have.

It is derived at each look. So a run that died, an acknowledgement that was lost, a run that
was fenced and a second run are one case, and a step that is taken twice changes nothing.

Rule: PUBLISHING 1 to 4; SWAP.md 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.events import Event, SegmentState
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.model.wording import duration
from tierfold.compaction.publishing.batches import fitting, swap_batch
from tierfold.compaction.publishing.groups import SwapGroup, as_one_group, groups_of
from tierfold.compaction.publishing.holes import holes, repairs
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.ranges import OffsetRange, joined, range_of, without
from tierfold.compaction.publishing.replacements import started_event
from tierfold.compaction.publishing.steps import (
    Copy,
    Done,
    Merge,
    Purpose,
    RefusalCode,
    Refused,
    Retire,
    Send,
    Step,
    Wait,
)
from tierfold.compaction.publishing.unnamed import unnamed_step
from tierfold.compaction.publishing.uploads import is_covered, is_given_up

_UNKNOWN: Final = "brokers do not know the replacements yet"


def next_step(look: Look) -> Step:
    """What to do next for a partition that brokers serve; a pure function of the look."""
    unnamed = unnamed_step(look)
    refused = unnamed if isinstance(unnamed, Refused) else _refused(look)
    if refused is not None:
        return refused
    fold = PartitionFold.resumed(look.view)
    open_holes = holes(look, fold)
    if events := repairs(look, fold):
        lost = ", ".join(map(str, open_holes))
        return Send(purpose=Purpose.REPAIR, events=events, why=f"no look-up finds offsets {lost}")
    return unnamed or _first_step(look, open_holes)


def _first_step(look: Look, open_holes: Sequence[OffsetRange]) -> Step:
    """The step of the first group that has one; groups that close a hole go first.

    What waits or is refused holds back all groups beyond it. By versions, what is published for the
    first time is one group (PUBLISHING 5.3), and so is what a restore brings back (6.4).
    """
    started: list[Event] = []
    together: list[SwapGroup] = []
    groups = groups_of(look)
    is_restored = any(_is_to_restore(look, group) for group in groups)
    is_one = look.is_first_by_version or (is_restored and look.is_by_version)
    for has_hole, group in _in_order(groups, open_holes, descends=is_restored):
        step = _group_step(look, group, has_hole=has_hole)
        if isinstance(step, Send) and step.purpose is Purpose.START:
            started += step.events
        elif is_one and isinstance(step, Send):
            together.append(group)
        elif not isinstance(step, Done):
            if started:
                break
            return step
    if not started:
        return _swap(look, as_one_group(together)) if together else Done()
    events = fitting(started, look.limits.batch_bytes_max)
    return Send(purpose=Purpose.START, events=events, why=_UNKNOWN)


def _in_order(
    groups: Iterable[SwapGroup], open_holes: Sequence[OffsetRange], *, descends: bool
) -> list[tuple[bool, SwapGroup]]:
    """The groups in the order in which they are sent, each with whether it has a hole.

    They ascend, so that values go before the tombstones that hide them. Those of a restore descend:
    tombstones are back before the values that they hide.
    """
    ordered = sorted(groups, key=lambda group: group.bounds, reverse=descends)
    found = [(any(map(group.bounds.overlaps, open_holes)), group) for group in ordered]
    return sorted(found, key=lambda one: not one[0])


def _is_to_restore(look: Look, group: SwapGroup) -> bool:
    """Whether brokers do not have all of a group that a restore brings back.

    The ids say so, not the run: one that takes over goes on in the same order.
    """
    return group.is_restored and (_is_unread(look, group) or bool(group.old))


def _refused(look: Look) -> Refused | None:
    """What is in the way of the whole partition."""
    if look.view.read_only:
        return Refused(code=RefusalCode.READ_ONLY, why=look.view.read_only[0].finding)
    end = max((segment.added.end_offset for segment in look.finished), default=-1)
    if look.offsets.high_watermark <= end:
        return Refused(
            code=RefusalCode.BEYOND_LOG,
            why=f"the brokers' log ends at offset {look.offsets.high_watermark}, and segments of"
            f" the tier at {end}",
        )
    return None


def _group_step(look: Look, group: SwapGroup, *, has_hole: bool) -> Step:
    if (lost := _lost(look, group)) is not None:
        return lost
    is_open = _is_open(look, group)
    if not (is_open or has_hole):
        return Done()
    if (refused := _outside(look, group)) is not None:
        return refused
    if not has_hole and (wait := _awaited(look, group)) is not None:
        return wait
    if not is_open:
        # Nothing that is finished once more closes the hole: one of them hides another.
        return _as_one(look, group) if len(group.live) + len(group.beside) > 1 else Done()
    if _is_beside(group):
        return _as_one(look, group)
    unknown = [one for one in group.replacements if one.segment_id not in look.view.segments]
    if unknown:
        events = tuple(started_event(look.row.key, one, look.now_ms) for one in unknown)
        return Send(purpose=Purpose.START, events=events, why=_UNKNOWN)
    return _swap(look, group)


def _lost(look: Look, group: SwapGroup) -> Copy | Refused | None:
    """The step if brokers do not have a live segment, and will not take it."""
    for segment in group.live:
        segment_id, state = segment.segment_id, look.state_of(segment.segment_id)
        if state in {SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED}:
            continue
        if not look.was_named(segment_id):
            if segment.is_named_by_brokers:
                why = f"brokers never had the upload {segment_id}"
                return Refused(code=RefusalCode.NEVER_NAMED, why=why)
            continue
        why = f"brokers deleted segment {segment_id}, and consumers may read from its offsets"
        if segment_id in look.whole:
            return Copy(segment_id=segment_id, why=why)
        why += ": its objects are not in the tier either"
        return Refused(code=RefusalCode.DELETED_BY_BROKERS, why=why)
    return None


def _is_open(look: Look, group: SwapGroup) -> bool:
    """Whether brokers lack something of the group, or have something that they must not have."""
    return _is_unread(look, group) or bool(group.old) or _is_beside(group)


def _is_unread(look: Look, group: SwapGroup) -> bool:
    """Whether brokers do not read a replacement of the group yet."""
    return any(
        look.state_of(one.segment_id) is not SegmentState.COPY_FINISHED
        for one in group.replacements
    )


def _outside(look: Look, group: SwapGroup) -> Refused | None:
    for segment in look.outside:
        if segment.added.segment_id in look.retired_ids:
            continue
        if range_of(segment.added).overlaps(group.bounds):
            return Refused(
                code=RefusalCode.OUTSIDE_LINEAGE,
                why=f"brokers have segment {segment.added.segment_id} of another history over"
                f" offsets {range_of(segment.added)}",
            )
    return None


def _awaited(look: Look, group: SwapGroup) -> Wait | None:
    """The step if brokers may still finish an upload that begins at or below the group's end."""
    wait_ms = look.limits.upload_wait_ms
    for upload in look.uploads_at_work:
        added = upload.added
        is_beyond = added.start_offset > group.bounds.last or added.end_offset < look.log_start
        if is_beyond or added.segment_id in look.retired_ids:
            continue
        if is_given_up(
            upload, look.finished, look.log_start, wait_ms=wait_ms, now_ms=look.now_ms
        ):
            continue
        covered = is_covered(added, look.finished, look.log_start)
        return Wait(
            until_ms=upload.since_ms + wait_ms if covered else None,
            why=f"brokers began to upload segment {added.segment_id} (offsets"
            f" {range_of(added)}) {duration(max(look.now_ms - upload.since_ms, 0))} ago, and have"
            " not finished it",
        )
    return None


def _as_one(look: Look, group: SwapGroup) -> Retire | Merge:
    """The step if segments of the group that are to stay must not share offsets."""
    return _without_covered(look, group) or _merge(group)


def _without_covered(look: Look, group: SwapGroup) -> Retire | None:
    """The step if live segments have all offsets of another one.

    By effective ranges it gives nothing, so nothing needs to be written before it goes. One that
    its leader had given up and finished after all hides offsets behind it until then.
    """
    live = joined(OffsetRange(one.own_start_offset, one.end_offset) for one in group.live)
    covered = [one for one in group.beside if not without(_in_log(look, one), live)]
    if not covered:
        return None
    return Retire(
        segment_ids=tuple(sorted(one.added.segment_id for one in covered)),
        why="live segments have all their offsets",
    )


def _merge(group: SwapGroup) -> Merge:
    ids = [one.segment_id for one in group.live]
    ids += [one.added.segment_id for one in group.beside]
    starts = {one.segment_id: one.own_start_offset for one in group.live}
    starts |= {one.added.segment_id: one.added.start_offset for one in group.beside}
    return Merge(
        segment_ids=tuple(sorted(ids, key=lambda segment_id: (starts[segment_id], segment_id))),
        why=f"brokers have another segment beside a replacement (offsets {group.bounds})",
    )


def _is_beside(group: SwapGroup) -> bool:
    """Whether a replacement shares offsets with another segment that is to stay."""
    ranges = [OffsetRange(one.own_start_offset, one.end_offset) for one in group.live]
    ranges += [range_of(one.added) for one in group.beside]
    for segment in group.replacements:
        own = OffsetRange(segment.own_start_offset, segment.end_offset)
        if sum(map(own.overlaps, ranges)) > 1:
            return True
    return False


def _swap(look: Look, group: SwapGroup) -> Send | Retire | Merge | Refused:
    """The second send: replacements in the place of what the row has retired."""
    if (uncovered := _uncovered(look, group)) is not None:
        return uncovered
    new = list(_to_finish(look, group))
    batch = swap_batch(look, new, group.old, descends=group.is_restored)
    if batch is not None:
        return Send(
            purpose=Purpose.SWAP,
            events=batch,
            why=f"segments of offsets {group.bounds} are replaced",
        )
    # An upload beside live ones may hide what they serve once the others are listed.
    if (retire := _without_covered(look, group)) is not None:
        return retire
    why = (
        f"in every order of the events of offsets {group.bounds}, look-ups would lose offsets for a"
        " while"
    )
    if len(group.live) + len(group.beside) > 1:
        # One replacement of all has an order: what is listed by its start leaves its offsets to it.
        return replace(_merge(group), why=f"{why}, unless they are one segment")
    return Refused(code=RefusalCode.NO_ORDER, why=why)


def _to_finish(look: Look, group: SwapGroup) -> Iterator[BrokerSegment]:
    """Replacements that brokers do not read yet, and what takes the place of what goes."""
    for segment in group.live:
        known = look.view.segments[segment.segment_id]
        bounds = range_of(known.added)
        is_unread = known.state is SegmentState.COPY_STARTED and not segment.is_named_by_brokers
        if is_unread or (
            known.state is SegmentState.COPY_FINISHED
            and any(bounds.overlaps(range_of(one.added)) for one in group.old)
        ):
            yield known


def _uncovered(look: Look, group: SwapGroup) -> Refused | None:
    """The refusal if what goes has offsets of the log that nothing live covers."""
    live = joined(OffsetRange(one.own_start_offset, one.end_offset) for one in group.live)
    for segment in group.old:
        if not look.is_of_log(segment.added):
            continue  # Another history's, which no reader of the log comes to.
        left = without(_in_log(look, segment), live)
        if left:
            return Refused(
                code=RefusalCode.UNCOVERED,
                why=f"segment {segment.added.segment_id} is retired, and nothing live has its"
                f" offsets {left[0]}",
            )
    return None


def _in_log(look: Look, segment: BrokerSegment) -> tuple[OffsetRange, ...]:
    """The segment's offsets from the log start on."""
    first, last = range_of(segment.added)
    return joined([OffsetRange(max(first, look.log_start), last)])
