"""What is lost with the row of a log that was cut off, what is in the way, what stays till then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
from builders import (
    KEY,
    a_chain,
    a_segment,
    a_state,
    agreeing,
    cleaned_to,
    facts,
    looked_at,
    retired,
    segment_id,
    unknown,
)

from compaction.commit import ForgetPartition, ReleaseClaim, applied, claimed, proposed, verdict
from compaction.discovery import divergence, drafted, row_view, view_of
from compaction.forgetting import (
    NAMED,
    Forgetting,
    comparisons_with_live,
    forgetting,
    in_the_way,
    row_without,
)
from compaction.histories import InspectedSegment
from compaction.history import Event, entries
from compaction.outcomes import Committed, Fenced
from compaction.rules import DAY_MS, Rules, TierBinding
from compaction.segments import LeaderEpoch, PartitionState, RetiredSegment, Segment
from compaction.sweep import SweepOrder, sweep_of
from compaction.undo import restoration
from compaction.view import PartitionView, Refusal, RefusalReason, state_with_new

OLD: Final = (LeaderEpoch(epoch=3, start_offset=0),)
NEW: Final = (*OLD, LeaderEpoch(epoch=4, start_offset=60))
NOW_MS: Final = 100 * DAY_MS


def old(start: int, end: int, **fields: object) -> Segment:
    """Of the old leader."""
    epochs = (LeaderEpoch(epoch=3, start_offset=start),)
    return a_segment(start, end, leader_epochs=epochs, **fields)


def new(start: int, end: int) -> InspectedSegment:
    """Uploaded by the new leader, whose log has offset 60 of its own."""
    epochs = tuple(
        LeaderEpoch(epoch=each.epoch, start_offset=max(start, each.start_offset))
        for each in NEW
        if each.start_offset <= end and (each.epoch == 4 or start < 60)
    )
    segment = a_segment(start, end, segment_id=segment_id(f"new{start}"), leader_epochs=epochs)
    return unknown(segment, checkpoint=NEW)


def row(*segments: Segment, **fields: object) -> PartitionState:
    return a_state(segments, epoch=2, lineage=OLD, commit_id="last", **fields)


def forgotten(
    state: PartitionState | None, uploads: Sequence[InspectedSegment]
) -> Forgetting | Refusal:
    """What forgetting the row would come to, its live segments still in the tier."""
    live = () if state is None else state.segments
    everything = [*(unknown(each) for each in live), *uploads]
    without = row_without(KEY, state, [each.listed.segment_id for each in everything])
    bare = facts(without, everything)
    draft = drafted(bare)
    view = draft if isinstance(draft, Refusal) else view_of(draft, agreeing(draft))
    return view if isinstance(view, Refusal) else forgetting(facts(state, uploads), bare, view)


def told(found: Forgetting | Refusal) -> tuple[list[int], list[int], list[str]]:
    """Starts of what is taken and of what is set apart, and what vanishes."""
    assert isinstance(found, Forgetting), found
    return (
        [each.start_offset for each in found.taken],
        [each.listed.start_offset for each in found.set_apart],
        [str(each) for each in found.vanishing],
    )


@pytest.mark.parametrize(
    ("live", "uploads", "expected"),
    [
        # The tail is gone; 60 to 79 are other records.
        ((old(0, 49), old(50, 99)), (new(50, 79),), ([0, 50], [50], ["80–99"])),
        # The old leader uploaded in one piece what the new one shares with it in part.
        ((old(0, 99),), (new(60, 79),), ([60], [0], ["0–59", "80–99"])),
        # The new one has all offsets, and more.
        ((old(0, 49), old(50, 99)), (new(50, 149),), ([0, 50], [50], [])),
        ((old(0, 49), old(50, 99)), (new(50, 99),), ([0, 50], [50], [])),
        # Two that are set apart and overlap are counted once.
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
        # Set apart far beyond: two ranges, for nobody gave what is in between.
        (
            (old(0, 49), old(50, 99)),
            (new(50, 79), unknown(replace(old(110, 120), segment_id=segment_id("late")))),
            ([0, 50], [50, 110], ["80–99", "110–120"]),
        ),
    ],
)
def test_every_offset_that_no_taken_segment_gives_vanishes(
    live: tuple[Segment, ...],
    uploads: tuple[InspectedSegment, ...],
    expected: tuple[list[int], list[int], list[str]],
) -> None:
    state = row(*live)
    assert divergence(facts(state, uploads)) is not None
    found = forgotten(state, uploads)
    assert told(found) == expected
    assert isinstance(found, Forgetting)
    assert found.forgotten == live
    assert len(found.consent) == len(found.set_apart)


def test_without_a_row_it_is_the_consent_alone() -> None:
    tier = (unknown(old(0, 59)), unknown(old(60, 99)), new(60, 79))
    cause = divergence(facts(None, tier))
    assert cause is not None
    assert cause.reason is RefusalReason.LINEAGE_DIVERGED
    assert told(forgotten(None, tier)) == ([0, 60], [60], ["80–99"])
    consented = row_without(KEY, None, [segment_id(60)])
    assert divergence(facts(consented, tier)) is None
    assert isinstance(looked_at(consented, tier), PartitionView)


def test_what_moved_out_of_the_tier_vanishes_too() -> None:
    state, uploads = row(old(0, 49, written_by_run="a run"), old(50, 99)), (new(50, 79),)
    there = [unknown(state.segments[1]), *uploads]
    bare = facts(row_without(KEY, state, [segment_id(50)]), there)
    draft = drafted(bare)
    assert not isinstance(draft, Refusal)
    view = view_of(draft, agreeing(draft))
    assert isinstance(view, PartitionView)
    assert told(forgetting(facts(state, uploads), bare, view))[2] == ["0–49", "80–99"]


def test_no_other_trouble_is_a_truncation() -> None:
    chain = (old(0, 49), old(50, 99))
    assert divergence(facts(row(*chain))) is None
    lineage = row(*chain).lineage
    beyond = unknown(old(120, 150), checkpoint=lineage)
    assert divergence(facts(row(*chain), [beyond])) is None
    gap = [unknown(each, checkpoint=lineage) for each in (old(0, 49), old(60, 99))]
    assert divergence(facts(None, gap)) is None
    assert isinstance(drafted(facts(None, gap)), Refusal)


def test_a_truncation_shows_though_objects_are_gone() -> None:
    state = row(old(0, 49), old(50, 99))
    found = facts(state, [new(50, 79)])
    found = replace(found, classified=replace(found.classified, problems=("0 is gone",)))
    draft = drafted(found)
    assert isinstance(draft, Refusal)
    assert draft.reason is RefusalReason.DATA_GONE
    assert divergence(found) is not None


# What is in the way.


def test_uploads_alone_are_in_nobodys_way() -> None:
    assert in_the_way(facts(row(old(0, 99)), [new(60, 79)])) is None
    assert in_the_way(facts(None, [new(60, 79)])) is None


def test_what_we_wrote_is_retired_or_orphaned_is_in_the_way_while_it_is_listed() -> None:
    ours = old(0, 49, segment_id=segment_id("ours"), written_by_run="a run")
    before = old(0, 49, segment_id=segment_id("before"), written_by_run="a run")
    state = row(ours, old(50, 99), retired=(retired(old(0, 49)), retired(before)))
    dead = unknown(replace(old(50, 99), segment_id=segment_id("dead")))
    half = unknown(a_segment(0, 9, segment_id=segment_id("half")), lacking=["log"])
    found = in_the_way(facts(state, [dead, half, new(60, 79)]))
    assert found is not None
    assert found.written == (ours.segment_id,)
    assert found.retired == (before.segment_id,)
    assert set(found.orphans) == {segment_id("dead"), segment_id("half")}
    moved = facts(state, [new(60, 79)])
    moved = replace(moved, classified=replace(moved.classified, known=(), retired=()))
    assert in_the_way(moved) is None


def test_what_we_wrote_and_retired_is_in_the_way_though_the_live_ones_are_moved_away() -> None:
    ours = old(0, 99, segment_id=segment_id("ours"), written_by_run="a run")
    before = old(0, 99, segment_id=segment_id("before"), written_by_run="a run")
    state = row(ours, retired=(retired(old(0, 99)), retired(before)))
    there = facts(state, [new(60, 79)])
    found = in_the_way(replace(there, classified=replace(there.classified, known=())))
    assert found is not None
    assert found.retired == (before.segment_id,)


def test_what_the_new_leader_uploaded_anew_is_in_nobodys_way() -> None:
    again = old(40, 59, segment_id=segment_id("again"))
    strays = [unknown(again), new(60, 79)]
    assert in_the_way(facts(row(old(0, 39), old(40, 99)), strays)) is None
    # A run of ours may have cut its groups there: told only once the originals are back.
    ours = old(40, 99, segment_id=segment_id("ours"), written_by_run="a run")
    found = in_the_way(facts(row(old(0, 39), ours), strays))
    assert found is not None
    assert found.doubtful == (again.segment_id,)
    # `retain` deletes orphans, but none that may alone give the new log its offsets.
    assert found.orphans == ()
    moved = facts(row(old(0, 39), ours), strays)
    found = in_the_way(replace(moved, classified=replace(moved.classified, known=())))
    assert found is not None
    assert found.written == ()


def test_what_begins_amid_a_live_upload_no_run_of_ours_has_written() -> None:
    ours = old(0, 39, segment_id=segment_id("ours"), written_by_run="a run")

    def doubtful(state: PartitionState, start: int, end: int) -> bool:
        again = old(start, end, segment_id=segment_id("again"))
        found = in_the_way(facts(state, [unknown(again), new(60, 79)]))
        assert found is not None
        assert found.orphans == ()
        return found.doubtful == (again.segment_id,)

    beside_upload = row(ours, old(40, 69), old(70, 99))
    assert not doubtful(beside_upload, 41, 59)
    # A run's segment may begin there, and end below its last batches, which it removed.
    assert doubtful(beside_upload, 40, 50)
    assert doubtful(row(old(0, 39), replace(ours, start_offset=40, end_offset=99)), 41, 59)


def test_what_a_dead_run_may_have_written_is_compared_with_the_uploads_that_live_there() -> None:
    ours = old(0, 29, segment_id=segment_id("ours"), written_by_run="a run")
    uploads = (old(30, 39), old(40, 49), old(50, 99))
    again = unknown(old(0, 55, segment_id=segment_id("again")))
    half = unknown(old(40, 55, segment_id=segment_id("half")), lacking=["snapshot"])
    found = facts(row(ours, *uploads), [again, half, new(60, 79)])

    def compared() -> list[tuple[Segment, str, int, int]]:
        return [
            (each.first, each.second.segment_id, each.start_offset, each.end_offset)
            for each in comparisons_with_live(found)
        ]

    name = again.listed.segment_id
    pairs = [(uploads[0], name, 30, 39), (uploads[1], name, 40, 49), (uploads[2], name, 50, 55)]
    assert compared() == pairs
    known = [each for each in found.classified.known if each.segment_id != segment_id(40)]
    found = replace(found, classified=replace(found.classified, known=tuple(known)))
    assert compared() == [pairs[0], pairs[2]]
    found = facts(row(*uploads), [unknown(old(50, 55, segment_id=name)), new(60, 79)])
    assert compared() == [pairs[2]]
    assert list(comparisons_with_live(facts(None, [again]))) == []
    assert in_the_way(found) is None
    obstacles = in_the_way(found, [name])
    assert obstacles is not None
    assert obstacles.doubtful == (name,)


def sentence(state: PartitionState, *strays: InspectedSegment, uploads_at: str = "") -> str:
    found = in_the_way(facts(state, strays))
    assert found is not None
    return found.refusal(uploads_at).sentence


def test_each_kind_has_its_way_out() -> None:
    ours = old(0, 99, segment_id=segment_id("ours"), written_by_run="a run")
    dead = unknown(replace(old(0, 69), segment_id=segment_id("dead")))
    said = sentence(row(ours), uploads_at="2026-11-21")
    assert "`tierfold restore TIER PARTITION --to 2026-11-21`" in said
    # What the restore retires has to go as well.
    assert said.index("restore") < said.index("tierfold retain") < said.index("Then forget.")
    assert "orphans" not in said
    said = sentence(row(ours))
    assert "tierfold restore" not in said
    assert "out of the tier" in said
    assert "retain" not in said
    said = sentence(row(ours, retired=(retired(replace(ours, segment_id=segment_id("before"))),)))
    # Moved away earlier, the partition is refused for what is gone, and `retain` does nothing.
    assert said.index("First `tierfold retain`") < said.index("out of the tier")
    said = sentence(row(old(0, 99), retired=(retired(ours),)))
    assert "grace period" in said
    assert "restore" not in said
    said = sentence(row(old(0, 99)), dead, new(60, 79))
    assert "deletes orphans" in said
    assert "grace period" not in said
    # No state can be restored, and `retain` spares what the new log may need.
    again = unknown(old(40, 59, segment_id=segment_id("again")))
    said = sentence(row(ours), again, new(60, 79))
    assert "deletes orphans" not in said
    assert f"the new log may need them: {again.listed.segment_id}" in said
    assert said.index("live segments out of the tier") < said.index("bring back those")
    assert "bring back" not in sentence(row(ours), again, new(60, 79), uploads_at="2026-11-21")


def test_of_many_some_are_named() -> None:
    chain = [
        replace(each, leader_epochs=(LeaderEpoch(epoch=3, start_offset=each.start_offset),))
        for each in a_chain(*[10] * (NAMED + 2), written_by_run="a run")
    ]
    said = sentence(row(*chain))
    assert chain[NAMED - 1].segment_id in said
    assert chain[NAMED].segment_id not in said
    assert "and 2 more" in said


# The commit.


def test_the_commit_empties_the_row_and_is_known_again() -> None:
    ours = replace(old(0, 99), written_by_run="a run")
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
    assert verdict(forget, before) is None
    after = applied(forget, before)
    assert after == replace(
        row_without(KEY, None, ("a", "b")), epoch=3, commit_id="forget", committed_at_ms=7
    )
    assert after.is_forgotten
    assert verdict(forget, after) == Committed(epoch=3, commit_id="forget")
    late = proposed(before, ReleaseClaim(run="me"), commit_id="late", at_ms=8)
    newer = claimed(after, run="next", commit_id="newer", at_ms=9)
    assert verdict(late, newer) == Fenced(epoch=3, by_epoch=4, by_run="next")


def test_the_next_claim_takes_the_new_history_and_the_consent_is_used_up() -> None:
    state = row_without(KEY, row(old(0, 49), old(50, 99)), [segment_id(50)])
    view = looked_at(state, [unknown(old(0, 49)), unknown(old(50, 99)), new(50, 79)])
    assert isinstance(view, PartitionView)
    adopted = state_with_new(view)
    assert [each.start_offset for each in adopted.segments] == [0, 50]
    assert (adopted.forgotten, adopted.lineage, adopted.epoch) == ((), NEW, 2)
    # The same truncation is no news to the row that has it.
    assert isinstance(looked_at(adopted, [unknown(old(50, 99))]), PartitionView)


def test_a_partition_of_which_all_has_expired_is_not_forgotten() -> None:
    emptied = a_state((), log_start_offset=10, retired=(retired(a_segment(0, 9)),))
    view = looked_at(emptied)
    assert isinstance(view, PartitionView)
    swept = replace(state_with_new(view), retired=())
    assert swept.lineage == emptied.lineage
    assert not swept.is_forgotten
    assert not replace(swept, lineage=()).is_forgotten
    # What expired does not come back with a late upload, and the log start stays.
    again = looked_at(swept, [unknown(a_segment(0, 9))])
    assert isinstance(again, PartitionView)
    assert (again.segments, again.log_start_offset) == ((), 10)


# Told, and undone no more.


def test_a_forgotten_row_has_its_place_in_the_story_and_ends_what_can_be_restored() -> None:
    found = replace(row(old(0, 49), old(50, 99)), epoch=1, owner_run="first")
    held = claimed(found, run="me", commit_id="claim", at_ms=1)
    gone = replace(held.emptied(["apart"]), owner_run="")
    again = claimed(
        replace(found, epoch=gone.epoch, segments=found.segments[:1]),
        run="next",
        commit_id="again",
        at_ms=2,
    )
    story = [each.event for each in entries([again, gone, held, found])]
    assert story == [Event.FOUND, Event.FORGOTTEN, Event.CLAIMED, Event.FOUND]
    for earlier, now in ((found, gone), (gone, again), (gone, gone)):
        refusal = restoration(earlier, now)
        assert isinstance(refusal, Refusal)
        assert "tierfold forget" in refusal.detail
    refusal = restoration(found, again)
    assert isinstance(refusal, Refusal)
    assert segment_id(50) in refusal.detail


def test_where_there_was_no_row_the_claim_before_found_nothing() -> None:
    held = claimed(row_without(KEY, None, ()), run="me", commit_id="claim", at_ms=1)
    gone = replace(held.emptied(["apart"]), owner_run="")
    assert [each.event for each in entries([gone, held])] == [Event.FORGOTTEN, Event.CLAIMED]
    back = replace(held, owner_run="", commit_id="released")
    assert [each.event for each in entries([back, held])] == [Event.RELEASED, Event.CLAIMED]


# What `retain` leaves until then.


def past_grace(segment: Segment) -> RetiredSegment:
    return replace(retired(segment), retired_at_ms=NOW_MS - 2 * DAY_MS)


@pytest.mark.parametrize("is_cut_off", [False, True])
@pytest.mark.parametrize("is_ours_live", [False, True])
def test_the_originals_stay_while_the_way_out_leads_through_them(
    is_cut_off: bool, is_ours_live: bool
) -> None:
    ours = old(0, 99, segment_id=segment_id("ours"), written_by_run="a run")
    original, earlier = old(0, 99), replace(ours, segment_id=segment_id("earlier"))
    live, other = (ours, original) if is_ours_live else (original, ours)
    state = row(live, retired=(past_grace(other), past_grace(earlier)))
    found = facts(state, [new(60, 79)] if is_cut_off else [])
    refusal = divergence(found)
    view = looked_at(state) if refusal is None else row_view(found, refusal)
    assert isinstance(view, PartitionView)
    rules = Rules(tier_binding=TierBinding.DETACHED, retention_ms=-1)
    times = SweepOrder(now_ms=NOW_MS)
    swept = sweep_of(view, rules, times, is_refused=refusal is not None)
    stays = is_cut_off and is_ours_live
    going = [each.segment.segment_id for each in swept.starting]
    assert going == [*([] if stays else [other.segment_id]), earlier.segment_id]
    assert ("1 retired originals stay" in "; ".join(swept.notes)) == stays
