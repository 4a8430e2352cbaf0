"""What may go of a partition, and that nothing which a live row names ever does (SEMANTICS 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.commit import (
    EpochIs,
    FinishDeletion,
    MoveLogStart,
    ReleaseClaim,
    RetireSegments,
    StartDeletion,
    applied,
    claimed,
    proposed,
    unmet,
)
from compaction.invariants import ensure
from compaction.listing import REQUIRED_PARTS, Leftover, ListedSegment, classify
from compaction.outcomes import Fenced, LostRace
from compaction.retention import ExpiryReason
from compaction.rules import DAY_MS, Rules, TierBinding
from compaction.segments import PartitionState, RetiredSegment, Segment
from compaction.sweep import (
    Sweep,
    SweepOrder,
    deletion_faults,
    holder,
    old_orphans,
    sweep_of,
    taken_over,
)
from compaction.view import PartitionView, state_with_new, view_of
from tests.compaction.builders import KEY, LINEAGE, a_chain, a_segment, a_state, listed, segment_id

NOW_MS: Final = 100 * DAY_MS
TIMES: Final = SweepOrder(now_ms=NOW_MS)
DETACHED: Final = Rules(tier_binding=TierBinding.DETACHED, retention_ms=-1)
DELETE: Final = replace(
    DETACHED, cleanup_policy=frozenset({"delete"}), retention_ms=DAY_MS, retention_bytes=-1
)
CHAIN: Final = a_chain(10, 10, 10, max_timestamp_ms=NOW_MS)
LEFTOVER: Final = Leftover(object_key="f/.x.staged", size_bytes=7, modified_ms=NOW_MS - DAY_MS)


def gone(segment: Segment, *, for_ms: int, is_ours: bool = False) -> RetiredSegment:
    """Retired so long ago, written by a run of ours or by a broker."""
    return RetiredSegment(
        segment=replace(segment, written_by_run="earlier" if is_ours else ""),
        retired_at_ms=NOW_MS - for_ms,
        retired_by_epoch=1,
        retired_by_run="earlier",
    )


def orphan(start: int, name: str, *, age_ms: int = DAY_MS, lacking: str = "") -> ListedSegment:
    """What lies in the tier and in no row."""
    each = listed(a_segment(start, start, segment_id=segment_id(name)), lacking=lacking.split())
    return replace(each, modified_ms=NOW_MS - age_ms)


def seen(
    state: PartitionState | None, strays: Sequence[ListedSegment] = (), new: Sequence[Segment] = ()
) -> PartitionView:
    """The row, all that it names, and what lies beside."""
    known = () if state is None else (*state.segments, *(e.segment for e in state.retired))
    classified = classify([*map(listed, (*known, *new)), *strays], state)
    view = view_of(KEY, classified, new, state, LINEAGE)
    assert isinstance(view, PartitionView)
    return view


def sweep(
    view: PartitionView,
    rules: Rules = DETACHED,
    *,
    ends: dict[str, int | None] | None = None,
    leftovers: Sequence[Leftover] = (),
) -> Sweep:
    return sweep_of(view, rules, TIMES, ends=ends or {}, leftovers=leftovers)


def ids(swept: Sweep) -> tuple[list[str], ...]:
    """Ids of what expires, starts, goes on and is an orphan."""
    return (
        [each.segment.segment_id for each in swept.expired],
        [each.segment.segment_id for each in swept.starting],
        [each.segment.segment_id for each in swept.going],
        [each.segment_id for each in swept.orphans],
    )


A, B, C = (each.segment_id for each in CHAIN)


@pytest.mark.parametrize(("for_ms", "is_due"), [(DAY_MS, True), (DAY_MS - 1, False)])
def test_a_retired_segment_stays_for_the_grace_period(for_ms: int, is_due: bool) -> None:
    swept = sweep(seen(a_state(CHAIN[1:], retired=(gone(CHAIN[0], for_ms=for_ms),))))
    assert ids(swept) == ([], [A] if is_due else [], [], [])
    assert swept.needs_claim is is_due
    assert swept.is_nothing is not is_due


def test_a_deletion_that_was_started_goes_on_whatever_its_age_and_the_binding() -> None:
    started = replace(gone(CHAIN[0], for_ms=0), deletion_started_at_ms=NOW_MS)
    swept = sweep(seen(a_state(CHAIN[1:], retired=(started,))), Rules())
    assert ids(swept) == ([], [], [A], [])
    assert swept.marked_ids == (A,)
    assert swept.updates(at_ms=NOW_MS, run="r") == ()
    assert swept.needs_claim


@pytest.mark.parametrize("binding", [None, TierBinding.BOUND])
def test_where_a_broker_may_name_it_only_what_we_wrote_goes(binding: TierBinding | None) -> None:
    theirs, ours = gone(CHAIN[0], for_ms=DAY_MS), gone(CHAIN[1], for_ms=DAY_MS, is_ours=True)
    row = a_state((replace(CHAIN[2], max_timestamp_ms=0),), retired=(theirs, ours))
    view = seen(row, [orphan(25, "stray")])
    rules = replace(DELETE, tier_binding=binding)
    assert old_orphans(view, rules, TIMES) == ()
    swept = sweep(view, rules, leftovers=[LEFTOVER])
    assert ids(swept) == ([], [B], [], [])
    assert swept.leftovers == (LEFTOVER,)
    assert swept.log_start_offset == 20
    (note,) = swept.notes
    assert "1 expired segments, 1 retired segments, 1 orphans stay" in note
    assert "tier.binding=detached" in note
    assert ids(sweep(view, DELETE, ends={segment_id("stray"): 26})) == (
        [C],
        [A, B],
        [],
        [segment_id("stray")],
    )


@pytest.mark.parametrize(("age_ms", "is_due"), [(DAY_MS, True), (DAY_MS - 1, False)])
def test_an_orphan_and_a_leftover_stay_while_a_run_may_be_at_them(
    age_ms: int, is_due: bool
) -> None:
    view = seen(a_state(CHAIN), [orphan(10, "stray", age_ms=age_ms)])
    young = replace(LEFTOVER, modified_ms=NOW_MS - age_ms)
    swept = sweep(view, ends={segment_id("stray"): 19}, leftovers=[young])
    assert ids(swept)[3] == ([segment_id("stray")] if is_due else [])
    assert swept.leftovers == ((young,) if is_due else ())
    assert swept.notes == ()


@pytest.mark.parametrize(
    ("end", "word"),
    [(29, ""), (30, "holds offsets up to 30, beyond the live end"), (None, "cannot be read")],
)
def test_an_orphan_that_may_hold_what_nothing_else_holds_stays(
    end: int | None, word: str
) -> None:
    swept = sweep(seen(a_state(CHAIN), [orphan(15, "stray")]), ends={segment_id("stray"): end})
    assert ids(swept)[3] == ([] if word else [segment_id("stray")])
    assert [word in note for note in swept.notes] == ([True] if word else [])


def test_what_a_claim_adopts_covers_an_orphan_too() -> None:
    (new,) = a_chain(10, start_offset=30)
    view = seen(a_state(CHAIN), [orphan(15, "stray")], [new])
    assert ids(sweep(view, ends={segment_id("stray"): 35}))[3] == [segment_id("stray")]


def test_an_incomplete_orphan_goes_unread() -> None:
    view = seen(a_state(CHAIN), [orphan(15, "stray", lacking="leader_epoch_checkpoint")])
    assert ids(sweep(view))[3] == [segment_id("stray")]


def test_an_upload_beyond_the_live_end_is_no_orphan() -> None:
    view = seen(a_state(CHAIN), [orphan(30, "upload", lacking="log"), orphan(99, "later")])
    assert sweep(view).is_nothing


def test_what_no_run_has_adopted_yet_expires_as_well() -> None:
    old = [replace(each, max_timestamp_ms=0) for each in a_chain(10, 10)]
    first = seen(None, new=old)
    swept = sweep(first, DELETE, leftovers=[LEFTOVER])
    assert [each.reason for each in swept.expired] == [ExpiryReason.TIME] * 2
    assert (swept.log_start_offset, swept.leftovers) == (20, ())
    assert sweep(first).is_nothing


def test_it_is_said_where_nothing_will_be_left() -> None:
    old = [replace(each, max_timestamp_ms=0) for each in CHAIN]
    assert sweep(seen(a_state(old)), DELETE).notes == ("all that lives expires",)
    assert sweep(seen(a_state([*old[:2], CHAIN[2]])), DELETE).notes == ()
    assert sweep(seen(a_state(CHAIN)), DELETE).notes == ()


def test_the_log_starts_where_the_first_segment_that_stays_does() -> None:
    row = a_state([replace(CHAIN[0], max_timestamp_ms=0), *CHAIN[1:]])
    swept = sweep(seen(row), DELETE)
    assert swept.updates(at_ms=5, run="r") == (
        RetireSegments(ids=(A,), at_ms=5, run="r"),
        MoveLogStart(offset=10),
    )
    assert unmet(swept.requires, row) == ()
    assert len(unmet(swept.requires, replace(row, segments=CHAIN[1:]))) == 1


def test_a_deletion_is_asked_for_only_while_the_segment_is_whole() -> None:
    row = a_state(CHAIN[1:], retired=(gone(CHAIN[0], for_ms=DAY_MS),))
    swept = sweep(seen(row))
    assert swept.updates(at_ms=5, run="r") == (StartDeletion(ids=(A,), at_ms=5),)
    restored = a_state(CHAIN)
    assert [len(unmet(swept.requires, each)) for each in (row, restored)] == [0, 1]


@pytest.mark.parametrize(
    ("owner", "silent_ms", "expected"),
    [
        ("run", DAY_MS - 1, "run"),
        ("run", DAY_MS, ""),
        ("run", 1 - DAY_MS, "run"),
        ("run", -DAY_MS, ""),  # By a clock that is wrong, or is ahead of ours.
        ("", 0, ""),
    ],
)
def test_a_run_holds_a_partition_until_it_is_silent_for_the_orphan_age(
    owner: str, silent_ms: int, expected: str
) -> None:
    row = a_state(CHAIN, owner_run=owner, committed_at_ms=NOW_MS - silent_ms)
    assert holder(row, TIMES) == expected
    assert holder(None, TIMES) == ""


def test_whoever_lost_the_row_is_told_by_whom() -> None:
    hold = EpochIs(epoch=3, owner_run="we")
    row = a_state(CHAIN, epoch=3, owner_run="we", commit_id="x")
    assert taken_over(row, hold) is None
    newer = replace(row, epoch=4, owner_run="they")
    assert taken_over(newer, hold) == Fenced(epoch=3, by_epoch=4, by_run="they")
    assert taken_over(replace(row, owner_run="they"), hold) == LostRace(found_commit_id="x")


def test_the_row_has_the_last_word_on_what_is_deleted() -> None:
    started = replace(gone(CHAIN[0], for_ms=DAY_MS), deletion_started_at_ms=NOW_MS)
    row = a_state(CHAIN[1:], retired=(started,))
    swept = sweep(seen(row, [orphan(15, "stray")]), ends={segment_id("stray"): 20})
    assert deletion_faults(swept, row) == ()
    stray = a_segment(30, 39, segment_id=segment_id("stray"))
    for changed, word in (
        (a_state(CHAIN), f"segment {A} is live"),
        (a_state(CHAIN[1:], retired=(gone(CHAIN[0], for_ms=DAY_MS),)), f"{A} is not marked"),
        (a_state(CHAIN[1:]), f"{A} is not marked"),
        (replace(row, segments=(*CHAIN[1:], stray)), f"segment {stray.segment_id} is live"),
        (replace(row, retired=(started, gone(stray, for_ms=0))), "is no orphan, but retired"),
    ):
        (fault,) = deletion_faults(swept, changed)
        assert word in fault


@st.composite
def partitions(draw: st.DrawFn) -> tuple[PartitionView, Rules, dict[str, int | None]]:
    """A row in any state of its life, what lies beside it in the tier, and any settings."""
    ages = draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    first_live = draw(st.integers(0, len(ages)))
    chain = [
        replace(each, max_timestamp_ms=NOW_MS - age * DAY_MS)
        for each, age in zip(a_chain(*[10] * len(ages)), ages, strict=True)
    ]
    retired = [
        replace(
            gone(each, for_ms=draw(st.integers(0, 2)) * DAY_MS, is_ours=draw(st.booleans())),
            deletion_started_at_ms=draw(st.none() | st.just(NOW_MS)),
        )
        for each in chain[:first_live]
    ]
    row = a_state(
        chain[first_live:], retired=tuple(retired), log_start_offset=10 * first_live, epoch=1
    )
    strays = [
        orphan(
            draw(st.integers(0, 70)),
            f"stray {i}",
            age_ms=draw(st.integers(0, 2)) * DAY_MS,
            lacking=draw(st.sampled_from(["", *REQUIRED_PARTS])),
        )
        for i in range(draw(st.integers(0, 3)))
    ]
    strays = [each for each in strays if each.start_offset < row.next_offset]
    ends = {each.segment_id: draw(st.none() | st.integers(0, 80)) for each in strays}
    rules = Rules(
        cleanup_policy=frozenset(draw(st.sets(st.sampled_from(["compact", "delete"])))),
        retention_ms=draw(st.sampled_from([-1, 0, DAY_MS])),
        retention_bytes=draw(st.sampled_from([-1, 0, 2000])),
        tier_binding=draw(st.sampled_from([None, *TierBinding])),
    )
    return seen(row, strays), rules, ends


@given(partitions())
def test_nothing_that_a_live_row_names_is_ever_swept(
    found: tuple[PartitionView, Rules, dict[str, int | None]],
) -> None:
    view, rules, ends = found
    swept = sweep(view, rules, ends=ends)
    expired, starting, going, orphans = map(set, ids(swept))
    assert view.state is not None
    live = {each.segment_id for each in view.state.segments}
    assert expired <= live
    assert not (starting | going | orphans) & live
    assert len(expired | starting | going | orphans) == sum(map(len, ids(swept)))
    if not rules.is_detached:
        assert not expired | orphans
    # As the catalog writes it, every law of which holds; then the objects may go.
    row = claimed(state_with_new(view), run="retain", commit_id="1", at_ms=NOW_MS)
    after = row
    for number, updates in enumerate(
        (
            swept.updates(at_ms=NOW_MS, run="retain"),
            (FinishDeletion(ids=swept.marked_ids), ReleaseClaim(run="retain")),
        )
    ):
        proposal = proposed(
            after, *updates, commit_id=f"{number + 2}", at_ms=NOW_MS, requires=swept.requires
        )
        if number == 0:
            assert unmet(proposal.requires, after) == ()
        before, after = after, applied(proposal, after)
        ensure(before, after)
        if number == 0:
            assert deletion_faults(swept, after) == ()
    assert {each.segment_id for each in after.segments} == live - expired
    assert not (starting | going) & {each.segment.segment_id for each in after.retired}
    assert expired <= {each.segment.segment_id for each in after.whole_retired}
