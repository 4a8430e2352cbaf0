"""Drawn logs: transactions, idempotent producers and round ends are right (SEMANTICS 5)."""

from __future__ import annotations

from pathlib import Path

from tests.pictures.cleaning import APART, RULES, cleaned, passed
from tests.pictures.log_pictures import batches_of, drawn, listed, picture
from tierfold.compaction.model.units import NO_TIMESTAMP_MS

LATE_MS = RULES.producer_id_expiration_ms
"""Every producer of a picture has expired by now, so that only transactions bind."""
HORIZON_MS = LATE_MS + RULES.delete_retention_ms


def test_records_of_aborted_transactions_go_at_once_whatever_their_key(tmp_path: Path) -> None:
    log = picture("P1([0:a=1 1:=2 2:b=]) 3:P1:A 4:c=1", tmp_path)
    done = passed(log, now_ms=LATE_MS)
    assert drawn(done.log) == "0.. 3:P1:A 4:c=1"
    assert (done.counts.aborted, done.counts.without_key) == (3, 0)


def test_an_aborted_record_does_not_beat_an_older_committed_one(tmp_path: Path) -> None:
    log = picture("P1(0:a=1) 1:P1:C | P2(2:a=2) 3:P2:A 4:b=1", tmp_path)
    assert drawn(cleaned(log, now_ms=LATE_MS)) == "P1(0:a=1) 1:P1:C 3:P2:A 4:b=1"


def test_only_the_aborted_of_interleaved_transactions_goes(tmp_path: Path) -> None:
    log = picture("P1(0:a=1) P2(1:b=1) P1(2:c=1) 3:P2:A P2(4:d=1) 5:P1:C 6:P2:C", tmp_path)
    expected = "P1(0:a=1) P1(2:c=1) 3:P2:A P2(4:d=1) 5:P1:C 6:P2:C"
    assert drawn(cleaned(log, now_ms=LATE_MS)) == expected


def test_a_marker_beyond_the_round_decides_a_transaction_within_it(tmp_path: Path) -> None:
    log = picture("P1(0:a=1) 1:b=1 | 2:P1:A 3:c=1 >", tmp_path)
    assert drawn(cleaned(log, now_ms=LATE_MS)) == "0.. 1:b=1 | 2:P1:A 3:c=1 >"


def test_an_abort_marker_without_an_entry_is_trusted(tmp_path: Path) -> None:
    log = picture("0:a=1 P1([1:a=2 2:c=1]) | 3:P1:A? 4:b=1", tmp_path)
    done = passed(log, now_ms=LATE_MS)
    (unindexed,) = done.unindexed
    assert (unindexed.producer_id, unindexed.first_offset, unindexed.last_offset) == (1, 1, 3)
    assert drawn(done.log) == "0:a=1 3:P1:A 4:b=1"
    assert listed(done.log) == "P1:1-3"
    assert listed(log) == " | "


def test_no_marker_is_doubted_where_the_index_lists_it(tmp_path: Path) -> None:
    log = picture("P1(0:a=1) 1:P1:A 2:P1:A 3:b=1", tmp_path)
    assert passed(log, now_ms=LATE_MS).unindexed == ()


def test_a_commit_marker_goes_when_no_batch_was_met_and_its_horizon_passed(
    tmp_path: Path,
) -> None:
    log = picture("P1(0:a=1) 1:P1:C 2:a=2", tmp_path)
    once = cleaned(log, now_ms=LATE_MS)
    twice = cleaned(once, now_ms=LATE_MS)
    waiting = cleaned(twice, now_ms=HORIZON_MS - 1)
    gone = cleaned(waiting, now_ms=HORIZON_MS)
    assert drawn(once) == "0.. 1:P1:C 2:a=2"  # Its data was still met.
    assert drawn(twice) == f"0.. 1:P1:C^{HORIZON_MS} 2:a=2"
    assert drawn(waiting) == drawn(twice)
    assert drawn(gone) == "0.. 2:a=2"


def test_an_abort_marker_and_its_index_entry_go_in_step(tmp_path: Path) -> None:
    log = picture("P1(0:a=1) 1:P1:A 2:b=1", tmp_path)
    once = cleaned(log, now_ms=LATE_MS)
    twice = cleaned(once, now_ms=LATE_MS)
    gone = cleaned(twice, now_ms=HORIZON_MS)
    assert (drawn(once), listed(once)) == ("0.. 1:P1:A 2:b=1", "P1:0-1")
    assert (drawn(twice), listed(twice)) == (f"0.. 1:P1:A^{HORIZON_MS} 2:b=1", "")
    assert (drawn(gone), listed(gone)) == ("0.. 2:b=1", "")


def test_a_commit_marker_stays_while_one_of_its_records_stays(tmp_path: Path) -> None:
    log = picture("P1([0:a=1 1:b=1]) 2:P1:C 3:a=2", tmp_path)
    expected = "P1(0-1:[1:b=1]) 2:P1:C 3:a=2"
    once = cleaned(log, now_ms=LATE_MS)
    assert drawn(once) == expected
    assert drawn(cleaned(once, now_ms=10 * LATE_MS)) == expected


def test_the_index_of_the_segment_that_holds_the_marker_lists_the_transaction(
    tmp_path: Path,
) -> None:
    log = picture("P1(0:a=1) 1:b=1 | P2(2:c=1) 3:P1:A | 4:P2:A 5:d=1", tmp_path)
    assert listed(log) == " | P1:0-3 | P2:2-4"
    assert listed(cleaned(log, now_ms=LATE_MS, rules=APART)) == " | P1:0-3 | P2:2-4"
    assert listed(cleaned(log, now_ms=LATE_MS)) == "P1:0-3 P2:2-4"


def test_a_segment_of_which_nothing_goes_is_rewritten_for_its_index(tmp_path: Path) -> None:
    # The data went in an earlier round; the entry, which nobody needs, is all that is left.
    log = picture("0:c=1 | P1(1:a=1) 2:P1:A^99999999 3:b=1", tmp_path)
    once = cleaned(log, now_ms=LATE_MS, rules=APART)
    assert (drawn(once), listed(once)) == ("0:c=1 | 1.. 2:P1:A^99999999 3:b=1", " | P1:1-2")
    twice = cleaned(once, now_ms=LATE_MS, rules=APART)
    assert (drawn(twice), listed(twice)) == (drawn(once), " | ")
    assert twice.segments[0] == once.segments[0]


def test_a_control_batch_already_emptied_may_go(tmp_path: Path) -> None:
    log = picture("0:P1:() 1:a=1", tmp_path)
    assert drawn(cleaned(log, now_ms=LATE_MS)) == "0.. 1:a=1"


def test_other_control_types_stay(tmp_path: Path) -> None:
    log = picture("0:L 1:a=1 2:a=2", tmp_path)
    once = cleaned(log, now_ms=LATE_MS)
    assert drawn(once) == "0:L 2:a=2"
    assert drawn(cleaned(once, now_ms=10 * LATE_MS)) == "0:L 2:a=2"


def test_the_batch_with_an_active_producers_last_data_stays_emptied(tmp_path: Path) -> None:
    log = picture("p1([0:a=1 1:b=1]) p1([2:a=2 3:b=2]) 4:a=3 5:b=3", tmp_path)
    once = cleaned(log)
    assert drawn(once) == "0.. p1(2-3:()) 4:a=3 5:b=3"
    assert drawn(cleaned(once)) == "0.. p1(2-3:()) 4:a=3 5:b=3"


def test_an_emptied_batch_keeps_its_producer_and_its_largest_timestamp(tmp_path: Path) -> None:
    log = cleaned(picture("P7.3([0:a=1 1:b=1]) 2:P7.3:C | 3:a=3 4:b=3", tmp_path))
    emptied = batches_of(log, log.segments[0])[0]
    assert drawn(log) == "P7.3(0-1:()) 2:P7.3:C 3:a=3 4:b=3"
    assert (emptied.size_bytes, emptied.codec) == (61, "none")
    assert emptied.base_timestamp_ms == NO_TIMESTAMP_MS
    assert (emptied.max_timestamp_ms, emptied.base_sequence) == (0, 0)


def test_an_expired_producers_last_batch_goes(tmp_path: Path) -> None:
    log = picture("p1(0:a=1) 1:a=2", tmp_path)
    assert drawn(cleaned(log, now_ms=LATE_MS - 1)) == "p1(0:()) 1:a=2"
    assert drawn(cleaned(log, now_ms=LATE_MS)) == "0.. 1:a=2"


def test_an_emptied_batch_goes_once_its_producer_expired(tmp_path: Path) -> None:
    once = cleaned(picture("p1(0:a=1) 1:a=2", tmp_path))
    assert drawn(cleaned(once, now_ms=LATE_MS)) == "0.. 1:a=2"


def test_a_producer_with_an_open_transaction_never_expires(tmp_path: Path) -> None:
    log = picture("p1(0:a=1) 1:a=2 | P1(2:b=1) >", tmp_path)
    # Its newest data lies beyond the round.
    assert drawn(cleaned(log, now_ms=LATE_MS)) == "0.. 1:a=2 | P1(2:b=1) >"
    other = picture("P1(0:a=1) 1:a=2", tmp_path / "open")
    assert drawn(cleaned(other, now_ms=LATE_MS)) == "P1(0:()) 1:a=2"


def test_an_active_producers_last_aborted_batch_stays_emptied_and_listed(tmp_path: Path) -> None:
    log = picture("P1(0:a=1) P1(1:b=1) 2:P1:A 3:c=1", tmp_path)
    once = cleaned(log)
    assert (drawn(once), listed(once)) == ("0.. P1(1:()) 2:P1:A 3:c=1", "P1:0-2")
    # As long as the batch is met, marker and entry stay: nobody may take it for committed.
    twice = cleaned(once, now_ms=5000)
    assert (drawn(twice), listed(twice)) == (drawn(once), "P1:0-2")
    third = cleaned(twice, now_ms=LATE_MS)
    assert (drawn(third), listed(third)) == ("0.. 2:P1:A 3:c=1", "P1:0-2")
    assert listed(cleaned(third, now_ms=LATE_MS)) == ""


def test_without_data_every_marker_of_a_producers_current_epoch_stays(tmp_path: Path) -> None:
    log = picture("0:P1.2:C^5 1:P1.3:C^5 2:P1.3:A^5 3:a=1", tmp_path)
    assert drawn(cleaned(log, now_ms=5)) == "0.. 1:P1.3:() 2:P1.3:() 3:a=1"
    assert drawn(cleaned(log, now_ms=LATE_MS)) == "0.. 3:a=1"


def test_the_last_batch_of_the_round_stays_emptied(tmp_path: Path) -> None:
    log = picture("0:a=1 1:a=2 [2:=1 3:=2]", tmp_path)
    once = cleaned(log)
    assert drawn(once) == "0.. 1:a=2 2-3:()"
    assert drawn(cleaned(once)) == "0.. 1:a=2 2-3:()"


def test_it_is_the_rounds_last_batch_not_the_logs(tmp_path: Path) -> None:
    log = picture("0:a=1 1:=1 | 2:=2 >", tmp_path)
    assert drawn(cleaned(log)) == "0:a=1 1:() | 2:=2 >"


def test_a_batch_that_ended_a_round_goes_once_the_round_ends_later(tmp_path: Path) -> None:
    assert drawn(cleaned(picture("0:a=1 1:() | 2:b=1", tmp_path))) == "0:a=1 2:b=1"


def test_where_the_remote_range_ends_in_a_hole_an_empty_batch_closes_it(tmp_path: Path) -> None:
    log = picture("e4 0:a=1 1:b=1 ..5", tmp_path)
    once = cleaned(log)
    assert drawn(once) == "e4 0:a=1 1:b=1 5:()"
    assert cleaned(once).segments == once.segments


def test_a_hole_within_the_remote_range_stays_one(tmp_path: Path) -> None:
    log = picture("0:a=1 1:b=1 ..5 | 6:c=1 >", tmp_path)
    assert cleaned(log).segments == log.segments


def test_a_closing_batch_lies_behind_an_emptied_one(tmp_path: Path) -> None:
    log = picture("0:a=1 p1(1:a=2) 2:a=3 ..5", tmp_path)
    assert drawn(cleaned(log)) == "0.. p1(1:()) 2:a=3 5:()"
