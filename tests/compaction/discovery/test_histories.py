"""Which history of a partition its uploads belong to (SEMANTICS 1, "Histories first").

    row        0 ─────── 10      live, its leader epochs
    upload          6 ── 9       what a leader wrote, by its checkpoint or by its batches
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import a_segment, a_state, epochs, segment_id
from tests.compaction.uploads import cut_short, upload
from tierfold.compaction.discovery.candidates import NO_EPOCH, Candidate
from tierfold.compaction.discovery.checkpoint_chains import with_older_epochs
from tierfold.compaction.discovery.histories import History, decided_history
from tierfold.compaction.model.segments import PartitionState

Pairs = tuple[tuple[int, int], ...]


def a_row(*lineage: tuple[int, int]) -> PartitionState:
    """Live 0 to 10."""
    return a_state([a_segment(0, 10, leader_epochs=epochs(*lineage))], lineage=epochs(*lineage))


def names(found: tuple[Candidate, ...]) -> list[str]:
    return [segment.listed.segment_id.rstrip("_A") for segment in found]


def decided(row: PartitionState | None, *found: Candidate) -> tuple[History, str]:
    """The history, and the segments that are part of it, as a phrase."""
    history = decided_history(found, row)
    return history, " ".join(names(history.fitting))


ROW: Final = a_row((3, 0))


def test_unknown_segments_never_change_the_rows_lineage() -> None:
    assert decided_history([], ROW) == History(
        lineage=epochs((3, 0)), fitting=(), apart=(), covered_end=10
    )
    assert decided_history([], None).lineage == ()


@pytest.mark.parametrize("start", [0, 3, 6, 10, 11])
def test_an_epoch_that_the_row_lacks_within_the_live_range_is_a_truncation(start: int) -> None:
    # The new leader's log was truncated at `start`; its uploads may start anywhere.
    found = upload(6, 14, (3, 0), (4, start)) if start else upload(6, 14, (4, 0))
    history, fitting = decided(ROW, found)
    assert bool(history.violation) is (start <= 10)
    assert fitting == "6-14"
    if start <= 10:
        assert history.violation == (
            f"segment {segment_id('6-14')} (offsets 6 to 14) is of leader epoch 4, which starts at"
            f" offset {start}; the live segments have records of an older leader there, up to"
            " offset 10"
        )


def test_a_truncation_is_found_wherever_the_upload_starts() -> None:
    for found in (upload(6, 9, (3, 0), (4, 6)), upload(11, 15, (3, 0), (4, 6), (5, 11))):
        assert "epoch 4, which starts at offset 6" in decided_history([found], ROW).violation


def test_the_first_epoch_of_a_truncated_checkpoint_may_start_later() -> None:
    # A broker's checkpoint starts at its log start: epoch 3 started at 0, or at 4 or below.
    history, fitting = decided(ROW, upload(4, 15, (3, 4)))
    assert (history.violation, fitting) == ("", "4-15")
    assert history.lineage == epochs((3, 0))
    history, fitting = decided(a_row((2, 0), (3, 6)), upload(8, 15, (3, 8)))
    assert (history.violation, fitting) == ("", "8-15")
    assert history.lineage == epochs((2, 0), (3, 6))


@pytest.mark.parametrize("start", [5, 7])
def test_a_common_epoch_that_starts_elsewhere_is_a_violation(start: int) -> None:
    row = a_row((2, 0), (3, 6))
    history = decided_history([upload(4, 15, (2, 0), (3, start))], row)
    assert history.violation == (
        f"in segment {segment_id('4-15')} (offsets 4 to 15) leader epoch 3 starts at offset"
        f" {start}, in the catalog at 6"
    )
    assert not decided_history([upload(4, 15, (2, 0), (3, 6))], row).violation


def test_epochs_below_the_rows_first_are_ignored() -> None:
    # The row's own lineage was truncated at its head.
    row = a_row((3, 4))
    history = decided_history([upload(8, 15, (1, 0), (2, 2), (3, 3), (4, 11))], row)
    assert history.violation == ""


def test_a_late_upload_of_a_deposed_leader_is_set_apart() -> None:
    row = a_row((3, 0), (5, 6))
    history, fitting = decided(row, upload(4, 9, (3, 0), (4, 5)), upload(4, 8, (3, 0)))
    assert (history.violation, fitting) == ("", "")
    assert names(history.apart) == ["4-9", "4-8"]
    assert history.lineage == row.lineage


def test_the_highest_epoch_decides_not_the_longest_upload() -> None:
    new, deposed = upload(11, 12, (3, 0), (5, 11)), upload(11, 99, (3, 0), (4, 11))
    for found in ((new, deposed), (deposed, new)):
        history, fitting = decided(ROW, *found)
        assert (history.lineage, fitting) == (epochs((3, 0), (5, 11)), "11-12")
        assert names(history.apart) == ["11-99"]
        assert history.violation == ""


def test_of_one_epoch_the_upload_with_the_highest_end_decides() -> None:
    early, late = upload(11, 12, (3, 0), (5, 11)), upload(13, 15, (3, 0), (5, 11))
    assert decided(ROW, late, early)[1] == "13-15 11-12"
    other = upload(11, 14, (3, 0), (5, 12))
    for found in ((late, other), (other, late)):
        assert decided_history(found, ROW).lineage == epochs((3, 0), (5, 11))


@pytest.mark.parametrize(
    ("epoch", "first", "last"), [(3, 8, 11), (3, 11, 12), (4, 10, 13), (4, 9, 10)]
)
def test_batches_on_both_sides_of_an_epochs_start_do_not_fit(
    epoch: int, first: int, last: int
) -> None:
    assert not cut_short(first, last, (epoch, first, last)).fits(epochs((3, 0), (4, 11)))


def test_only_the_epochs_of_its_own_offsets_must_be_the_lineages() -> None:
    # Kafka checks the segment's own epochs; the checkpoint may list any epochs below it.
    lineage = epochs((1, 0), (3, 8))
    assert upload(11, 15, (1, 0), (2, 5), (3, 8)).fits(lineage)
    assert not upload(6, 15, (1, 0), (2, 5), (3, 8)).fits(lineage)


@pytest.mark.parametrize(
    ("stretches", "contradicts", "is_apart"),
    [
        (((3, 8, 15),), False, False),
        (((NO_EPOCH, 8, 15),), False, False),
        (((2, 8, 10), (3, 11, 15)), False, True),
        (((2, 8, 10), (4, 11, 15)), False, True),
        (((3, 8, 10), (4, 11, 15)), False, False),
        (((3, 8, 9), (4, 10, 15)), True, False),
        (((4, 8, 15),), True, False),
    ],
)
def test_without_a_checkpoint_the_batches_decide(
    stretches: tuple[tuple[int, int, int], ...], contradicts: bool, is_apart: bool
) -> None:
    history = decided_history([cut_short(8, 15, *stretches)], ROW)
    assert bool(history.violation) is contradicts
    assert bool(history.apart) is is_apart
    if contradicts:
        assert "is of leader epoch 4" in history.violation


def test_batches_of_a_newer_leader_set_an_upload_of_an_older_one_apart() -> None:
    # Epoch 4 starts at 12 or below, so records of epoch 3 from there on are not part of the log.
    history, fitting = decided(ROW, upload(11, 20, (3, 0)), cut_short(12, 15, (4, 12, 15)))
    assert (history.lineage, fitting) == (epochs((3, 0), (4, 12)), "12-15")


def test_a_checkpoint_counts_more_than_batches_of_the_same_epoch() -> None:
    history, fitting = decided(
        ROW, cut_short(14, 18, (4, 14, 18)), upload(11, 13, (3, 0), (4, 11))
    )
    assert (history.lineage, fitting) == (epochs((3, 0), (4, 11)), "14-18 11-13")


@pytest.mark.parametrize(
    ("lower", "start"), [(((3, 11, 11), (4, 12, 16)), 12), (((4, 11, 13),), 11)]
)
def test_an_epoch_that_only_batches_show_starts_at_the_lowest_of_them(
    lower: tuple[tuple[int, int, int], ...], start: int
) -> None:
    found = (cut_short(14, 18, (4, 14, 18)), cut_short(11, lower[-1][2], *lower))
    for arrived in (found, found[::-1]):
        assert decided_history(arrived, ROW).lineage == epochs((3, 0), (4, start))


def test_every_epoch_that_starts_inside_an_incomplete_upload_extends_the_lineage() -> None:
    found = cut_short(8, 16, (3, 8, 12), (4, 13, 14), (5, 15, 16))
    assert decided_history([found], ROW).lineage == epochs((3, 0), (4, 13), (5, 15))


def test_a_later_leaders_batches_cut_off_epochs_of_a_checkpoint() -> None:
    deposed = upload(11, 20, (3, 0), (4, 14))
    history, fitting = decided(ROW, deposed, cut_short(12, 13, (5, 12, 13)))
    assert (history.lineage, fitting) == (epochs((3, 0), (5, 12)), "12-13")
    assert names(history.apart) == ["11-20"]


def test_of_two_epochs_that_batches_show_the_newer_cuts_the_older_off() -> None:
    history, fitting = decided(
        ROW, cut_short(11, 20, (4, 13, 20)), cut_short(12, 15, (5, 12, 15))
    )
    assert (history.lineage, fitting) == (epochs((3, 0), (5, 12)), "12-15")


def test_batches_of_older_epochs_below_the_lineages_head_are_ignored() -> None:
    # The head of the lineage was dropped with the log's, and the tier still has segments below.
    row = a_row((3, 4))
    assert decided(row, cut_short(0, 6, (1, 0, 1), (3, 2, 6)))[1] == "0-6"
    assert not cut_short(0, 3, (5, 0, 3)).fits(epochs((3, 4), (5, 8)))
    assert not cut_short(0, 3, (3, 0, 3)).fits(())


def test_an_unreadable_segment_decides_nothing() -> None:
    torn = upload(11, 19, (3, 0), (4, 11), corruption="torn")
    endless = upload(11, 19, (3, 0), (4, 11), end_offset=None)
    assert decided_history([torn, endless], ROW) == decided_history([], ROW)
    assert not endless.fits(epochs((4, 11)))


def test_a_checkpoint_beside_a_torn_log_shows_a_truncation() -> None:
    torn = upload(6, 9, (3, 0), (4, 6), corruption="torn", end_offset=None)
    assert "epoch 4, which starts at offset 6" in decided_history([torn], ROW).violation


@pytest.mark.parametrize(
    ("checkpoint", "known", "expected"),
    [
        ((), ((0, 0), (1, 150)), ((0, 0), (1, 150))),
        # Cut off inside epoch 1, where the log starts now: the epoch still starts at 150.
        (((1, 170), (2, 200)), ((0, 0), (1, 150)), ((0, 0), (1, 150), (2, 200))),
        # Cut off before epoch 2: only the row has the older epochs.
        (((2, 200),), ((0, 0), (1, 150)), ((0, 0), (1, 150), (2, 200))),
        # Not truncated.
        (((0, 0), (1, 150), (2, 200)), ((0, 0), (1, 150)), ((0, 0), (1, 150), (2, 200))),
        # A later epoch that starts earlier, or an earlier one that starts later: another history.
        (((2, 200),), ((0, 0), (3, 150)), ((0, 0), (2, 200))),
        (((2, 200),), ((0, 0), (1, 250)), ((0, 0), (2, 200))),
        (((2, 200),), (), ((2, 200),)),
    ],
)
def test_epochs_below_a_brokers_log_start_are_kept(
    checkpoint: Pairs, known: Pairs, expected: Pairs
) -> None:
    assert with_older_epochs(epochs(*checkpoint), epochs(*known)) == epochs(*expected)


@pytest.mark.parametrize(
    ("start", "end", "checkpoint", "expected"),
    [
        (4, 10, ((3, 0),), 7),
        (4, 10, ((3, 0), (4, 8)), 10),
        (4, 10, ((3, 0), (5, 6)), 5),
        (8, 10, ((3, 0),), 7),
        (4, 7, ((3, 0),), 7),
        (4, 10, ((3, 6),), 7),
        (4, 10, ((2, 0),), 3),
    ],
)
def test_the_head_of_a_truncated_segment_is_still_part_of_the_log(
    start: int, end: int, checkpoint: tuple[tuple[int, int], ...], expected: int
) -> None:
    lineage = epochs((3, 0), (4, 8))
    assert upload(start, end, *checkpoint).shared_until(lineage) == expected


@pytest.mark.parametrize(("epoch", "expected"), [(3, 7), (2, 3), (-1, 10)])
def test_without_a_checkpoint_the_batches_show_the_truncation(
    epoch: int, expected: int
) -> None:
    lineage = epochs((3, 0), (4, 8))
    segment = cut_short(4, 10, (epoch, 4, 10))
    assert segment.shared_until(lineage) == expected
    assert replace(segment, end_offset=None).shared_until(lineage) == 3


def test_an_epoch_of_the_row_beyond_its_live_end_is_ignored() -> None:
    # Catalogs of format 3 list such epochs; the log may have been truncated there.
    row = a_state([a_segment(0, 10)], lineage=epochs((0, 0), (4, 15)))
    found = decided_history([upload(11, 14, (0, 0), (4, 13))], row)
    assert (found.violation, found.lineage) == ("", epochs((0, 0), (4, 13)))
    found = decided_history([upload(11, 20, (0, 0))], row)
    assert (found.apart, found.lineage) == ((), epochs((0, 0)))
