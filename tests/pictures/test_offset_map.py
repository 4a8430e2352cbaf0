"""Drawn logs: the latest record of a key stays (SEMANTICS 3); others stay or go as in 4."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.pictures.cleaning import APART, RETENTION_MS, RULES, cleaned, passed, vacuumed
from tests.pictures.log_pictures import drawn, picture


def test_of_every_key_the_highest_offset_wins(tmp_path: Path) -> None:
    log = picture("0:a=1 1:b=1 2:a=2 | 3:c=1 4:a=3 | 5:c=2 6:d=1", tmp_path)
    assert drawn(cleaned(log)) == "0.. 1:b=1 4:a=3 5:c=2 6:d=1"
    assert drawn(cleaned(log, rules=APART)) == "0.. 1:b=1 ..2 | 3.. 4:a=3 | 5:c=2 6:d=1"


def test_keys_are_compared_as_bytes_exactly(tmp_path: Path) -> None:
    log = picture("0:a=1 1:A=1 2:aa=1 3:12345678x=1 4:12345678y=1 5:aa=2", tmp_path)
    assert drawn(cleaned(log)) == "0:a=1 1:A=1 3:12345678x=1 4:12345678y=1 5:aa=2"


def test_the_empty_key_is_a_key_and_the_empty_value_no_tombstone(tmp_path: Path) -> None:
    log = picture("0:''=1 1:''=2 2:a='' 3:b=", tmp_path)
    assert drawn(cleaned(log)) == "0.. 1:''=2 2:a='' 3:b=^1000"


def test_control_records_take_no_part(tmp_path: Path) -> None:
    # All COMMIT markers have one key; none supersedes another.
    log = picture("0:L 1:P1:C 2:P2:C 3:L 4:a=1", tmp_path)
    assert drawn(cleaned(log)) == "0:L 1:P1:C^1000 2:P2:C^1000 3:L 4:a=1"


def test_aborted_records_take_no_part(tmp_path: Path) -> None:
    log = picture("0:a=1 P1(1:a=2) 2:P1:A 3:b=1", tmp_path)
    late = RULES.producer_id_expiration_ms
    assert drawn(cleaned(log, now_ms=late)) == "0:a=1 2:P1:A 3:b=1"


def test_a_record_without_a_key_beats_none(tmp_path: Path) -> None:
    assert drawn(cleaned(picture("0:=1 1:a=1 2:=2 3:b=1", tmp_path))) == "0.. 1:a=1 3:b=1"


def test_a_record_below_first_dirty_loses_only_to_one_at_or_above_it(tmp_path: Path) -> None:
    log = picture("0:a=1 1:b=1 2:a=2 | 3:b=2 4:c=1", tmp_path)
    assert drawn(cleaned(log, first_dirty=3)) == "0:a=1 2:a=2 3:b=2 4:c=1"


def test_duplicates_among_clean_records_stay(tmp_path: Path) -> None:
    log = picture("0:a=1 1:a=2 | 2:a=3 | 3:b=1", tmp_path)
    after = cleaned(log, first_dirty=3, rules=APART)
    assert after.segments == log.segments


def test_first_dirty_may_lie_inside_a_segment_and_inside_a_batch(tmp_path: Path) -> None:
    log = picture("[0:a=1 1:b=1 2:b=2 3:a=2 4:b=3 5:c=1]", tmp_path)
    # Of `b` all but the last lose to it; the clean ones among themselves would all have stayed.
    assert drawn(cleaned(log, first_dirty=3)) == "0-5:[3:a=2 4:b=3 5:c=1]"
    assert drawn(cleaned(log, first_dirty=5)) == "[0:a=1 1:b=1 2:b=2 3:a=2 4:b=3 5:c=1]"


def test_a_record_at_or_above_the_end_stays_and_beats_none(tmp_path: Path) -> None:
    log = picture("0:a=1 1:b=1 | 2:a=2 3:a=3 >", tmp_path)
    assert drawn(cleaned(log)) == "0:a=1 1:b=1 | 2:a=2 3:a=3 >"


def test_a_record_without_a_key_is_dropped_and_counted(tmp_path: Path) -> None:
    log = picture("[0:=1 1:= 2:a=1] 3:=4 4:b=1", tmp_path)
    for policy in ({"compact"}, {"compact", "delete"}):
        done = passed(log, rules=replace(RULES, cleanup_policy=frozenset(policy)))
        assert drawn(done.log) == "0-2:[2:a=1] 4:b=1"
        assert (done.counts.without_key, done.counts.kept) == (3, 2)


def test_a_tombstone_stays_for_the_retention_after_its_first_pass(tmp_path: Path) -> None:
    log = picture("0:a=1 1:b=2 | 2:a= 3:c=1", tmp_path)
    once = cleaned(log, now_ms=70)
    waiting = cleaned(once, now_ms=70 + RETENTION_MS - 1)
    gone = cleaned(waiting, now_ms=70 + RETENTION_MS)
    assert drawn(once) == "0.. 1:b=2 2:a=^1070 3:c=1"
    assert drawn(waiting) == "0.. 1:b=2 2:a=^1070 3:c=1"
    assert drawn(gone) == "0.. 1:b=2 3:c=1"


def test_a_horizon_is_set_once_and_for_the_whole_batch(tmp_path: Path) -> None:
    log = picture("[0:a= 1:b=1] [2:c=1 3:d=1]", tmp_path)
    once = cleaned(log, now_ms=5)
    assert drawn(once) == "[0:a= 1:b=1]^1005 [2:c=1 3:d=1]"
    twice = cleaned(once, now_ms=900)
    assert drawn(twice) == drawn(once)
    assert drawn(cleaned(twice, now_ms=1005)) == "0-1:[1:b=1]^1005 [2:c=1 3:d=1]"


def test_a_horizon_shared_with_an_older_tombstone_binds(tmp_path: Path) -> None:
    # Kafka keeps one horizon per batch, also once its first tombstone is gone.
    log = picture("[0:a= 1:b=]^100 2:c=1", tmp_path)
    assert drawn(cleaned(log, now_ms=99)) == "[0:a= 1:b=]^100 2:c=1"
    assert drawn(cleaned(log, now_ms=100)) == "0.. 2:c=1"


def test_a_horizon_that_a_broker_set_is_remembered(tmp_path: Path) -> None:
    log = picture("0:a=1 1:b=^500 | 2:c=1 | 3:d=1", tmp_path)
    after = cleaned(log, rules=APART)
    assert drawn(after) == drawn(log)
    assert [segment.earliest_due_ms for segment in after.segments] == [500, None, None]
    assert drawn(vacuumed(after, now_ms=500, rules=APART)) == "0:a=1 1:() | 2:c=1 | 3:d=1"


def test_a_tombstone_that_is_superseded_goes_at_once(tmp_path: Path) -> None:
    done = passed(picture("0:a=1 1:a= 2:a=2", tmp_path))
    assert drawn(done.log) == "0.. 2:a=2"
    assert (done.counts.superseded, done.counts.tombstones_expired) == (2, 0)


def test_a_tombstone_takes_the_older_values_of_its_key_along(tmp_path: Path) -> None:
    log = picture("0:a=1 | 1:a=2 | 2:a=^50 3:b=1", tmp_path)
    # Its own horizon has passed, and yet the values it covers do not come back.
    assert drawn(cleaned(log, now_ms=50)) == "0.. 3:b=1"


def test_an_expired_tombstone_still_beats_what_lies_below_first_dirty(tmp_path: Path) -> None:
    log = picture("0:a=1 | 1:a=^50 2:b=1", tmp_path)
    assert drawn(cleaned(log, now_ms=50, first_dirty=1)) == "0.. 2:b=1"


def test_a_tombstone_stays_in_a_forced_round_that_leaves_its_values_out(tmp_path: Path) -> None:
    # Nothing is clean, and a person begins at 3, again and again.
    log = picture("0:a=1 | 1:a=^50 2:b=1 | 3:b=^50 4:c=1", tmp_path)
    once = passed(log, now_ms=50, first_dirty=3, clean_until=0).log
    assert drawn(once) == "0:a=1 1:a=^50 3:b=^50 4:c=1"
    assert drawn(passed(once, now_ms=50, first_dirty=3, clean_until=0).log) == drawn(once)
    # The round that takes the stretch in lets both go.
    assert drawn(cleaned(once, now_ms=50)) == "0.. 4:c=1"


def test_what_came_in_is_kept_or_counts_under_the_first_reason(tmp_path: Path) -> None:
    log = picture(
        "P1([0:a=1 1:=2 2:b=]) 3:P1:A^5 4:=1 5:a=1 [6:a=2 7:c=]^5 8:=3 9:P2:C^5 10:d=1", tmp_path
    )
    counts = passed(log, now_ms=5).counts
    assert counts.adds_up
    assert counts.records_in == 11
    dropped = (counts.aborted, counts.without_key, counts.superseded, counts.tombstones_expired)
    assert dropped == (3, 2, 1, 1)
    assert (counts.markers_expired, counts.kept) == (1, 3)
