"""What a forget loses of a log that was truncated, and what stays until then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import (
    KEY,
    a_segment,
    a_state,
    cleaned_to,
    discovered,
    facts,
    retired,
    seen,
    segment_id,
    unknown,
)
from tests.compaction.elected import NEW, new, old, row
from tierfold.compaction.commits.commit import (
    ForgetPartition,
    ReleaseClaim,
    applied,
    claimed,
    outcome_of,
    proposed,
)
from tierfold.compaction.commits.forget import Forgetting, forgetting, row_without
from tierfold.compaction.commits.history import Event, entries
from tierfold.compaction.commits.restore import restore_plan_of
from tierfold.compaction.deletion.deletion_plan import VacuumLimits, deletion_plan_of
from tierfold.compaction.discovery.histories import InspectedSegment
from tierfold.compaction.discovery.unknown_segments import divergence, drafted, row_view
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason, state_with_new
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.outcomes import Committed, Fenced
from tierfold.compaction.model.rules import DAY_MS, Rules, TierBinding
from tierfold.compaction.model.segments import PartitionState, Segment

NOW_MS: Final = 100 * DAY_MS


def forgotten(
    state: PartitionState | None, uploads: Sequence[InspectedSegment]
) -> Forgetting | Refusal:
    """The result of forgetting the row, its live segments still in the tier."""
    live = () if state is None else state.segments
    everything = [*(unknown(segment) for segment in live), *uploads]
    without = row_without(KEY, state, [segment.listed.segment_id for segment in everything])
    view, bare = discovered(without, everything), facts(without, everything)
    return view if isinstance(view, Refusal) else forgetting(facts(state, uploads), bare, view)


def outcome(found: Forgetting | Refusal) -> tuple[list[int], list[int], list[str]]:
    """The starts of taken segments and of those set apart, and the vanishing offsets."""
    assert isinstance(found, Forgetting), found
    return (
        [segment.start_offset for segment in found.taken],
        [segment.listed.start_offset for segment in found.set_apart],
        [str(offsets) for offsets in found.vanishing],
    )


@pytest.mark.parametrize(
    ("live", "uploads", "expected"),
    [
        # The tail vanishes; 60 to 79 are other records.
        ((old(0, 49), old(50, 99)), (new(50, 79),), ([0, 50], [50], ["80–99"])),
        # The old leader uploaded one segment, and the new one shares only a part of it.
        ((old(0, 99),), (new(60, 79),), ([60], [0], ["0–59", "80–99"])),
        # The new leader has all offsets, and more.
        ((old(0, 49), old(50, 99)), (new(50, 149),), ([0, 50], [50], [])),
        ((old(0, 49), old(50, 99)), (new(50, 99),), ([0, 50], [50], [])),
        # Two segments set apart that overlap count once.
        (
            (old(0, 49), old(50, 99)),
            (new(50, 79), unknown(replace(old(70, 120), segment_id=segment_id("late")))),
            ([0, 50], [50, 70], ["80–120"]),
        ),
        # Two that touch are one range.
        (
            (old(0, 49), old(50, 99)),
            (new(50, 79), unknown(replace(old(100, 120), segment_id=segment_id("late")))),
            ([0, 50], [50, 100], ["80–120"]),
        ),
        # One set apart far beyond: two ranges, because no segment had the offsets in between.
        (
            (old(0, 49), old(50, 99)),
            (new(50, 79), unknown(replace(old(110, 120), segment_id=segment_id("late")))),
            ([0, 50], [50, 110], ["80–99", "110–120"]),
        ),
    ],
)
def test_every_offset_without_a_taken_segment_is_reported_as_vanishing(
    live: tuple[Segment, ...],
    uploads: tuple[InspectedSegment, ...],
    expected: tuple[list[int], list[int], list[str]],
) -> None:
    state = row(*live)
    assert divergence(facts(state, uploads)) is not None
    found = forgotten(state, uploads)
    assert outcome(found) == expected
    assert isinstance(found, Forgetting)
    assert found.forgotten == live
    assert len(found.consent) == len(found.set_apart)


def test_without_a_row_only_the_consent_counts() -> None:
    tier = (unknown(old(0, 59)), unknown(old(60, 99)), new(60, 79))
    cause = divergence(facts(None, tier))
    assert cause is not None
    assert cause.reason is RefusalReason.LINEAGE_DIVERGED
    assert outcome(forgotten(None, tier)) == ([0, 60], [60], ["80–99"])
    consented = row_without(KEY, None, [segment_id(60)])
    assert divergence(facts(consented, tier)) is None
    assert isinstance(discovered(consented, tier), PartitionView)


def test_offsets_of_segments_moved_out_of_the_tier_vanish_too() -> None:
    state, uploads = row(old(0, 49, origin=Compacted("a run")), old(50, 99)), (new(50, 79),)
    there = [unknown(state.segments[1]), *uploads]
    without = row_without(KEY, state, [segment_id(50)])
    found = forgetting(facts(state, uploads), facts(without, there), seen(without, there))
    assert outcome(found)[2] == ["0–49", "80–99"]


def test_only_a_truncation_is_reported_as_one() -> None:
    chain = (old(0, 49), old(50, 99))
    assert divergence(facts(row(*chain))) is None
    lineage = row(*chain).lineage
    beyond = unknown(old(120, 150), checkpoint=lineage)
    assert divergence(facts(row(*chain), [beyond])) is None
    gap = [unknown(segment, checkpoint=lineage) for segment in (old(0, 49), old(60, 99))]
    assert divergence(facts(None, gap)) is None
    assert isinstance(drafted(facts(None, gap)), Refusal)


def test_a_truncation_shows_even_if_objects_are_gone() -> None:
    state = row(old(0, 49), old(50, 99))
    found = facts(state, [new(50, 79)])
    found = replace(found, classified=replace(found.classified, corruptions=("0 is gone",)))
    draft = drafted(found)
    assert isinstance(draft, Refusal)
    assert draft.reason is RefusalReason.DATA_GONE
    assert divergence(found) is not None


# The commit.


def test_the_commit_empties_the_row_and_is_recognised_later() -> None:
    ours = replace(old(0, 99), origin=Compacted("a run"))
    before = claimed(
        row(ours, cleaner_offsets=cleaned_to(100), strategies=("timestamp",), log_start_offset=0),
        run="me",
        commit_id="claim",
        at_ms=1,
    )
    forget = proposed(
        before,
        ForgetPartition(consent=("b", "a")),
        ReleaseClaim(run="me"),
        commit_id="forget",
        at_ms=7,
    )
    assert outcome_of(forget, before) is None
    after = applied(forget, before)
    assert after == replace(
        row_without(KEY, None, ("a", "b")), epoch=3, commit_id="forget", committed_at_ms=7
    )
    assert after.is_forgotten
    assert outcome_of(forget, after) == Committed(epoch=3, commit_id="forget")
    late = proposed(before, ReleaseClaim(run="me"), commit_id="late", at_ms=8)
    newer = claimed(after, run="next", commit_id="newer", at_ms=9)
    assert outcome_of(late, newer) == Fenced(epoch=3, by_epoch=4, by_run="next")


def test_the_next_claim_adopts_the_new_history_and_clears_the_consent() -> None:
    state = row_without(KEY, row(old(0, 49), old(50, 99)), [segment_id(50)])
    view = seen(state, [unknown(old(0, 49)), unknown(old(50, 99)), new(50, 79)])
    adopted = state_with_new(view)
    assert [segment.start_offset for segment in adopted.segments] == [0, 50]
    assert (adopted.forgotten, adopted.lineage, adopted.epoch) == ((), NEW, 2)
    # A row that knows the truncation does not refuse it again.
    assert isinstance(discovered(adopted, [unknown(old(50, 99))]), PartitionView)


def test_a_partition_whose_segments_all_expired_is_not_forgotten() -> None:
    emptied = a_state((), log_start_offset=10, retired=(retired(a_segment(0, 9)),))
    view = seen(emptied)
    vacuumed = replace(state_with_new(view), retired=())
    assert vacuumed.lineage == emptied.lineage
    assert not vacuumed.is_forgotten
    assert not replace(vacuumed, lineage=()).is_forgotten
    # An expired segment does not come back with a late upload, and the log start stays.
    again = seen(vacuumed, [unknown(a_segment(0, 9))])
    assert (again.segments, again.log_start_offset) == ((), 10)


# In the history, and not restorable.


def test_a_forgotten_row_is_in_the_history_and_no_restore_crosses_it() -> None:
    found = replace(row(old(0, 49), old(50, 99)), epoch=1, owner_run="first")
    held = claimed(found, run="me", commit_id="claim", at_ms=1)
    gone = replace(held.emptied(["apart"]), owner_run="")
    again = claimed(
        replace(found, epoch=gone.epoch, segments=found.segments[:1]),
        run="next",
        commit_id="again",
        at_ms=2,
    )
    events = [entry.event for entry in entries([again, gone, held, found])]
    assert events == [Event.FOUND, Event.FORGOTTEN, Event.CLAIMED, Event.FOUND]
    for earlier, now in ((found, gone), (gone, again), (gone, gone)):
        refusal = restore_plan_of(earlier, now)
        assert isinstance(refusal, Refusal)
        assert "tierfold forget" in refusal.detail
    refusal = restore_plan_of(found, again)
    assert isinstance(refusal, Refusal)
    assert segment_id(50) in refusal.detail


def test_without_a_row_the_claim_before_a_forget_found_nothing() -> None:
    held = claimed(row_without(KEY, None, ()), run="me", commit_id="claim", at_ms=1)
    gone = replace(held.emptied(["apart"]), owner_run="")
    assert [entry.event for entry in entries([gone, held])] == [Event.FORGOTTEN, Event.CLAIMED]
    back = replace(held, owner_run="", commit_id="released")
    assert [entry.event for entry in entries([back, held])] == [Event.RELEASED, Event.CLAIMED]


# What `vacuum` keeps until then.


@pytest.mark.parametrize("is_cut_off", [False, True])
@pytest.mark.parametrize("is_ours_live", [False, True])
def test_the_originals_stay_while_the_remedy_needs_them(
    is_cut_off: bool, is_ours_live: bool
) -> None:
    ours = old(0, 99, segment_id=segment_id("ours"), origin=Compacted("a run"))
    original, earlier = old(0, 99), replace(ours, segment_id=segment_id("earlier"))
    live, other = (ours, original) if is_ours_live else (original, ours)
    retired_ms = NOW_MS - 2 * DAY_MS
    past_grace = (retired(segment, retired_at_ms=retired_ms) for segment in (other, earlier))
    state = row(live, retired=tuple(past_grace))
    found = facts(state, [new(60, 79)] if is_cut_off else [])
    refusal = divergence(found)
    view = seen(state) if refusal is None else row_view(found, refusal)
    rules = Rules(tier_binding=TierBinding.DETACHED, retention_ms=-1)
    times = VacuumLimits(now_ms=NOW_MS)
    vacuumed = deletion_plan_of(view, rules, times, is_refused=refusal is not None)
    stays = is_cut_off and is_ours_live
    going = [retired_segment.segment.segment_id for retired_segment in vacuumed.starting]
    assert going == [*([] if stays else [other.segment_id]), earlier.segment_id]
    assert ("1 retired original kept" in "; ".join(vacuumed.notes)) == stays
