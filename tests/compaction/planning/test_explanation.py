"""The region, the action and the reason of each segment, drawn as one word per segment."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tests.compaction.aged import NOW_MS, aged
from tests.compaction.builders import a_chain, a_view, cleaned_to
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.wording import duration
from tierfold.compaction.planning.chunks import RemainingBudget, next_wave
from tierfold.compaction.planning.explanation import (
    ExplainedSegment,
    decision,
    explained,
    folded,
)
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact, propose
from tierfold.compaction.planning.regions import LastStable, Regions, regions_of

COMPACT = Rules(cleanup_policy=frozenset({"compact"}))
NEVER = replace(COMPACT, min_cleanable_dirty_ratio=Fraction(1))
ALWAYS = replace(COMPACT, min_cleanable_dirty_ratio=Fraction(0))
MIN = replace(COMPACT, min_compaction_lag_ms=50)
MAX = replace(NEVER, max_compaction_lag_ms=80)
HOLD = LastStable(offset=212, producer_id=2999)
DUE = a_view(
    [
        replace(segment, earliest_due_ms=due_ms)
        for segment, due_ms in zip(
            a_chain(100, 100, 100), (NOW_MS - 5, NOW_MS + 2000, None), strict=True
        )
    ],
    cleaner_offsets=cleaned_to(300),
)


def explain(
    view: PartitionView,
    rules: Rules,
    last_stable: LastStable | None = None,
    forced: int | None = None,
) -> tuple[ExplainedSegment, ...]:
    regions = regions_of(view, last_stable, rules, NOW_MS, forced_first_dirty=forced)
    assert isinstance(regions, Regions)
    choice = propose(view, rules, regions, NOW_MS)
    if isinstance(choice, Compact):
        due = PartitionPlan(key=view.key, rules=rules, choice=choice, view=view)
        choice = next_wave([due], RemainingBudget()).chunks[0].choice
    return explained(view, rules, regions, choice, NOW_MS)


def words(segments: tuple[ExplainedSegment, ...]) -> list[str]:
    return [
        f"{'+'.join(explained.regions)}: {explained.action}{explained.group or ''}"
        for explained in segments
    ]


@pytest.mark.parametrize(
    ("segments", "expected", "why"),
    [
        # Clean segments are rewritten, too; the one with the first dirty offset is in both regions.
        (
            explain(aged(9, 9, 9, cleaned=150), ALWAYS),
            ["cleaned: rewritten1", "cleaned+dirty: rewritten1", "dirty: rewritten1"],
            {1: "the log is dirty from offset 150 on"},
        ),
        (
            explain(aged(9, 9, cleaned=100), replace(COMPACT, segment_bytes=1000), forced=0),
            ["dirty: rewritten1", "dirty: rewritten2"],
            {0: "the log is dirty from offset 0 on (--first-dirty)"},
        ),
        (
            explain(aged(9, 9, cleaned=100), NEVER),
            ["cleaned: left", "dirty: waits"],
            {
                1: "1 000 of 2 000 bytes are dirty (50.0 %), not more than"
                " min.cleanable.dirty.ratio (100 %)",
            },
        ),
        (
            explain(aged(90, 30, 60), MIN),
            ["dirty: rewritten1", "too young: waits", "too young: waits"],
            dict.fromkeys(
                (1, 2),
                "held back from offset 100 on: the segment there holds records younger than"
                " min.compaction.lag.ms (50); only its transactions are read",
            ),
        ),
        (
            explain(aged(-7, cleaned=50), MIN),
            ["cleaned+too young: waits"],
            {
                0: "held back from offset 0 on: the segment there holds records younger than"
                " min.compaction.lag.ms (50)",
            },
        ),
        (
            explain(aged(9, 9, 9, cleaned=200), COMPACT, HOLD),
            ["cleaned: left", "cleaned: left", "unstable: waits"],
            {
                2: "held back from offset 200 on: the transaction of producer 2999 that begins at"
                " offset 212 has no marker in the tier",
            },
        ),
        (
            explain(aged(10, 90, 10, cleaned=100), MAX),
            ["cleaned: rewritten1", "dirty: rewritten1", "dirty: rewritten1"],
            {1: "its first batch is 90 ms old, max.compaction.lag.ms is 80"},
        ),
        (
            explain(aged(9, 9), replace(COMPACT, chunk_bytes=1000)),
            ["dirty: rewritten1", "dirty: waits"],
            {1: "the first chunk ends at offset 99: a later one takes it"},
        ),
        (
            explain(DUE, COMPACT),
            ["cleaned: rewritten1", "cleaned: transactions read", "cleaned: transactions read"],
            {
                0: "a delete horizon in it passed 5 ms ago",
                1: "clean; its earliest delete horizon is 2 s ahead",
                2: "clean, and no delete horizon is set in it",
            },
        ),
        (
            explain(DUE, COMPACT, forced=300),
            ["cleaned: left"] * 3,
            {0: "clean; with --first-dirty no delete horizon counts"},
        ),
    ],
)
def test_each_segment_has_its_region_its_action_and_why(
    segments: tuple[ExplainedSegment, ...], expected: list[str], why: dict[int, str]
) -> None:
    assert words(segments) == expected
    assert {place: segments[place].why for place in why} == why


def test_the_age_is_of_the_youngest_record_and_with_a_maximum_lag_of_the_first() -> None:
    clean, dirty = explain(aged((90, 10), (70, 20), cleaned=100), MAX)
    assert (clean.age_ms, clean.first_age_ms) == (10, None)
    assert (dirty.age_ms, dirty.first_age_ms) == (20, 70)
    assert explain(aged((70, 20)), COMPACT)[0].first_age_ms is None
    assert explain(aged(NOW_MS + 1), COMPACT)[0].age_ms is None


def test_a_refused_partition_is_left_as_it_is() -> None:
    view = aged(9)
    regions = regions_of(view, None, COMPACT, NOW_MS)
    assert isinstance(regions, Regions)
    refusal = Refusal(reason=RefusalReason.GAP, detail="a hole", remedy="Look.")
    (only,) = explained(view, COMPACT, regions, refusal, NOW_MS)
    assert (only.action, only.why) == ("left", "the partition is refused: gap")
    assert decision(refusal) == "refused, gap: a hole. Look"


def test_too_many_similar_neighbours_become_one_row() -> None:
    segments = explain(aged(*[9] * 30, cleaned=1200), NEVER)
    assert len(folded(segments, 30)) == 30
    runs = folded(segments, 29)
    assert [len(run.segments) for run in runs] == [12, 18]
    assert [run.size_bytes for run in runs] == [12_000, 18_000]


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [(0, "0 ms"), (999, "999 ms"), (1999, "1.9 s"), (60_000, "1 min"), (90 * 3_600_000, "3.7 d")],
)
def test_a_duration_is_rounded_down(time_ms: int, expected: str) -> None:
    assert duration(time_ms) == expected


def test_an_overlapping_segment_says_which_of_its_offsets_are_read_elsewhere() -> None:
    first, second = a_chain(10, 10)
    cut = replace(second, skipped_offsets=3, skipped_bytes=100, agrees_with=(first.segment_id,))
    whole, overlapping = explain(a_view([first, cut]), ALWAYS)
    assert overlapping.why.endswith(
        "; its offsets 7 to 9 are read from earlier uploads"
    )
    assert "earlier" not in whole.why
