"""What a plan was made from, so that a run carries out that plan and no other.

    approved(partition)              what a plan file keeps of a partition that is due
    unless_changed(partition, was)   the same partition, refused if anything has changed since

The facts are compared, and then the choice that follows from them: it must be the same, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.wording import counted
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact

IDS_MAX: Final = 3
"""A sentence names at most this many segments."""

_REMEDY: Final = "Nothing of it was changed. Run `tierfold plan --out` again, and approve that."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRound:
    """What is to be done, by all chunks together."""

    reason: str
    """A `CompactReason`."""
    first_dirty: int
    next_offset: int
    bytes_in: int
    groups: tuple[tuple[str, ...], ...]
    """Ids of the segments of each group, which becomes one segment."""
    beside: tuple[str, ...]
    """As of `Compact.beside`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """One partition as its plan found it, and the plan."""

    row: str
    """The commit id of its row in the catalog; empty: there was none."""
    epoch: int
    """The row's compaction epoch."""
    segments: tuple[str, ...]
    """Ids of the segments in the listing and of the live ones, sorted."""
    round: PlannedRound
    settings: Mapping[str, str]
    """The settings of its topic, by their names."""


def approved(partition: PartitionPlan, settings: Mapping[str, str]) -> Approved:
    """Return what a plan file keeps of the partition; raises TypeError if it is not due."""
    return Approved(
        row=_row(partition.view),
        epoch=partition.epoch,
        segments=_segments(partition.view),
        round=_round(partition.compact),
        settings=settings,
    )


def unless_changed(
    partition: PartitionPlan, was: Approved, settings: Mapping[str, str]
) -> PartitionPlan:
    """Return the partition, refused if it is not as it was when `was` was planned.

    What is refused anyway keeps its own reason. `settings`: those of its topic now.
    """
    if isinstance(partition.choice, Refusal):
        return partition
    if not (changes := [*_changes(partition, was, settings)]):
        return partition
    return replace(partition, choice=outdated("; ".join(changes)))


def outdated(detail: str) -> Refusal:
    """Return the refusal of a partition that is not as it was planned; `detail`: a clause."""
    return Refusal(
        reason=RefusalReason.PLAN_OUTDATED,
        detail=f"it has changed since it was planned: {detail}",
        remedy=_REMEDY,
    )


def _changes(
    partition: PartitionPlan, was: Approved, settings: Mapping[str, str]
) -> Iterator[str]:
    """What has changed, a clause each; the choice only if nothing else has."""
    found = [
        f"{name} was {was.settings.get(name, 'unknown')} and is {settings.get(name, 'unknown')}"
        for name in sorted(was.settings.keys() | settings.keys())
        if was.settings.get(name) != settings.get(name)
    ]
    if partition.view is not None:
        if _row(partition.view) != was.row:
            found.append(
                "a run has changed its row in the catalog"
                f" (epoch {was.epoch} then, {partition.epoch} now)"
            )
        now = set(_segments(partition.view))
        found.extend(_named(now.difference(was.segments), "new"))
        found.extend(_named(set(was.segments) - now, "gone"))
    yield from found
    choice = partition.choice
    if not found and not isinstance(choice, Compact):
        yield f"nothing would be done now: {choice.detail}"
    elif not found and isinstance(choice, Compact) and _round(choice) != was.round:
        yield (
            f"{counted(len(choice.groups), 'new segment')} up to offset {choice.next_offset - 1}"
            f" would be written now, {len(was.round.groups)} up to {was.round.next_offset - 1} then"
        )


def _named(ids: Collection[str], what: str) -> Iterator[str]:
    if ids:
        more = len(ids) - IDS_MAX
        named = ", ".join(islice(sorted(ids), IDS_MAX)) + (f" and {more} more" if more > 0 else "")
        yield f"{counted(len(ids), 'segment')} {'is' if len(ids) == 1 else 'are'} {what}: {named}"


def _row(view: PartitionView | None) -> str:
    return "" if view is None or view.state is None else view.state.commit_id


def _segments(view: PartitionView | None) -> tuple[str, ...]:
    if view is None:
        return ()
    listed = (*view.orphans, *view.set_apart, *view.waiting, *view.retired)
    ids = {one.segment_id for one in listed} | {one.segment_id for one in view.segments}
    return tuple(sorted(ids))


def _round(compact: Compact) -> PlannedRound:
    return PlannedRound(
        reason=compact.reason.value,
        first_dirty=compact.first_dirty,
        next_offset=compact.next_offset,
        bytes_in=compact.bytes_in,
        groups=tuple(tuple(one.segment_id for one in group.segments) for group in compact.groups),
        beside=tuple(segment.segment_id for segment in compact.beside),
    )
