"""Every broken invariant of a partition's state or commit is found and named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.builders import (
    a_chain,
    a_segment,
    a_state,
    cleaned_to,
    epochs,
    retired,
    segment_id,
)
from tierfold.compaction.commits.invariants import (
    CLAIM_INVARIANTS,
    COMMIT_INVARIANTS,
    FORGET_INVARIANTS,
    RESTORE_INVARIANTS,
    STATE_INVARIANTS,
    ensure,
    violations,
)
from tierfold.compaction.commits.row_changes import claimed
from tierfold.compaction.model.errors import InvariantBroken
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import (
    CleanerOffset,
    Hole,
    PartitionState,
    Segment,
    SparedBytes,
)

OLD: Final = a_segment(0, 9, segment_id=segment_id("old"))
GOING: Final = a_segment(0, 9, segment_id=segment_id("going"))
FIRST, SECOND = LIVE = a_chain(10, 10)
BEFORE: Final = a_state(
    LIVE,
    epoch=3,
    owner_run="mine",
    commit_id="claim",
    cleaner_offsets=cleaned_to(10, epoch=2),
    retired=(retired(OLD), retired(GOING, deletion_started_at_ms=9)),
)
MERGED: Final = a_segment(0, 19, segment_id=segment_id("merged"))
AFTER: Final = replace(
    BEFORE,
    owner_run="",
    commit_id="swap",
    cleaner_offsets=(*BEFORE.cleaner_offsets, CleanerOffset(epoch=3, offset=20)),
    segments=(MERGED,),
    retired=(*BEFORE.retired, retired(FIRST), retired(SECOND)),
)


def invariants(before: PartitionState, after: PartitionState) -> set[str]:
    return set(violations(before, after))


def after_with(*segments: Segment, **fields: Any) -> PartitionState:
    return replace(AFTER, segments=segments, **fields) if segments else replace(AFTER, **fields)


def left_in(name: str) -> SparedBytes:
    return SparedBytes(segment_id=segment_id(name), superseded_bytes=1, since_offset=0)


def test_a_valid_commit_violates_nothing() -> None:
    assert not violations(BEFORE, AFTER)


BROKEN: Final[dict[str, tuple[str, PartitionState]]] = {
    "a hole": ("segments_are_contiguous", after_with(replace(FIRST, end_offset=8), SECOND)),
    "an overlap": ("segments_are_contiguous", after_with(replace(FIRST, end_offset=10), SECOND)),
    "a segment that ends before it starts": (
        "segments_are_contiguous",
        after_with(replace(FIRST, end_offset=-1), replace(SECOND, start_offset=0)),
    ),
    "the head missing": ("covered_span_is_kept", after_with(replace(MERGED, start_offset=1))),
    "the tail missing": ("covered_span_is_kept", after_with(replace(MERGED, end_offset=18))),
    "a longer tail": ("covered_span_is_kept", after_with(replace(MERGED, end_offset=20))),
    "nothing left": ("covered_span_is_kept", replace(AFTER, segments=())),
    "a lower epoch": ("epoch_stays", replace(AFTER, epoch=2, cleaner_offsets=cleaned_to(20))),
    "a commit that claims": ("epoch_stays", replace(AFTER, epoch=4)),
    "a cleaner offset that moves back": (
        "cleaner_offset_is_kept",
        replace(AFTER, cleaner_offsets=cleaned_to(9, epoch=3)),
    ),
    "a cleaner offset that is lost": ("cleaner_offset_is_kept", replace(AFTER, cleaner_offsets=())),
    "a cleaner offset beyond the log": (
        "cleaner_offset_is_kept",
        replace(AFTER, cleaner_offsets=cleaned_to(21, epoch=3)),
    ),
    "an earlier epoch that speaks again": (
        "earlier_epochs_are_frozen",
        replace(AFTER, cleaner_offsets=(*cleaned_to(15, epoch=2), *cleaned_to(20, epoch=3))),
    ),
    "an id live and retired": (
        "ids_live_once",
        replace(AFTER, retired=(*AFTER.retired, retired(MERGED))),
    ),
    "an id retired before and live now": (
        "retired_never_return",
        after_with(replace(MERGED, segment_id=OLD.segment_id)),
    ),
    "a segment whose deletion has started and that is live": (
        "what_is_being_deleted_never_returns",
        after_with(replace(MERGED, segment_id=GOING.segment_id)),
    ),
    "a deletion that never started": (
        "what_is_being_deleted_never_returns",
        replace(AFTER, retired=(*AFTER.retired[:-1], retired(GOING))),
    ),
    "a log start that moves back": ("log_start_only_rises", replace(AFTER, log_start_offset=-1)),
    "a log start beyond the end": ("log_start_only_rises", replace(AFTER, log_start_offset=21)),
    "a log start within a segment": ("covered_span_is_kept", replace(AFTER, log_start_offset=5)),
    "a source that no list names": (
        "nothing_is_forgotten",
        replace(AFTER, retired=tuple(e for e in AFTER.retired if e.segment != SECOND)),
    ),
    "a segment of a lost leader": (
        "segments_are_within_the_lineage",
        after_with(replace(MERGED, leader_epochs=epochs((7, 0)))),
    ),
    "consent beside a history": (
        "consent_is_of_a_forgotten_row",
        replace(AFTER, forgotten=(segment_id("apart"),)),
    ),
    "an effective start that moved": (
        "segments_never_change",
        after_with(
            retired=(retired(replace(OLD, skipped_offsets=1, start_offset=1)), *AFTER.retired[1:])
        ),
    ),
    "a segment that starts below offset 0": (
        "segments_are_contiguous",
        after_with(replace(MERGED, skipped_offsets=1)),
    ),
    "a segment that starts beyond its effective start": (
        "segments_are_contiguous",
        after_with(replace(MERGED, skipped_offsets=-1)),
    ),
    "an empty log that tierfold wrote": (
        "sizes_are_real",
        after_with(replace(MERGED, size_bytes=0, origin=Compacted("mine"))),
    ),
    "what was left in a segment that is not live": (
        "spared_are_live",
        after_with(MERGED, spared=(left_in("gone"),)),
    ),
    "a negative index": ("sizes_are_real", after_with(replace(MERGED, time_index_bytes=-1))),
    "more offsets than an index can hold": (
        "new_spans_fit_an_index",
        after_with(replace(MERGED, end_offset=2**31)),
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_each_broken_invariant_is_found(case: str) -> None:
    invariant, after = BROKEN[case]
    assert invariant in invariants(BEFORE, after)


def test_every_invariant_has_a_case_and_a_reason() -> None:
    names = {invariant.__name__ for invariant in COMMIT_INVARIANTS}
    assert names == {invariant for invariant, _ in BROKEN.values()}
    everything = {*COMMIT_INVARIANTS, *CLAIM_INVARIANTS, *RESTORE_INVARIANTS, *FORGET_INVARIANTS}
    assert all("\n\n" in (invariant.__doc__ or "") for invariant in everything)


def test_cleaning_everything_again_may_end_where_the_last_pass_did() -> None:
    before = replace(BEFORE, cleaner_offsets=cleaned_to(20, epoch=2))
    after = replace(AFTER, cleaner_offsets=cleaned_to(20, epoch=3))
    assert not violations(before, after)


def test_the_cleaner_offset_may_fall_where_the_log_was_truncated_below_it() -> None:
    before = replace(BEFORE, cleaner_offsets=cleaned_to(50, epoch=2))
    after = replace(AFTER, cleaner_offsets=cleaned_to(20, epoch=3))
    assert not violations(before, after)


def test_retention_may_remove_the_head_with_the_log_start() -> None:
    expired = replace(BEFORE, segments=(SECOND,), retired=(*BEFORE.retired, retired(FIRST)))
    assert invariants(BEFORE, expired) == {"covered_span_is_kept"}
    assert invariants(BEFORE, replace(expired, log_start_offset=10)) == set()
    both = replace(expired, segments=(), retired=(*expired.retired, retired(SECOND)))
    assert invariants(BEFORE, replace(both, log_start_offset=20)) == set()


def test_a_span_fits_an_index_up_to_its_last_offset_unless_the_row_had_it_before() -> None:
    at_limit, beyond = (a_segment(5, 5 + 2**31 - 1 + more) for more in (0, 1))
    none = a_state(())
    invariant = "new_spans_fit_an_index"
    assert invariant not in invariants(none, a_state((at_limit,)))
    assert invariant in invariants(none, a_state((beyond,)))
    for known in (a_state((beyond,)), a_state((), retired=(retired(beyond),))):
        assert invariant not in invariants(known, a_state((beyond,)))


def test_a_segment_being_deleted_may_leave_the_row() -> None:
    assert (
        invariants(BEFORE, replace(AFTER, retired=AFTER.retired[:1] + AFTER.retired[2:])) == set()
    )


def test_only_a_restore_may_bring_retired_segments_back() -> None:
    back = replace(
        AFTER,
        segments=LIVE,
        retired=(*BEFORE.retired, retired(MERGED)),
        cleaner_offsets=(*BEFORE.cleaner_offsets, CleanerOffset(epoch=3, offset=0)),
    )
    assert invariants(AFTER, back) == {"retired_never_return", "cleaner_offset_is_kept"}
    assert not violations(AFTER, back, RESTORE_INVARIANTS)
    marked = (replace(entry, deletion_started_at_ms=9) for entry in AFTER.retired)
    going = replace(AFTER, retired=tuple(marked))
    found = violations(going, back, RESTORE_INVARIANTS)
    assert set(found) == {"what_is_being_deleted_never_returns"}


def test_a_restore_may_move_the_log_start_back_into_a_segment() -> None:
    now = replace(AFTER, log_start_offset=7)
    for start, is_right in ((0, True), (5, True), (9, True), (10, False), (20, False)):
        back = replace(now, log_start_offset=start, segments=LIVE)
        back = replace(back, retired=(*BEFORE.retired, retired(MERGED)))
        found = violations(now, back, RESTORE_INVARIANTS)
        assert set(found) == (set() if is_right else {"restored_span_is_kept"})


def test_a_restore_adds_nothing_but_copies_of_what_the_row_names() -> None:
    copies = tuple(
        segment.copied(segment_id(f"copy {number}"), "a run")
        for number, segment in enumerate(LIVE)
    )
    back = replace(AFTER, segments=copies, retired=(*AFTER.retired, retired(MERGED)))
    assert not violations(AFTER, back, RESTORE_INVARIANTS)
    first, rest = copies[0], copies[1:]
    known = replace(first, stored_log_bytes=7, stored_indexes_bytes=8)
    assert not violations(AFTER, replace(back, segments=(known, *rest)), RESTORE_INVARIANTS)
    for other in (
        replace(first, max_timestamp_ms=first.max_timestamp_ms + 1),
        replace(first, size_bytes=first.size_bytes + 1),
        replace(first, cleaner_offsets=(CleanerOffset(epoch=1, offset=1),)),
        replace(first, origin=Compacted("a run")),
        replace(first, origin=replace(first.origin, upload="")),
        replace(first, origin=replace(first.origin, copy_of=segment_id("elsewhere"))),
        replace(first, origin=replace(first.origin, copy_of=LIVE[-1].segment_id)),
    ):
        found = violations(AFTER, replace(back, segments=(other, *rest)), RESTORE_INVARIANTS)
        assert found == {"only_copies_are_new": f"no copy: {other.segment_id}"}


FORGOTTEN: Final = replace(BEFORE.emptied([segment_id("apart")]), commit_id="forget", owner_run="")


def test_only_a_forget_may_empty_a_row() -> None:
    assert not violations(BEFORE, FORGOTTEN, FORGET_INVARIANTS)
    assert {"covered_span_is_kept", "nothing_is_forgotten"} < invariants(BEFORE, FORGOTTEN)


@pytest.mark.parametrize(
    ("fields", "invariant"),
    [
        ({"epoch": 4}, "epoch_stays"),
        ({"segments": LIVE[:1]}, "all_is_forgotten"),
        ({"lineage": BEFORE.lineage}, "all_is_forgotten"),
        ({"retired": BEFORE.retired}, "all_is_forgotten"),
        ({"cleaner_offsets": cleaned_to(10)}, "all_is_forgotten"),
        ({"strategies": ("timestamp",)}, "all_is_forgotten"),
        ({"log_start_offset": 1}, "all_is_forgotten"),
    ],
)
def test_a_forget_leaves_only_the_fence(fields: dict[str, Any], invariant: str) -> None:
    found = violations(BEFORE, replace(FORGOTTEN, **fields), FORGET_INVARIANTS)
    assert list(found) == [invariant]


def test_a_claim_that_adopts_a_history_clears_the_consent() -> None:
    adopted = replace(FORGOTTEN, segments=LIVE, lineage=BEFORE.lineage)
    found = violations(
        FORGOTTEN, claimed(adopted, run="next", commit_id="c", at_ms=1), CLAIM_INVARIANTS
    )
    assert list(found) == ["consent_is_of_a_forgotten_row"]
    adopted = replace(adopted, forgotten=())
    after = claimed(adopted, run="next", commit_id="c", at_ms=1)
    assert not violations(FORGOTTEN, after, CLAIM_INVARIANTS)


def test_the_oldest_entries_of_the_vector_may_go() -> None:
    assert not violations(BEFORE, replace(AFTER, cleaner_offsets=AFTER.cleaner_offsets[1:]))


def test_a_claim_may_adopt_and_drop_segments_and_opens_the_next_epoch() -> None:
    grown = replace(BEFORE, segments=a_chain(10, 10, 10))
    claim = claimed(grown, run="mine", commit_id="c", at_ms=1)
    assert not violations(BEFORE, claim, CLAIM_INVARIANTS)
    for wrong in (replace(claim, epoch=3), replace(claim, epoch=5), replace(claim, owner_run="")):
        assert list(violations(BEFORE, wrong, CLAIM_INVARIANTS)) == ["epoch_rises_by_one"]
    assert set(STATE_INVARIANTS) <= set(CLAIM_INVARIANTS)


CUT: Final = a_segment(20, 25, segment_id=segment_id("cut"), skipped_offsets=8)


@pytest.mark.parametrize(
    ("live", "agrees_with", "unproven"),
    [
        # It starts at 12, inside the second: it shares offsets only with that one.
        (LIVE, (SECOND.segment_id,), ""),
        (LIVE, (), SECOND.segment_id),
        (LIVE, (FIRST.segment_id,), SECOND.segment_id),
        # A segment that tierfold wrote has fewer records by design.
        ((FIRST, replace(SECOND, origin=Compacted("earlier"))), (), ""),
        ((replace(FIRST, end_offset=13), a_segment(14, 19)), (segment_id(14),), segment_id(0)),
    ],
)
def test_a_claim_adopts_no_overlap_that_was_not_compared(
    live: tuple[Segment, ...], agrees_with: tuple[str, ...], unproven: str
) -> None:
    before = replace(BEFORE, segments=live)
    grown = replace(before, segments=(*live, replace(CUT, agrees_with=agrees_with)))
    claim = claimed(grown, run="mine", commit_id="c", at_ms=1)
    found = violations(before, claim, CLAIM_INVARIANTS)
    assert list(found) == ["overlaps_are_proven"] * bool(unproven)
    assert unproven in found.get("overlaps_are_proven", "")


def test_live_segments_are_not_compared_again() -> None:
    before = replace(BEFORE, segments=(*LIVE, CUT))
    claim = claimed(before, run="mine", commit_id="c", at_ms=1)
    assert not violations(before, claim, CLAIM_INVARIANTS)


@pytest.mark.parametrize(
    "change",
    [
        {"start_offset": 11, "skipped_offsets": 1},
        {"end_offset": 21},
        {"agrees_with": ("x",)},
        {"size_bytes": 1},
    ],
)
def test_a_segments_metadata_never_changes_live_or_retired(
    change: dict[str, Any],
) -> None:
    changed = replace(SECOND, **change)
    live = replace(BEFORE, segments=(FIRST, changed))
    assert "segments_never_change" in invariants(BEFORE, live)
    as_retired = replace(AFTER, retired=(*AFTER.retired[:-1], retired(changed)))
    assert invariants(BEFORE, as_retired) == {"segments_never_change"}


def test_a_broker_may_have_uploaded_an_empty_log() -> None:
    emptied = replace(SECOND, size_bytes=0)
    before = replace(BEFORE, segments=(FIRST, emptied))
    assert not violations(before, before, STATE_INVARIANTS)


@pytest.mark.parametrize(
    ("raised", "hole", "violated"),
    [
        ({"end_offset": 24}, Hole(start_offset=20, end_offset=24), ""),
        ({"end_offset": 24}, Hole(start_offset=20, end_offset=23), "which is no hole"),
        ({"end_offset": 24, "size_bytes": 1}, Hole(start_offset=20, end_offset=24), "changed"),
        ({"end_offset": 18}, Hole(start_offset=18, end_offset=18), "changed"),
    ],
)
def test_a_claim_may_raise_the_live_end_only_over_a_hole(
    raised: dict[str, Any], hole: Hole, violated: str
) -> None:
    grown = replace(BEFORE, segments=(FIRST, replace(SECOND, **raised)), holes=(hole,))
    claim = claimed(grown, run="mine", commit_id="c", at_ms=1)
    found = violations(BEFORE, claim, CLAIM_INVARIANTS)
    assert list(found) == ["claims_change_only_a_hole"] * bool(violated)
    assert violated in found.get("claims_change_only_a_hole", "")
    # No other change of the row may.
    assert "segments_never_change" in violations(BEFORE, grown, COMMIT_INVARIANTS)


def test_a_claim_may_raise_no_other_end() -> None:
    raised = (replace(FIRST, end_offset=12), replace(SECOND, start_offset=13, skipped_offsets=3))
    holes = (Hole(start_offset=10, end_offset=12),)
    claim = claimed(replace(BEFORE, segments=raised, holes=holes), run="r", commit_id="c", at_ms=1)
    assert "claims_change_only_a_hole" in violations(BEFORE, claim, CLAIM_INVARIANTS)


def test_a_broken_row_is_refused_with_every_invariant_it_breaks() -> None:
    wrong = after_with(replace(MERGED, size_bytes=0, end_offset=18, origin=Compacted("mine")))
    with pytest.raises(InvariantBroken, match="orders-3, epoch 3, commit swap") as refused:
        ensure(BEFORE, wrong)
    assert "covered_span_is_kept" in refused.value.what
    assert "sizes_are_real" in refused.value.what
