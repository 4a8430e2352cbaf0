"""Scenarios that are drawn at random, for what only happens together."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.faults.publishing_search.search_scenarios import THREE_EVENTS
from tests.faults.publishing_search.search_state import (
    LIMITS,
    Bounds,
    Loss,
    Scenario,
    Tombstones,
    Window,
)


def drawn_scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = Random(seed)
    tiered = rng.randint(3, 5)
    segments = _segments(rng, tiered)
    uploads = _uploads(rng, tiered)
    begun = ((rng.randrange(tiered),) * 2,) if rng.random() < 0.2 else ()
    strays = int(rng.random() < 0.1)
    lineage = _lineage(rng, tiered)
    if uploads and len(lineage) > 1:
        # Brokers alone can then leave a hole that only a merge mends.
        begun = ()
    cuts = tuple(sorted(rng.sample(range(1, tiered), rng.choice((0, 0, 1, 2)))))
    log_starts = tuple(sorted(rng.sample(range(1, tiered + 1), rng.choice((0, 0, 1, 2)))))
    if strays:
        # At the head of an epoch or of the log brokers delete at once what they list.
        log_starts, lineage = (), ((0, 0),)
    # A consumer that pauses is set back by DeleteRecords, and stopped by a hole that stays.
    has_reader = rng.random() < 0.2 and not (strays or log_starts)
    window = Window.NEXT_RUN if strays else Window.NEXT_LOOK if uploads or begun else Window.NONE
    runs = rng.choice(("A", "A", "AB", "AV"))
    drawn = Scenario(
        runs=runs,
        one_group=rng.choice(("", "A", "AB")),
        cuts=cuts,
        margin=rng.choice((0, 1)),
        plans=3 if uploads or begun or strays else rng.choice((1, 2)),
        tombstones=_tombstones(rng, has_reader=has_reader, is_cut=bool(cuts)),
        has_reader=has_reader,
        # Where a source that is cut begins below the log start, brokers delete its objects at once.
        has_second_broker=rng.random() < 0.15 and not (strays or (cuts and log_starts)),
        offsets=max([tiered, *(end + 1 for _, end in uploads)]),
        segments=segments,
        lineage=lineage,
        uploads=uploads,
        begun_uploads=begun,
        are_given_up=rng.random() < 0.7,
        log_starts=log_starts,
        strays=strays,
        repeats=rng.choice((0, 0, 1)),
        batch_bytes_max=rng.choice((LIMITS.batch_bytes_max, LIMITS.batch_bytes_max, THREE_EVENTS)),
        passes_time="V" in runs,
        slow_looks=rng.random() < 0.15,
        cuts_lineage=rng.random() < 0.3,
        window=window,
    )
    return _with_a_loss(rng, drawn)


def _with_a_loss(rng: Random, drawn: Scenario) -> Scenario:
    """The scenario, perhaps with a metadata topic that is lost."""
    loss = rng.choice((Loss.NONE, *Loss))
    if loss is Loss.NONE or drawn.window is not Window.NONE:
        return drawn
    drawn = replace(drawn, runs=drawn.runs + rng.choice(("M", "MM")), loss=loss)
    if rng.random() < 0.6:
        return drawn
    # A person saves what a moved log start has passed, once brokers have forgotten it.
    return replace(drawn, stops_copying=True, log_starts=(), has_reader=False)


def _segments(rng: Random, tiered: int) -> tuple[Bounds, ...]:
    """Uploads that follow each other, of one to three offsets."""
    segments, start = [], 0
    while start < tiered:
        end = min(start + rng.choice((0, 0, 1, 2)), tiered - 1)
        segments.append((start, end))
        start = end + 1
    return tuple(segments)


def _uploads(rng: Random, tiered: int) -> tuple[Bounds, ...]:
    """What new leaders upload: each ends beyond the tier."""
    ends = rng.choice(((), (), (tiered,), (tiered,), (tiered - 1 + rng.randint(1, 6 - tiered),)))
    return tuple((rng.randint(0, tiered), end) for end in ends)


def _lineage(rng: Random, tiered: int) -> tuple[Bounds, ...]:
    """One to three leader epochs."""
    starts = sorted(rng.sample(range(1, tiered + 1), rng.choice((0, 0, 1, 2))))
    return ((0, 0), *((number * 2, start) for number, start in enumerate(starts, 1)))


def _tombstones(rng: Random, *, has_reader: bool, is_cut: bool) -> Tombstones:
    """When they go: never at once where that shows (docs/publishing.md)."""
    if has_reader:
        return Tombstones.STAY
    if is_cut:
        return Tombstones.STAY_A_PASS
    return rng.choice(tuple(Tombstones))
