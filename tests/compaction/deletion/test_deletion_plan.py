"""What may be deleted of a partition; a live row's segments never are (SEMANTICS 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import (
    BINDINGS,
    CLUSTER,
    KEY,
    a_chain,
    a_segment,
    a_state,
    epochs,
    listed,
    new_ids,
    retired,
    seen,
    segment_id,
    unknown,
)
from tests.storage.new_ids import own_id
from tierfold.compaction.commits.commit import (
    FinishDeletion,
    MoveLogStart,
    ReleaseClaim,
    RetireSegments,
    StartDeletion,
    failed_requirements,
    proposed,
)
from tierfold.compaction.commits.invariants import ensure
from tierfold.compaction.commits.row_changes import applied, claimed
from tierfold.compaction.deletion.deletion_checks import deletion_violations
from tierfold.compaction.deletion.deletion_plan import (
    DeletionPlan,
    VacuumLimits,
    deletion_plan_of,
)
from tierfold.compaction.deletion.expiry import ExpiryReason
from tierfold.compaction.discovery.candidates import Candidate, EpochStretch
from tierfold.compaction.discovery.listing import IncompleteUpload
from tierfold.compaction.discovery.view import PartitionView, state_with_new
from tierfold.compaction.model.bindings import UNDECLARED, Binding, Detached, ServedBy
from tierfold.compaction.model.origins import UPLOADED, Compacted
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import RetiredSegment, Segment
from tierfold.storage.tiers.local_tiered_storage import REQUIRED_PARTS

NOW_MS: Final = 100 * DAY_MS
TIMES: Final = VacuumLimits(now_ms=NOW_MS)
DETACHED: Final = Detached()
KEEP: Final = Rules(retention_ms=-1)
DELETE: Final = replace(
    KEEP, cleanup_policy=frozenset({"delete"}), retention_ms=DAY_MS, retention_bytes=-1
)
CHAIN: Final = a_chain(10, 10, 10, max_timestamp_ms=NOW_MS)
INCOMPLETE: Final = IncompleteUpload(
    object_key="f/.x.staged", size_bytes=7, modified_ms=NOW_MS - DAY_MS, segment_id=own_id()
)


def gone(segment: Segment, *, for_ms: int, is_ours: bool = False) -> RetiredSegment:
    """A segment retired `for_ms` ago, written by tierfold or by a broker."""
    written = replace(segment, origin=Compacted("earlier") if is_ours else UPLOADED)
    return retired(written, retired_at_ms=NOW_MS - for_ms)


def stray(
    start: int, end: int, *, age_ms: int = DAY_MS, lacking: str = "", epoch: int = 0, **fields: Any
) -> Candidate:
    """A segment in the tier that no row names; named "stray" and by its start."""
    segment = a_segment(
        start,
        end,
        segment_id=segment_id(f"stray{start}"),
        leader_epochs=epochs((epoch, start)),
    )
    found = unknown(segment, lacking=lacking.split(), **fields)
    return replace(found, listed=replace(found.listed, modified_ms=NOW_MS - age_ms))


def deletion(
    view: PartitionView,
    rules: Rules = KEEP,
    binding: Binding = DETACHED,
    *,
    order: VacuumLimits = TIMES,
    incomplete_uploads: Sequence[IncompleteUpload] = (),
) -> DeletionPlan:
    return deletion_plan_of(
        view, rules, binding, order, incomplete_uploads=incomplete_uploads
    )


def ids(vacuumed: DeletionPlan) -> tuple[list[str], ...]:
    """Ids of expired, starting, going and orphaned segments."""
    return (
        [gone.segment.segment_id for gone in vacuumed.expired],
        [entry.segment.segment_id for entry in vacuumed.starting],
        [entry.segment.segment_id for entry in vacuumed.going],
        [orphan.segment_id for orphan in vacuumed.orphans],
    )


A, B, C = (segment.segment_id for segment in CHAIN)


@pytest.mark.parametrize(("for_ms", "is_due"), [(DAY_MS, True), (DAY_MS - 1, False)])
def test_a_retired_segment_stays_for_the_grace_period(for_ms: int, is_due: bool) -> None:
    vacuumed = deletion(seen(a_state(CHAIN[1:], retired=(gone(CHAIN[0], for_ms=for_ms),))))
    assert ids(vacuumed) == ([], [A] if is_due else [], [], [])
    assert vacuumed.needs_claim is is_due
    assert vacuumed.is_nothing is not is_due


def test_a_started_deletion_continues_whatever_its_age_and_the_binding() -> None:
    started = replace(gone(CHAIN[0], for_ms=0), deletion_started_at_ms=NOW_MS)
    vacuumed = deletion(seen(a_state(CHAIN[1:], retired=(started,))), Rules(), UNDECLARED)
    assert ids(vacuumed) == ([], [], [A], [])
    assert vacuumed.marked_ids == (A,)
    assert vacuumed.updates(at_ms=NOW_MS, run="r") == ()
    assert vacuumed.needs_claim


def test_only_our_segments_go_if_a_broker_may_name_the_others() -> None:
    theirs, ours = gone(CHAIN[0], for_ms=DAY_MS), gone(CHAIN[1], for_ms=DAY_MS, is_ours=True)
    row = a_state((replace(CHAIN[2], max_timestamp_ms=0),), retired=(theirs, ours))
    view = seen(row, [stray(25, 26)])
    vacuumed = deletion(view, DELETE, UNDECLARED, incomplete_uploads=[INCOMPLETE])
    assert ids(vacuumed) == ([], [B], [], [])
    assert vacuumed.incomplete_uploads == (INCOMPLETE,)
    assert vacuumed.log_start_offset == 20
    (note,) = vacuumed.notes
    assert "may still name these segments, so they stay: 1 expired, 1 retired, 1 orphaned." in note
    assert "tier.binding=detached" in note
    assert ids(deletion(view, DELETE)) == ([C], [A, B], [], [segment_id("stray25")])


@pytest.mark.parametrize(("age_ms", "is_due"), [(DAY_MS, True), (DAY_MS - 1, False)])
def test_an_orphan_and_an_incomplete_upload_stay_while_a_run_may_be_at_work(
    age_ms: int, is_due: bool
) -> None:
    view = seen(a_state(CHAIN), [stray(10, 19, age_ms=age_ms)])
    young = replace(INCOMPLETE, modified_ms=NOW_MS - age_ms)
    vacuumed = deletion(view, incomplete_uploads=[young])
    assert ids(vacuumed)[3] == ([segment_id("stray10")] if is_due else [])
    assert vacuumed.incomplete_uploads == ((young,) if is_due else ())
    assert vacuumed.notes == ()


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_brokers_upload_ends_only_where_no_broker_serves(binding: Binding) -> None:
    uploads = [INCOMPLETE, replace(INCOMPLETE, segment_id=segment_id("broker"))]
    vacuumed = deletion(seen(a_state(CHAIN)), KEEP, binding, incomplete_uploads=uploads)
    assert len(vacuumed.incomplete_uploads) == (2 if isinstance(binding, Detached) else 1)
    is_noted = any("1 in upload" in note for note in vacuumed.notes)
    assert is_noted is not isinstance(binding, Detached)


@pytest.mark.parametrize("lacking", ["", *REQUIRED_PARTS[1:]])
@pytest.mark.parametrize(
    ("start", "end", "is_orphan"),
    [(15, 29, True), (15, 30, False), (29, 29, True), (30, 30, False)],
)
def test_only_a_segment_within_the_live_range_is_an_orphan(
    start: int, end: int, is_orphan: bool, lacking: str
) -> None:
    vacuumed = deletion(seen(a_state(CHAIN), [stray(start, end, lacking=lacking)]))
    assert ids(vacuumed)[3] == ([segment_id(f"stray{start}")] if is_orphan else [])


def test_an_incomplete_upload_with_offsets_of_its_own_is_kept_and_reported() -> None:
    vacuumed = deletion(seen(a_state(CHAIN), [stray(15, 35, lacking="leader_epoch_checkpoint")]))
    assert vacuumed.is_nothing
    assert vacuumed.notes == (
        f"segment {segment_id('stray15')} (offsets 15 to 35) lacks .leader_epoch_checkpoint: not"
        " used until its upload is complete",
    )


def test_a_log_that_cannot_be_read_is_kept_and_reported() -> None:
    torn = stray(15, 20, lacking="index", end_offset=None, corruption="x.log: it is torn")
    vacuumed = deletion(seen(a_state(CHAIN), [torn]))
    assert vacuumed.is_nothing
    assert vacuumed.notes == (
        f"segment {segment_id('stray15')} (start 15) is kept, not read: x.log: it is torn",
    )


def test_a_segment_that_the_next_claim_adopts_makes_no_orphan_yet() -> None:
    # The committed row decides, because a claim may still fail.
    (new,) = a_chain(10, start_offset=30)
    row = a_state(CHAIN)
    covered = stray(15, 35)
    assert ids(deletion(seen(row, [covered, unknown(new)])))[3] == []
    adopted = replace(row, segments=(*CHAIN, new))
    assert ids(deletion(seen(adopted, [covered])))[3] == [segment_id("stray15")]


def test_an_orphan_without_a_log_is_deleted_wherever_it_starts() -> None:
    found = [stray(15, 20, lacking="log"), stray(30, 35, lacking="log index")]
    assert ids(deletion(seen(a_state(CHAIN), found)))[3] == [
        segment_id("stray15"),
        segment_id("stray30"),
    ]


TAKES_APART: Final = replace(TIMES, takes_set_apart=True)


@pytest.mark.parametrize(
    ("binding", "order", "age_ms", "goes"),
    [
        (DETACHED, TAKES_APART, DAY_MS, True),
        (DETACHED, TAKES_APART, DAY_MS - 1, False),
        (DETACHED, TIMES, DAY_MS, False),
        (ServedBy(CLUSTER), TAKES_APART, DAY_MS, False),
        (ServedBy(CLUSTER), TIMES, DAY_MS, False),
        (UNDECLARED, TAKES_APART, DAY_MS, False),
    ],
)
def test_a_segment_set_apart_is_deleted_only_if_a_person_gave_it_up(
    binding: Binding, order: VacuumLimits, age_ms: int, goes: bool
) -> None:
    # Epoch 2 began at 20; a deposed leader of epoch 1 still uploaded 20-22.
    lineage = epochs((0, 0), (2, 20))
    live = (*CHAIN[:2], replace(CHAIN[2], leader_epochs=lineage[1:]))
    late = stray(20, 22, age_ms=age_ms, epoch=1)
    view = seen(a_state(live, lineage=lineage), [late])
    assert view.set_apart == (late.listed,)
    vacuumed = deletion(view, KEEP, binding, order=order)
    assert vacuumed.set_apart == ((late.listed,) if goes else ())
    assert vacuumed.needs_claim is goes
    needed = replace(view, needed=(late.listed.segment_id,))
    assert deletion(needed, order=order).set_apart == ()
    assert ids(vacuumed) == ([], [], [], [])
    kept = [note for note in vacuumed.notes if "set apart, outside the leader epoch" in note]
    assert len(kept) is not goes
    is_reported = not isinstance(binding, Detached) and order.takes_set_apart
    assert any("they stay: 1 set apart" in note for note in vacuumed.notes) is is_reported


def test_segments_that_no_run_has_adopted_expire_as_well() -> None:
    old = [replace(segment, max_timestamp_ms=0) for segment in a_chain(10, 10)]
    first = seen(None, list(map(unknown, old)))
    vacuumed = deletion(first, DELETE, incomplete_uploads=[INCOMPLETE])
    assert [gone.reason for gone in vacuumed.expired] == [ExpiryReason.TIME] * 2
    assert (vacuumed.log_start_offset, vacuumed.incomplete_uploads) == (20, ())
    assert deletion(first).is_nothing


def test_a_note_says_that_every_live_segment_expires() -> None:
    old = [replace(segment, max_timestamp_ms=0) for segment in CHAIN]
    assert deletion(seen(a_state(old)), DELETE).notes == ("every live segment is past retention",)
    assert deletion(seen(a_state([*old[:2], CHAIN[2]])), DELETE).notes == ()
    assert deletion(seen(a_state(CHAIN)), DELETE).notes == ()


def test_the_log_starts_where_the_first_segment_that_stays_does() -> None:
    row = a_state([replace(CHAIN[0], max_timestamp_ms=0), *CHAIN[1:]])
    vacuumed = deletion(seen(row), DELETE)
    assert vacuumed.updates(at_ms=5, run="r") == (
        RetireSegments(ids=(A,), at_ms=5, run="r"),
        MoveLogStart(offset=10),
    )
    assert failed_requirements(vacuumed.requires, row) == ()
    assert len(failed_requirements(vacuumed.requires, replace(row, segments=CHAIN[1:]))) == 1


def test_a_deletion_requires_that_the_segment_is_whole() -> None:
    row = a_state(CHAIN[1:], retired=(gone(CHAIN[0], for_ms=DAY_MS),))
    vacuumed = deletion(seen(row))
    assert vacuumed.updates(at_ms=5, run="r") == (StartDeletion(ids=(A,), at_ms=5),)
    assert not failed_requirements(vacuumed.requires, row)
    assert len(failed_requirements(vacuumed.requires, a_state(CHAIN))) == 1


@pytest.mark.parametrize(
    ("gone", "finished"),
    [
        ((), ()),
        ((A,), (A,)),
        ((A, B), (A, B)),
        ((C,), ()),  # What was an orphan is in no row.
        ((B, C), (B,)),
    ],
)
def test_only_marked_segments_without_objects_leave_the_row(
    gone: tuple[str, ...], finished: tuple[str, ...]
) -> None:
    going, starting = map(retired, CHAIN[:2])
    orphans = (listed(CHAIN[2]),)
    vacuumed = DeletionPlan(key=KEY, going=(going,), starting=(starting,), orphans=orphans)
    removed = (FinishDeletion(ids=finished),) if finished else ()
    assert vacuumed.last_updates(gone) == removed


def drawn_stray(draw: st.DrawFn, start: int) -> Candidate:
    """An upload of epoch 0, complete, incomplete or torn; some with batches of no epoch."""
    lacking = draw(st.sampled_from(["", *REQUIRED_PARTS]))
    end = start + draw(st.integers(0, 20))
    found = stray(start, end, age_ms=draw(st.integers(0, 2)) * DAY_MS, lacking=lacking)
    if lacking == "leader_epoch_checkpoint":
        epoch = draw(st.sampled_from([-1, 0]))
        stretch = EpochStretch(epoch=epoch, first_offset=start, last_offset=end)
        found = replace(found, stretches=(stretch,))
    if lacking and draw(st.booleans()):
        found = replace(found, end_offset=None, corruption="torn")
    return found


@st.composite
def partitions(draw: st.DrawFn) -> tuple[PartitionView, Rules]:
    """A row in any state, other segments in the tier, and any settings."""
    ages = draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    first_live = draw(st.integers(0, len(ages)))
    chain = [
        replace(segment, max_timestamp_ms=NOW_MS - age * DAY_MS)
        for segment, age in zip(a_chain(*[10] * len(ages)), ages, strict=True)
    ]
    past = [
        replace(
            gone(segment, for_ms=draw(st.integers(0, 2)) * DAY_MS, is_ours=draw(st.booleans())),
            deletion_started_at_ms=draw(st.none() | st.just(NOW_MS)),
        )
        for segment in chain[:first_live]
    ]
    row = a_state(
        chain[first_live:], retired=tuple(past), log_start_offset=10 * first_live, epoch=1
    )
    strays = [drawn_stray(draw, start) for start in draw(st.sets(st.integers(0, 70), max_size=3))]
    rules = Rules(
        cleanup_policy=frozenset(draw(st.sets(st.sampled_from(["compact", "delete"])))),
        retention_ms=draw(st.sampled_from([-1, 0, DAY_MS])),
        retention_bytes=draw(st.sampled_from([-1, 0, 2000])),
    )
    return seen(row, strays), rules, draw(st.sampled_from(BINDINGS))


@given(partitions())
def test_no_live_segment_is_ever_deleted(found: tuple[PartitionView, Rules, Binding]) -> None:
    view, rules, binding = found
    vacuumed = deletion(view, rules, binding, order=TAKES_APART)
    expired, starting, going, orphans = map(set, ids(vacuumed))
    assert view.state is not None
    live = view.state.live_ids
    assert expired <= live | set(new_ids(view))
    assert not (starting | going | orphans) & live
    apart = {segment.segment_id for segment in vacuumed.set_apart}
    assert not apart & (live | orphans)
    assert not (apart | orphans) & set(new_ids(view))
    assert len(expired | starting | going | orphans) == sum(map(len, ids(vacuumed)))
    if not isinstance(binding, Detached):
        assert not expired | orphans
    # As the catalog writes it: every invariant holds before objects are deleted.
    row = claimed(state_with_new(view), run="vacuum", commit_id="1", at_ms=NOW_MS)
    after = row
    for number, updates in enumerate(
        (
            vacuumed.updates(at_ms=NOW_MS, run="vacuum"),
            (FinishDeletion(ids=vacuumed.marked_ids), ReleaseClaim(run="vacuum")),
        )
    ):
        proposal = proposed(
            after, *updates, commit_id=f"{number + 2}", at_ms=NOW_MS, requires=vacuumed.requires
        )
        assert number or not failed_requirements(proposal.requires, after)
        before, after = after, applied(proposal, after)
        ensure(before, after)
        assert number or deletion_violations(vacuumed, after) == ()
    assert after.live_ids == (live | set(new_ids(view))) - expired
    assert not (starting | going) & after.retired_ids
    assert expired <= after.retired_ids - after.marked_ids
