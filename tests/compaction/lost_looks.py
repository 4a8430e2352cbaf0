"""Looks after the metadata topic was lost: what the row and the tier have, and the topic since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tests.compaction.builders import a_chain, segment_id
from tests.compaction.looks import a_look, a_row, replacement
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.publishing.event_check import Checked, checked
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.lost_metadata import (
    NameAgain,
    NothingLost,
    RebuildStep,
    rebuild_step,
    with_rebuilds,
)

U, V, W = a_chain(10, 10, 10)
R = replacement("R", 0, 19)
ROW = a_row([R, W], [U, V])
"""U and V were compacted to R."""
AGAIN, TWIN = map(segment_id, ("again", "twin"))


def lost(
    row: PartitionState = ROW,
    events: Iterable[Event | tuple[Event, int]] = (),
    covered: Sequence[Segment] = (),
    **fields: Any,
) -> Look:
    """A look after the loss; `events`: what the topic has since."""
    there = row.named_ids | {one.segment_id for one in covered}
    look = a_look(row, events, **{"whole": there, "present": there, **fields})
    naming = a_look(replace(row, segments=(*row.segments, *covered)), events).naming
    return with_rebuilds(replace(look, naming=naming), covered)


def step(look: Look, *, is_served: bool = True, is_copying: bool = True) -> RebuildStep:
    """The decision, by default beside brokers that serve from memory and copy."""
    return rebuild_step(look, is_served=is_served, is_copying=is_copying)


def named(look: Look, **known: bool) -> NameAgain:
    """What is named again."""
    found = step(look, **known)
    assert isinstance(found, NameAgain), found
    return found


def sent(row: PartitionState = ROW, **fields: Any) -> list[Event]:
    """All events of a rebuild, each batch checked and taken before the next look."""
    events: list[Event] = []
    for _ in range(9):
        look = lost(row, events, **fields)
        found = step(look)
        if isinstance(found, NothingLost):
            return events
        assert isinstance(found, NameAgain), found
        assert isinstance(checked(look, found.events), Checked)
        events += found.events
    raise AssertionError("a rebuild comes to an end")
