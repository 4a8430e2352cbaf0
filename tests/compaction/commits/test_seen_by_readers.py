"""A round on a served row notes its pass, and until when brokers can have local copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.builders import CLUSTER, cleaned_to
from tests.compaction.claimed import NOW_MS, RULES, RUN, THREE, a_claim, a_plan, a_round
from tests.compaction.planning.test_local_copies import HOUR_MS, brokers
from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.cleaning.record_retention import legacy_tombstones_go
from tierfold.compaction.cleaning.rounds import Round, round_rules
from tierfold.compaction.commits.commit import (
    NoteFoundHorizon,
    NoteLocalRanges,
    NotePass,
    NotePublished,
    RestoreState,
    Update,
    proposed,
)
from tierfold.compaction.commits.invariants import violations
from tierfold.compaction.commits.receipts import (
    GroupReceipt,
    GroupResult,
    VerifiedParts,
    WrittenSegment,
)
from tierfold.compaction.commits.round_commit import proposal_of
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.commits.served_rows import SERVED_INVARIANTS
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.passes import counting_pass, is_unpublished
from tierfold.compaction.model.rules import DAY_MS, CompactionStrategy, Rules
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import LocalRange, Pass
from tierfold.compaction.planning.plan import CompactReason

AT_MS: Final = NOW_MS + 5_000
OPEN: Final = Pass(epoch=1, horizon_ms=None, published_at_ms=None, has_spared=False)
EARLIER: Final = Pass(epoch=3, horizon_ms=None, published_at_ms=7, has_spared=False)
HEADER: Final = replace(
    RULES, compaction_strategy=CompactionStrategy.HEADER, compaction_strategy_header="v"
)


def a_served_round(
    state: PartitionState | None = None,
    rules: Rules = RULES,
    local_ms: int | None = HOUR_MS,
    **planned: Any,
) -> Round:
    plan = a_plan(THREE, rules)
    assert plan.view is not None
    plan = replace(plan, view=replace(plan.view, brokers=brokers(THREE, local_ms)))
    state = state or a_claim(THREE, served_by=(CLUSTER,))
    return a_round(plan, state, **planned)


def receipts_of(
    work: Round, found_ms: Sequence[int | None] = (None, None), dropped: int = 0
) -> list[GroupReceipt]:
    """Each group became one segment, in which brokers' horizons were found."""
    return [
        GroupReceipt(
            group_index=number,
            result=GroupResult.WRITTEN,
            written=(
                WrittenSegment(
                    segment=replace(
                        group.segments[0],
                        segment_id=f"w{number}".ljust(22, "w"),
                        end_offset=group.end_offset,
                        origin=Compacted(RUN),
                    ),
                    staged=(),
                    verified=VerifiedParts(),
                    stored=(),
                ),
            ),
            counts=Counts(records_in=dropped, tombstones_expired=dropped),
            bytes_read=1,
            bytes_written=1,
            found_horizon_ms=found_ms[number],
        )
        for number, group in enumerate(work.groups)
    ]


def noted(work: Round, receipts: Sequence[GroupReceipt] | None = None) -> list[Update]:
    given = receipts_of(work) if receipts is None else receipts
    proposal = proposal_of(work, given, "commit", AT_MS, {})
    notes = NotePass | NoteFoundHorizon | NoteLocalRanges
    return [one for one in proposal.updates if isinstance(one, notes)]


def pass_of(work: Round, receipts: Sequence[GroupReceipt] | None = None) -> NotePass:
    (found,) = (one for one in noted(work, receipts) if isinstance(one, NotePass))
    return found


def after(work: Round) -> PartitionState:
    return applied(proposal_of(work, receipts_of(work), "commit", AT_MS, {}), work.state)


def test_a_row_that_no_broker_serves_notes_nothing_of_readers() -> None:
    assert noted(a_round()) == []
    assert applied(proposal_of(a_round(), receipts_of(a_round()), "c", AT_MS, {}), a_claim()) == (
        replace(after(a_served_round()), served_by=(), passes=(), local_ranges=(),
                local_retention_ms=None, commit_id="c")
    )


def test_a_round_that_writes_nothing_is_no_pass() -> None:
    work = a_served_round()
    unchanged = [
        replace(one, result=GroupResult.UNCHANGED, written=()) for one in receipts_of(work)
    ]
    assert noted(work, unchanged) == []


@pytest.mark.parametrize(
    ("found_ms", "earliest_ms"),
    [
        ((None, None), NOW_MS + DAY_MS),
        ((None, 5), 5),
        ((NOW_MS + 2 * DAY_MS, None), NOW_MS + DAY_MS),
    ],
)
def test_the_earliest_horizon_that_it_set_or_found_begins_the_pass(
    found_ms: Sequence[int | None], earliest_ms: int
) -> None:
    work = a_served_round()
    expected = NotePass(earliest_ms=earliest_ms, has_spared=False)
    assert pass_of(work, receipts_of(work, found_ms)) == expected


@pytest.mark.parametrize(
    ("found_ms", "expected"),
    [((None, None), []), ((9, 5), [NoteFoundHorizon(earliest_ms=5)])],
)
def test_a_merge_is_no_pass_and_horizons_that_it_found_count_from_the_next(
    found_ms: Sequence[int | None], expected: list[Update]
) -> None:
    work = a_served_round(reason=CompactReason.MERGE)
    found = noted(work, receipts_of(work, found_ms))
    assert [one for one in found if not isinstance(one, NoteLocalRanges)] == expected
    assert len(found) == len(expected) + 1


def test_a_pass_after_a_merge_in_the_same_run_counts_for_what_the_merge_found() -> None:
    for passes in ((replace(EARLIER, epoch=0),), ()):
        row = a_claim(THREE, served_by=(CLUSTER,), passes=passes)
        merged = change(row, NoteFoundHorizon(earliest_ms=5), NotePublished(at_ms=6))
        assert counting_pass(merged.passes, 5) is None
        assert counting_pass(merged.passes, 4) == merged.passes[-1]
        cleaned = change(after(a_served_round(merged)), NotePublished(at_ms=AT_MS))
        assert counting_pass(cleaned.passes, 5) == replace(OPEN, published_at_ms=AT_MS)


def test_a_dropped_tombstone_is_no_news_on_a_served_row() -> None:
    work = a_served_round()
    proposal = proposal_of(work, receipts_of(work, dropped=1), "commit", AT_MS, {})
    assert not applied(proposal, work.state).has_dropped


def test_the_row_has_the_pass_and_what_is_known_over_all_sources() -> None:
    work = a_served_round()
    row = after(work)
    assert violations(work.state, row, SERVED_INVARIANTS) == {}
    assert row.passes == (OPEN,)
    assert row.local_retention_ms == HOUR_MS
    until_ms = THREE[0].max_timestamp_ms + 2 * HOUR_MS
    assert row.local_ranges == tuple(
        LocalRange(end_offset=end, until_ms=until_ms) for end in (10, 21, 32)
    )


def test_what_is_unknown_is_not_noted() -> None:
    work = a_served_round()
    assert work.plan.view is not None
    known = brokers(THREE[:1])
    plan = replace(work.plan, view=replace(work.plan.view, brokers=known))
    assert [one.end_offset for one in after(replace(work, plan=plan)).local_ranges] == [10]
    for_ever = after(a_served_round(local_ms=None))
    assert (for_ever.local_ranges, for_ever.local_retention_ms) == ((), None)


def test_what_ended_long_ago_is_noted_as_one() -> None:
    state = a_claim(
        THREE,
        served_by=(CLUSTER,),
        local_retention_ms=HOUR_MS,
        local_ranges=tuple(
            LocalRange(end_offset=end, until_ms=until_ms)
            for end, until_ms in ((3, 1), (6, 2), (10, 3), (21, AT_MS - 9), (32, AT_MS))
        ),
    )
    rules = replace(RULES, delete_retention_ms=10)
    assert after(a_served_round(state, rules)).local_ranges == (
        LocalRange(end_offset=10, until_ms=3), *state.local_ranges[3:]
    )


CHUNK: Final = replace(OPEN, epoch=1, has_spared=True)


@pytest.mark.parametrize(
    ("rules", "passes", "planned", "has_spared"),
    [
        pytest.param(RULES, (), {}, False, id="a whole round"),
        pytest.param(RULES, (), {"first_dirty": 5}, True, id="forced beyond the clean region"),
        pytest.param(RULES, (CHUNK,), {"chunks_done": 1}, True, id="offsets: an earlier chunk did"),
        pytest.param(RULES, (), {"is_last": False}, False, id="offsets: a first chunk"),
        pytest.param(HEADER, (), {"is_last": False}, True, id="versions: a first chunk"),
        pytest.param(HEADER, (CHUNK,), {"chunks_done": 1}, False, id="versions: the last chunk"),
        pytest.param(
            RULES,
            (replace(EARLIER, epoch=0, has_spared=True),),
            {"reason": CompactReason.HORIZON_PASSED},
            True,
            id="a round for horizons compares no keys",
        ),
        pytest.param(
            RULES,
            (replace(EARLIER, epoch=0, has_spared=True),),
            {},
            False,
            id="a whole round does",
        ),
    ],
)
def test_a_pass_that_leaves_what_a_tombstone_hides_is_marked(
    rules: Rules, passes: tuple[Pass, ...], planned: dict[str, Any], *, has_spared: bool
) -> None:
    state = a_claim(THREE, served_by=(CLUSTER,), passes=passes)
    assert pass_of(a_served_round(state, rules, **planned)).has_spared is has_spared


# What a pass may do: tombstones and markers on a served row.


def test_what_was_dirty_when_the_run_began_stays_in_all_its_chunks() -> None:
    seen = replace(EARLIER, epoch=0, published_at_ms=0)
    state = a_claim(
        THREE,
        epoch=2,
        served_by=(CLUSTER,),
        passes=(seen,),
        local_ranges=(LocalRange(end_offset=21, until_ms=0), LocalRange(end_offset=32, until_ms=0)),
        local_retention_ms=HOUR_MS,
        cleaner_offsets=(*cleaned_to(11), *cleaned_to(22, epoch=2)),
    )

    def seen_below(row: PartitionState, **planned: int) -> int:
        readers = a_served_round(row, RULES, **planned).readers
        assert readers is not None
        return readers.limits(2 * DAY_MS).seen_below

    assert seen_below(state, first_dirty=22, chunks_done=1) == 11
    begun = replace(state, epoch=3)
    assert seen_below(begun, first_dirty=22) == 22
    assert seen_below(begun, first_dirty=5) == 5


@pytest.mark.parametrize(
    ("rules", "planned", "keeps"),
    [
        (HEADER, {"chunks_done": 1}, True),
        (HEADER, {"is_last": False}, True),
        (HEADER, {}, False),
        (RULES, {"chunks_done": 1}, False),
    ],
)
def test_if_versions_decide_all_chunks_of_a_run_keep_their_tombstones(
    rules: Rules, planned: dict[str, Any], *, keeps: bool
) -> None:
    assert a_served_round(rules=rules, **planned).keeps_tombstones is keeps
    unserved = a_round(a_plan(THREE, rules), a_claim(THREE), **planned)
    assert unserved.keeps_tombstones is ("is_last" in planned)


def test_on_a_served_row_tombstones_of_old_batches_wait_as_others_do() -> None:
    """Without a horizon the age of their segment would decide."""
    for work, goes in ((a_served_round(), False), (a_round(), True)):
        rules = replace(RULES, delete_retention_ms=0)
        plan = replace(work.plan, rules=rules, choice=replace(work.compact, first_dirty=33))
        of_round = round_rules(replace(work, plan=plan))
        assert legacy_tombstones_go(0, of_round) is goes
        assert legacy_tombstones_go(THREE[0].max_timestamp_ms, of_round) is goes


def test_what_is_noted_of_offsets_that_were_truncated_is_forgotten() -> None:
    ranges = tuple(LocalRange(end_offset=end, until_ms=1) for end in (10, 21, 32))
    row = a_claim(THREE[:2], served_by=(CLUSTER,), local_ranges=ranges)
    assert row.with_live_notes().local_ranges == ranges[:2]


# Publication and restore.


def change(row: PartitionState, *updates: Update) -> PartitionState:
    found = applied(proposed(row, *updates, commit_id="d", at_ms=AT_MS), row)
    assert violations(row, found, SERVED_INVARIANTS) == {}
    return found


def test_publication_is_noted_once_for_all_that_was_open() -> None:
    row = after(a_served_round())
    seen = change(row, NotePublished(at_ms=AT_MS))
    assert seen.passes == (replace(OPEN, published_at_ms=AT_MS),)
    assert change(seen, NotePublished(at_ms=AT_MS + 9)) == seen


def test_what_was_done_before_brokers_served_the_row_is_one_pass() -> None:
    row = a_claim(THREE, epoch=5, served_by=(CLUSTER,), cleaner_offsets=cleaned_to(11, epoch=4))
    assert is_unpublished(row)
    seen = change(row, NotePublished(at_ms=AT_MS))
    assert seen.passes == (replace(OPEN, epoch=4, published_at_ms=AT_MS),)
    assert not is_unpublished(seen)


def test_only_a_pass_is_noted_as_published() -> None:
    assert not is_unpublished(a_claim(THREE, served_by=(CLUSTER,)))
    published = a_claim(THREE, epoch=4, served_by=(CLUSTER,), passes=(EARLIER,))
    assert not is_unpublished(published)
    assert is_unpublished(replace(published, passes=(EARLIER, replace(OPEN, epoch=4))))


@pytest.mark.parametrize(("cleaner_offset", "has_spared"), [(33, False), (22, True)])
def test_a_restore_begins_all_horizons_again(cleaner_offset: int, *, has_spared: bool) -> None:
    row = a_claim(THREE, epoch=4, served_by=(CLUSTER,), passes=(EARLIER,))
    update = RestoreState(
        ids=tuple(one.segment_id for one in THREE),
        cleaner_offset=cleaner_offset,
        log_start_offset=0,
        strategies=(),
        spared=(),
        at_ms=AT_MS,
        run=RUN,
    )
    after = change(replace(row, strategies=("timestamp", "offset")), update)
    # That something was published stays known, as do the strategies that hid what is back.
    earlier = replace(EARLIER, horizon_ms=-1)
    assert after.passes == (earlier, replace(OPEN, epoch=4, has_spared=has_spared))
    assert after.strategies == ("timestamp", "offset")


def test_a_noted_publication_never_changes() -> None:
    row = a_claim(THREE, epoch=4, served_by=(CLUSTER,), passes=(EARLIER,))
    for changed in (
        replace(EARLIER, published_at_ms=8),
        replace(EARLIER, has_spared=True),
    ):
        before, later = (row, replace(row, passes=(changed,)))
        if changed.has_spared:
            before, later = later, before
        assert [*violations(before, later, SERVED_INVARIANTS)] == ["published_passes_stay"]
    grown = replace(row, passes=(replace(EARLIER, published_at_ms=None),))
    assert violations(row, grown, SERVED_INVARIANTS) == {}
