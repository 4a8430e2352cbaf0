"""Checkpoints that begin later and later, because the log start rose between uploads.

    checkpoint of   0- 9    0@0
                   10-19    0@0  2@10
                   20-29         2@15  4@20     the log start was 15 then
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_segment, a_state, epochs, facts, segment_id
from tests.compaction.uploads import cut_short, refusal, spans, starts, upload, view
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.checkpoint_chains import joined
from tierfold.compaction.discovery.draft import divergence, drafted
from tierfold.compaction.discovery.histories import decided_history
from tierfold.compaction.discovery.listing import classify
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.leader_epochs import CoveredEpochs, Disagreement, disagreement
from tierfold.compaction.model.segments import LeaderEpoch

FIRST, SECOND = upload(0, 9), upload(10, 19, (0, 0), (2, 10))
THIRD = upload(20, 29, (2, 15), (4, 20))


def test_checkpoints_that_begin_later_are_one_chain() -> None:
    seen = view(None, FIRST, SECOND, THIRD)
    assert spans(seen) == ["0-9", "10-19", "20-29"]
    assert seen.lineage == epochs((0, 0), (2, 10), (4, 20))
    assert (seen.set_apart, seen.waiting, seen.notes) == ((), (), ())


def test_a_checkpoint_without_a_common_offset_contradicts_nothing() -> None:
    # The log start was 20 when the last one was uploaded.
    seen = view(None, FIRST, SECOND, upload(20, 29, (4, 20)))
    assert spans(seen) == ["0-9", "10-19", "20-29"]
    assert seen.lineage == epochs((0, 0), (2, 10), (4, 20))


@st.composite
def one_log(draw: st.DrawFn) -> list[Candidate]:
    """Uploads of one log of 40 offsets with rising epochs, each with the log start of its time."""
    changes = sorted(draw(st.sets(st.integers(1, 39), max_size=6)))
    lineage = [(0, 0), *((2 * place + 2, start) for place, start in enumerate(changes))]
    borders = [0, *sorted(draw(st.sets(st.integers(1, 39), max_size=6))), 40]
    found, log_start = [], 0
    for start, after in pairwise(borders):
        log_start = draw(st.integers(log_start, start))
        begun = [entry for entry in lineage if entry[1] <= log_start][-1]
        rest = [entry for entry in lineage if log_start < entry[1] < after]
        found.append(upload(start, after - 1, (begun[0], log_start), *rest))
    return draw(st.permutations(found))


@given(one_log())
def test_one_log_is_never_taken_for_two(found: Sequence[Candidate]) -> None:
    seen = view(None, *found)
    assert sorted(starts([one.listed for one in found])) == [s.start_offset for s in seen.segments]
    assert seen.segments[-1].end_offset == 39


@given(one_log(), st.integers(1, 6))
def test_nor_if_a_row_names_its_first_segments(
    found: Sequence[Candidate], known: int
) -> None:
    in_order = sorted(found, key=lambda one: one.listed.start_offset)
    row_seen = view(None, *in_order[:known])
    row = a_state(row_seen.segments, lineage=row_seen.lineage)
    seen = view(row, *in_order[known:])
    assert seen.segments[-1].end_offset == 39
    assert (seen.set_apart, seen.notes) == ((), ())


# Two logs.


def test_two_checkpoints_that_contradict_each_other_refuse_the_partition() -> None:
    # Epoch 3 began at 8, so offsets 8 and 9 of the first upload were cut off.
    found = refusal(None, FIRST, upload(20, 29, (0, 0), (3, 8)))
    assert found.reason is RefusalReason.LINEAGE_DIVERGED
    assert f"{segment_id('0-9')} (offsets 0 to 9), with leader epoch 0 at offset 8, where the log" \
        " has 3" in found.detail
    assert "tierfold forget" in found.remedy


def test_what_contradicts_the_chain_is_no_part_of_it() -> None:
    # Of two that the newest continues, the one with the higher epoch extends it.
    deposed = upload(5, 12, (0, 0), (1, 8))
    history = decided_history([FIRST, SECOND, THIRD, deposed], None)
    assert history.lineage == epochs((0, 0), (2, 10), (4, 20))
    assert [one.listed.segment_id for one in history.apart] == [segment_id("5-12")]


@pytest.mark.parametrize(
    "other",
    [upload(0, 9, (5, 0)), cut_short(0, 9, (5, 0, 9))],
    ids=["by its checkpoint", "by its batches"],
)
def test_epochs_that_fall_without_a_common_offset_prove_nothing(other: Candidate) -> None:
    newest = upload(10, 19, (3, 10), (6, 12))
    known = facts(None, [other, newest])
    history = known.history()
    assert (history.apart, history.unproven) == ((), (other,))
    assert divergence(known) is None
    if other.checkpoint:
        found = refusal(None, other, newest)
        assert found.reason is RefusalReason.LINEAGE_UNCLEAR
        assert "forget" not in found.sentence
        assert "two leader epoch checkpoints" in found.remedy
    # What the remedy says: without the segment that does not continue it, the log is planned.
    assert spans(view(None, newest)) == ["10-19"]


def test_beside_a_row_what_is_unproven_is_kept_and_not_set_apart() -> None:
    lineage = epochs((3, 10), (6, 12))
    row = a_state([a_segment(10, 19, leader_epochs=lineage)], lineage=lineage)
    seen = view(row, upload(0, 9, (5, 0)))
    assert (seen.set_apart, seen.orphans) == ((), ())
    assert "do not contradict them at an offset that both cover" in seen.notes[0]


def test_a_violation_of_the_row_without_a_common_offset_does_not_lead_to_forget() -> None:
    # Epoch 5 starts below all that the row has, although the row's epoch 3 follows.
    lineage = epochs((3, 10))
    row = a_state([a_segment(10, 19, leader_epochs=lineage)], lineage=lineage)
    stray = upload(0, 9, (5, 0))
    known = facts(row, [cut_short(0, 9, (5, 0, 9))])
    for found in (refusal(row, stray), refusal(row, cut_short(0, 9, (5, 0, 9)))):
        assert found.reason is RefusalReason.LINEAGE_UNCLEAR
        assert "forget" not in found.sentence
    assert divergence(known) is None


@pytest.mark.parametrize(
    ("one", "end", "other", "other_end", "expected"),
    [
        (((0, 0),), 9, ((0, 5), (2, 10)), 19, None),
        (((0, 0),), 10, ((0, 5), (2, 10)), 19, (10, 0, 2)),
        (((0, 0), (2, 10)), 14, ((4, 15),), 19, None),
        (((0, 0), (2, 10)), 15, ((4, 15),), 19, (15, 2, 4)),
        (((0, 0), (2, 10)), 30, ((0, 5), (2, 11)), 30, (10, 2, 0)),
        # An epoch without records.
        (((0, 0), (1, 10), (2, 10)), 30, ((0, 0), (2, 10)), 30, None),
    ],
)
def test_two_lists_contradict_each_other_only_where_both_cover(
    one: tuple[tuple[int, int], ...],
    end: int,
    other: tuple[tuple[int, int], ...],
    other_end: int,
    expected: tuple[int, int, int] | None,
) -> None:
    mine = CoveredEpochs(epochs=epochs(*one), end_offset=end)
    theirs = CoveredEpochs(epochs=epochs(*other), end_offset=other_end)
    proof = None
    if expected is not None:
        proof = Disagreement(offset=expected[0], epoch=expected[1], other_epoch=expected[2])
    assert disagreement(mine, theirs) == proof


def covered(end: int, *pairs: tuple[int, int]) -> CoveredEpochs:
    return CoveredEpochs(epochs=epochs(*pairs), end_offset=end)


@pytest.mark.parametrize(
    ("base", "known", "other", "expected"),
    [
        # A higher epoch below: no part of this log.
        (covered(19, (3, 10)), None, covered(9, (1, 0), (5, 5)), epochs((3, 10))),
        # It contradicts the newest one at 12.
        (
            covered(29, (2, 10), (4, 20)),
            None,
            covered(15, (0, 0), (3, 12)),
            epochs((2, 10), (4, 20)),
        ),
        # It contradicts the row at 12, and has no offset in common with the newest one.
        (
            covered(29, (6, 20)),
            covered(19, (0, 10), (4, 15)),
            covered(14, (0, 0), (2, 12)),
            epochs((0, 10), (4, 15), (6, 20)),
        ),
        # The same, with a higher epoch than the row's.
        (
            covered(29, (6, 20)),
            covered(19, (0, 10), (2, 15)),
            covered(14, (4, 12)),
            epochs((0, 10), (2, 15), (6, 20)),
        ),
    ],
)
def test_what_does_not_continue_is_not_joined(
    base: CoveredEpochs,
    known: CoveredEpochs | None,
    other: CoveredEpochs,
    expected: tuple[LeaderEpoch, ...],
) -> None:
    assert joined(base, known, [other]) == expected


def test_live_segments_that_do_not_fit_without_a_common_offset_prove_nothing() -> None:
    live = [
        a_segment(0, 9, leader_epochs=epochs((5, 0))),
        a_segment(10, 19, leader_epochs=epochs((3, 10))),
    ]
    row = a_state(live, lineage=epochs((3, 10)))
    found = refusal(row)
    assert found.reason is RefusalReason.LINEAGE_UNCLEAR
    assert segment_id(0) in found.detail
    gone = drafted(replace(facts(row), classified=classify([], row)))
    assert isinstance(gone, Refusal)
    assert gone.reason is RefusalReason.DATA_GONE
    assert "forget" not in gone.sentence
