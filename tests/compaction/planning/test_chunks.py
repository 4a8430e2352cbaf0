"""Chunks of a partition, waves of a run, and why each ends where it ends."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_chain, a_segment, a_state, a_view, cleaned_to
from tests.compaction.planning.plan_check import plan_violations
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.planning.chunks import RemainingBudget, next_wave, rest_of_plan
from tierfold.compaction.planning.partition_plan import PartitionPlan, partition_plan
from tierfold.compaction.planning.waves import WaveLimit

NOW_MS = 2_000_000
RULES = Rules(
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=Fraction(0),
    segment_bytes=1,
)
FIVE = (10, 10, 10, 10, 10)
"""The offsets of five segments of 1000 bytes."""


def a_plan(*lengths: int, clean: int = 0, sizes: tuple[int, ...] = ()) -> PartitionPlan:
    """The plan of a chain of segments, clean below offset `clean`."""
    segments = a_chain(*lengths)
    segments = tuple(
        replace(segment, size_bytes=size)
        for segment, size in zip(segments, sizes or [1000] * len(segments), strict=True)
    )
    view = a_view(segments, cleaner_offsets=cleaned_to(clean)) if clean else a_view(segments)
    plan = partition_plan(view, (), RULES, NOW_MS)
    assert plan.is_due
    return plan


def due(
    plan: PartitionPlan, chunk_bytes: int | None = None, chunks_done: int = 0
) -> PartitionPlan:
    rules = replace(plan.rules, chunk_bytes=chunk_bytes)
    return replace(plan, rules=rules, choice=replace(plan.compact, chunks_done=chunks_done))


def ends(wave_due: list[PartitionPlan], budget_left: RemainingBudget) -> tuple[list[int], str]:
    """Where the chunks of the next wave end, and why the run may begin nothing else."""
    wave = next_wave(wave_due, budget_left)
    return [chunk.compact.next_offset for chunk in wave.chunks], wave.stop


def test_without_a_limit_the_whole_plan_is_one_chunk() -> None:
    plan = a_plan(*FIVE)
    (chunk,) = next_wave([due(plan)], RemainingBudget()).chunks
    assert chunk == due(plan)
    assert chunk.compact.is_last


@pytest.mark.parametrize(
    ("chunk_bytes", "end"),
    [
        (1, 10),  # at least one segment
        (1999, 10),
        (2000, 20),
        (4999, 40),
        (5000, 50),
    ],
)
def test_a_chunk_is_whole_segments_within_chunk_bytes(chunk_bytes: int, end: int) -> None:
    assert ends([due(a_plan(*FIVE), chunk_bytes)], RemainingBudget()) == ([end], "")


def test_only_dirty_bytes_count_against_chunk_bytes_and_the_clean_part_goes_along() -> None:
    (chunk,) = next_wave([due(a_plan(*FIVE, clean=20), 2000)], RemainingBudget()).chunks
    assert (chunk.compact.next_offset, chunk.compact.bytes_in) == (40, 4000)
    assert chunk.compact.sources[0].start_offset == 0
    assert not chunk.compact.is_last


def test_a_partly_clean_segment_is_dirty() -> None:
    (chunk,) = next_wave([due(a_plan(*FIVE, clean=25), 1000)], RemainingBudget()).chunks
    assert chunk.compact.next_offset == 30


def test_a_chunk_says_its_number_and_why_it_ends() -> None:
    (chunk,) = next_wave([due(a_plan(*FIVE), 2000)], RemainingBudget()).chunks
    assert chunk.compact.held_back == (
        "chunk 1 of about 3, up to offset 19: chunk.bytes is 2000",
    )
    (later,) = next_wave(
        [due(a_plan(*FIVE, clean=20), 2000, chunks_done=1)], RemainingBudget()
    ).chunks
    assert later.compact.held_back[0].startswith("chunk 2 of about 3, up to offset 39")


def test_the_last_chunk_has_the_reasons_of_the_plan() -> None:
    plan = a_plan(*FIVE)
    plan = replace(plan, choice=replace(plan.compact, held_back=("an open transaction",)))
    (chunk,) = next_wave([due(plan, 5000)], RemainingBudget()).chunks
    assert chunk.compact.held_back == ("an open transaction",)


# --max-bytes.


def test_partitions_are_begun_in_order_while_they_fit() -> None:
    three = [due(a_plan(10, 10)), due(a_plan(10)), due(a_plan(10))]
    assert ends(three, RemainingBudget(budget_bytes=3000)) == (
        [20, 10],
        "--max-bytes is 3 000, and this run has already taken 3 000 bytes",
    )


def test_a_partition_that_fits_another_run_is_not_cut_and_none_overtakes_it() -> None:
    three = [due(a_plan(10)), due(a_plan(*FIVE)), due(a_plan(10))]
    found, stop = ends(three, RemainingBudget(budget_bytes=5500))
    assert found == [10]
    assert stop == "--max-bytes is 5 500, and this run has already taken 1 000 bytes"


def test_a_partition_too_large_for_any_run_is_cut_to_the_rest_of_the_budget() -> None:
    assert ends([due(a_plan(*FIVE))], RemainingBudget(budget_bytes=3500)) == ([30], "")
    later = RemainingBudget(budget_bytes=3500, spent_bytes=1000)
    assert ends([due(a_plan(*FIVE))], later) == ([20], "")
    assert ends([due(a_plan(*FIVE, clean=10))], later) == ([20], "")


def test_the_first_partition_of_a_run_gets_at_least_one_segment() -> None:
    assert ends([due(a_plan(*FIVE))], RemainingBudget(budget_bytes=1)) == ([10], "")
    assert ends([due(a_plan(*FIVE, clean=40))], RemainingBudget(budget_bytes=1)) == ([50], "")


def test_a_partition_that_is_too_large_waits_once_the_run_has_begun_something() -> None:
    budget_left = RemainingBudget(budget_bytes=1000, spent_bytes=1)
    stop = "--max-bytes is 1 000, and this run has already taken 1 byte"
    assert ends([due(a_plan(*FIVE))], budget_left) == ([], stop)


def test_a_chunk_counts_as_it_is_cut_by_chunk_bytes() -> None:
    both = [due(a_plan(*FIVE), 1000), due(a_plan(*FIVE), 1000)]
    assert ends(both, RemainingBudget(budget_bytes=2000)) == ([10, 10], "")


# The free space, and a wave's share.


def test_a_wave_takes_a_third_of_the_free_space_and_so_does_the_next() -> None:
    three = [due(a_plan(10, 10)), due(a_plan(10)), due(a_plan(10))]
    assert ends(three, RemainingBudget(free_bytes=9000)) == ([20, 10], "")


def test_a_partition_too_large_for_a_third_of_the_space_is_cut_to_it() -> None:
    (chunk,) = next_wave([due(a_plan(*FIVE))], RemainingBudget(free_bytes=9000)).chunks
    assert chunk.compact.next_offset == 30
    assert "has 9 000 bytes free" in chunk.compact.held_back[0]


def test_one_segment_is_begun_however_little_is_free() -> None:
    assert ends([due(a_plan(*FIVE)), due(a_plan(10))], RemainingBudget(free_bytes=0)) == ([10], "")


def test_a_wave_of_several_partitions_ends_at_its_bytes_and_a_single_one_is_not_cut() -> None:
    three = [due(a_plan(*FIVE)), due(a_plan(10)), due(a_plan(10))]
    assert ends(three, RemainingBudget(wave=WaveLimit(partitions=9, work=1500))) == ([50], "")
    assert ends(three[1:], RemainingBudget(wave=WaveLimit(partitions=9, work=1500))) == ([10], "")


# The rest of a plan.


def test_the_rest_starts_where_the_chunk_ended_and_reads_the_rows_segments() -> None:
    whole = a_plan(*FIVE)
    after = (a_segment(0, 19, segment_id="n" * 22, size_bytes=7), *a_chain(*FIVE)[2:])
    state = a_state((*after, a_segment(50, 59)), epoch=4)
    left = rest_of_plan(whole, 20, state)
    rest = left.compact
    assert (rest.first_dirty, rest.next_offset, rest.bytes_in) == (20, 50, 3007)
    assert rest.sources == after
    assert (rest.is_last, rest.chunks_done) == (True, 1)
    assert rest_of_plan(left, 30, state).compact.chunks_done == 2
    assert left.view is not None
    assert (left.view.state, left.view.segments) == (state, state.segments)
    assert (left.rules, left.ratio, left.regions) == (whole.rules, whole.ratio, whole.regions)


def test_a_partition_that_is_not_due_has_no_rest() -> None:
    clean = partition_plan(
        a_view(a_chain(10), cleaner_offsets=cleaned_to(10)), (), RULES, NOW_MS
    )
    with pytest.raises(TypeError, match="is not due"):
        rest_of_plan(clean, 10, a_state(a_chain(10)))


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    clean=st.integers(0, 7),
    chunk_bytes=st.none() | st.integers(1, 120),
    budget_bytes=st.none() | st.integers(1, 400),
    free_bytes=st.none() | st.integers(0, 900),
)
def test_waves_come_to_an_end_at_the_end_of_the_plan(
    sizes: list[int],
    clean: int,
    chunk_bytes: int | None,
    budget_bytes: int | None,
    free_bytes: int | None,
) -> None:
    clean = min(clean, len(sizes) - 1)
    left = a_plan(*[10] * len(sizes), clean=10 * clean, sizes=tuple(sizes))
    whole = left.compact
    for done in range(len(sizes) + 1):
        # Each wave is the first of a run, so something is always begun.
        budget_left = RemainingBudget(budget_bytes=budget_bytes, free_bytes=free_bytes)
        assert left.compact.chunks_done == done
        (plan,) = next_wave([due(left, chunk_bytes, done)], budget_left).chunks
        assert plan_violations(plan, NOW_MS) == ()
        chunk, first_dirty = plan.compact, left.compact.first_dirty
        dirty = [source.size_bytes for source in chunk.sources][first_dirty // 10 :]
        assert dirty
        if len(dirty) > 1:
            assert sum(dirty) <= (chunk_bytes or sum(sizes))
            assert chunk.bytes_in <= (budget_bytes or sum(sizes))
            assert chunk.bytes_in <= (sum(sizes) if free_bytes is None else free_bytes // 3)
        assert first_dirty < chunk.next_offset <= whole.next_offset
        assert chunk.is_last == (chunk.next_offset == whole.next_offset)
        if chunk.is_last:
            break
        left = rest_of_plan(left, chunk.next_offset, a_state(whole.sources))
    else:
        raise AssertionError("more chunks than segments")
