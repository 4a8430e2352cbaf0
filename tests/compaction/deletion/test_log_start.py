"""Where the log start moves by tierfold's own retention, and what must never be moved past."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.broker_events import FINISHED, added, updated
from tests.compaction.builders import CLUSTER, a_chain, a_segment
from tests.compaction.looks import a_look, a_row, whole
from tierfold.compaction.brokers.broker_view import ReadOnly, ReadOnlyCause
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.deletion.expiry import ExpiryReason
from tierfold.compaction.deletion.log_start import LogStartMove, log_start_move, move_violation
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.publishing.look import Look

NOW_MS: Final = 1_000_000
RULES: Final = Rules(
    cleanup_policy=frozenset({"compact", "delete"}),
    retention_ms=100,
    retention_written=frozenset({"retention_ms"}),
)
BY_SIZE: Final = replace(
    RULES, retention_bytes=2000, retention_written=frozenset({"retention_bytes"})
)
TIME, SIZE = ExpiryReason.TIME, ExpiryReason.SIZE


def log(*ages_ms: int | None) -> tuple[Segment, ...]:
    """Segments of ten offsets and 1000 bytes, by the age of the newest record; None: unknown."""
    chain = a_chain(*[10] * len(ages_ms))
    times_ms = [-1 if age_ms is None else NOW_MS - age_ms for age_ms in ages_ms]
    pairs = zip(chain, times_ms, strict=True)
    return tuple(replace(one, max_timestamp_ms=at_ms) for one, at_ms in pairs)


OLD = log(500, 400, 300, 50, 10)


def offsets(log_start: int = 0, end: int = 1000, stable: int = 1000) -> PartitionOffsets:
    return PartitionOffsets(log_start=log_start, high_watermark=end, last_stable=stable)


def moved(
    segments: tuple[Segment, ...], rules: Rules = RULES, at: PartitionOffsets | None = None
) -> tuple[int, list[ExpiryReason]] | None:
    move = log_start_move(segments, rules, at or offsets(), NOW_MS)
    return None if move is None else (move.offset, [one.reason for one in move.expired])


def test_it_moves_behind_the_last_segment_past_retention() -> None:
    assert moved(OLD) == (30, [TIME] * 3)
    assert moved(log(500, 101, 100)) == (20, [TIME] * 2)
    assert moved(log(101)) == (10, [TIME])


def test_a_young_record_keeps_all_behind_it() -> None:
    assert moved(log(50, 500, 500)) is None
    assert moved(log(500, -10**12, 500)) == (10, [TIME])  # A record of the far future.
    assert moved(log(500, None, 500)) == (10, [TIME])  # Without a timestamp.


def test_size_counts_where_it_is_written() -> None:
    assert moved(OLD, BY_SIZE) == (30, [SIZE] * 3)
    assert moved(OLD, replace(RULES, retention_bytes=2000)) == (30, [TIME] * 3)
    assert moved(log(1, 1, 1), replace(RULES, retention_bytes=0)) is None


def test_a_default_never_moves_it() -> None:
    week = Rules(cleanup_policy=RULES.cleanup_policy)
    assert week.retention_ms == 7 * DAY_MS
    assert log_start_move(OLD, week, offsets(), NOW_MS + 10**12) is None
    assert moved(OLD, replace(RULES, retention_written=frozenset())) is None
    assert moved(OLD, replace(RULES, retention_bytes=0, retention_ms=-1)) is None


def test_without_delete_in_the_policy_it_stays() -> None:
    for policy in (frozenset[str](), frozenset({"compact"})):
        assert moved(OLD, replace(RULES, cleanup_policy=policy)) is None


def test_it_moves_no_further_than_what_is_stable_and_replicated() -> None:
    assert moved(OLD, at=offsets(stable=29)) == (20, [TIME] * 2)
    assert moved(OLD, at=offsets(end=20)) == (20, [TIME] * 2)
    assert moved(OLD, at=offsets(stable=9)) is None


def test_what_lies_below_the_log_start_is_no_reason() -> None:
    assert moved(OLD, at=offsets(10)) == (30, [TIME] * 2)
    assert moved(OLD, at=offsets(25)) == (30, [TIME])
    assert moved(OLD, at=offsets(30)) is None


def test_the_note_says_how_many_and_where_to() -> None:
    move = log_start_move(OLD, RULES, offsets(), NOW_MS)
    assert isinstance(move, LogStartMove)
    assert move.note == (
        "3 live segments past retention.ms: brokers are asked to move the log start to offset 30,"
        " and then delete what lies below it"
    )


def look_at(*segments: Segment, log_start: int = 0, **fields: Any) -> Look:
    """A look at a published row of these segments."""
    row = a_row(segments, served_by=(CLUSTER,))
    return a_look(row, whole(*segments), log_start=log_start, **fields)


def why(offset: int, look: Look | None = None, rules: Rules = RULES) -> str:
    return move_violation(look or look_at(*OLD), rules, offset, NOW_MS)


def test_only_the_end_of_what_has_expired_is_allowed() -> None:
    allowed = [offset for offset in range(-5, 60) if not why(offset)]
    assert allowed == [10, 20, 30]
    assert "has not expired" in why(40)
    assert "would be cut at offset 25" in why(25)


def test_the_check_knows_sizes() -> None:
    assert [offset for offset in range(-5, 60) if not why(offset, rules=BY_SIZE)] == [10, 20, 30]


def test_nothing_is_moved_that_is_not_published() -> None:
    for rules in (
        replace(RULES, publish=False),
        replace(RULES, cleanup_policy=frozenset({"compact"})),
    ):
        assert "nothing of the partition is published" in why(10, rules=rules)
    detached = a_look(a_row(OLD), whole(*OLD))
    assert "nothing of the partition is published" in why(10, detached)


def test_nothing_is_moved_by_a_default() -> None:
    assert "has not expired" in why(10, rules=replace(RULES, retention_written=frozenset()))


def test_nothing_is_moved_beyond_what_brokers_have_as_stable() -> None:
    look = look_at(*OLD)
    assert why(20, replace(look, offsets=offsets(stable=19)))
    assert why(20, replace(look, offsets=offsets(end=19)))
    assert why(20, replace(look, offsets=offsets(log_start=20)))
    assert not why(20, replace(look, offsets=offsets(log_start=15)))


def test_nothing_is_moved_past_a_segment_that_the_row_does_not_name() -> None:
    events = [*whole(*OLD), added("other", 5, 9), updated("other", FINISHED)]
    look = a_look(a_row(OLD, served_by=(CLUSTER,)), events)
    assert "which the row does not name" in why(10, look)
    beyond = [*whole(*OLD), added("other", 50, 59), updated("other", FINISHED)]
    assert not why(10, a_look(a_row(OLD, served_by=(CLUSTER,)), beyond))


def test_nothing_is_moved_beside_records_that_nothing_may_be_written_beside() -> None:
    cause = ReadOnly(
        cause=ReadOnlyCause.KEYED, metadata_partition=1, offset=5, why="has a key"
    )
    look = look_at(*OLD)
    assert "has a key" in why(10, replace(look, view=replace(look.view, read_only=(cause,))))


def test_an_empty_log_has_nothing_to_move() -> None:
    assert moved(()) is None
    assert why(10, look_at())


@given(
    st.lists(st.one_of(st.none(), st.integers(-200, 300)), min_size=1, max_size=8),
    st.integers(0, 90),
    st.integers(0, 100),
    st.sampled_from([-1, 0, 1000, 2500, 9000]),
    st.sets(st.sampled_from(["retention_ms", "retention_bytes"])),
)
def test_each_move_passes_the_check_and_nothing_young_goes(
    ages_ms: list[int | None], log_start: int, end: int, most_bytes: int, written: set[str]
) -> None:
    rules = replace(RULES, retention_bytes=most_bytes, retention_written=frozenset(written))
    segments = log(*ages_ms)
    at = offsets(log_start, end, end)
    move = log_start_move(segments, rules, at, NOW_MS)
    if move is None:
        return
    look = replace(look_at(*segments), offsets=at)
    assert move_violation(look, rules, move.offset, NOW_MS) == ""
    assert log_start < move.offset <= end
    read = [one for one in segments if one.end_offset >= log_start]
    kept = [one for one in read if one.end_offset >= move.offset]
    assert [one.segment for one in move.expired] == read[: len(read) - len(kept)]
    by_time = "retention_ms" in written
    for one in move.expired:
        is_old = by_time and 0 <= one.segment.max_timestamp_ms < NOW_MS - 100
        assert is_old if one.reason is TIME else "retention_bytes" in written
    if "retention_bytes" not in written:
        assert all(one.reason is TIME for one in move.expired)


def test_the_row_may_lie_behind_the_log_start() -> None:
    segments = log(500, 500, 500, 5)
    assert moved(segments, at=offsets(20)) == (30, [TIME])
    assert not why(30, look_at(*segments, log_start=20))
    late = (a_segment(0, 9, max_timestamp_ms=NOW_MS), *log(0, 500, 5)[1:])
    assert not why(20, look_at(*late, log_start=10))
