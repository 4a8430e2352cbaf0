"""Drawn logs: the latest record of a key stays (SEMANTICS 3); others stay or go as in 4."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.pictures.cleaning import APART, RULES, cleaned, passed, vacuumed
from tests.pictures.log_pictures import drawn, picture
from tests.pictures.scenarios import check, scenarios


@scenarios("""
Of every key the highest offset wins.
0:a=1 1:b=1 2:a=2 | 3:c=1 4:a=3 | 5:c=2 6:d=1
-> 0.. 1:b=1 4:a=3 5:c=2 6:d=1
or apart -> 0.. 1:b=1 ..2 | 3.. 4:a=3 | 5:c=2 6:d=1

Keys are compared as bytes, exactly.
0:a=1 1:A=1 2:aa=1 3:12345678x=1 4:12345678y=1 5:aa=2
-> 0:a=1 1:A=1 3:12345678x=1 4:12345678y=1 5:aa=2

The empty key is a key, and the empty value is no tombstone.
0:''=1 1:''=2 2:a='' 3:b=
-> 0.. 1:''=2 2:a='' 3:b=^1000

Control records take no part.
# All COMMIT markers have one key; none supersedes another.
0:L 1:P1:C 2:P2:C 3:L 4:a=1
-> 0:L 1:P1:C^1000 2:P2:C^1000 3:L 4:a=1

Aborted records take no part.
0:a=1 P1(1:a=2) 2:P1:A 3:b=1
now_ms=100000 -> 0:a=1 2:P1:A 3:b=1

A record without a key beats none.
0:=1 1:a=1 2:=2 3:b=1
-> 0.. 1:a=1 3:b=1

A record below the first dirty offset loses only to one at or above it.
0:a=1 1:b=1 2:a=2 | 3:b=2 4:c=1
first_dirty=3 -> 0:a=1 2:a=2 3:b=2 4:c=1

Duplicates among clean records stay.
0:a=1 1:a=2 | 2:a=3 | 3:b=1
apart first_dirty=3 -> unchanged

The first dirty offset may lie inside a segment and inside a batch.
# All values of `b` but the last lose to it; clean ones alone would all have stayed.
[0:a=1 1:b=1 2:b=2 3:a=2 4:b=3 5:c=1]
first_dirty=3 -> 0-5:[3:a=2 4:b=3 5:c=1]
or first_dirty=5 -> same

A record at or above the end stays and beats none.
0:a=1 1:b=1 | 2:a=2 3:a=3 >
-> same
""")
def test_which_record_of_a_key_stays(scenario: list[str], tmp_path: Path) -> None:
    check(scenario, tmp_path)


@scenarios("""
A tombstone stays for delete.retention.ms after its first pass.
0:a=1 1:b=2 | 2:a= 3:c=1
now_ms=70 -> 0.. 1:b=2 2:a=^1070 3:c=1
now_ms=1069 -> same
now_ms=1070 -> 0.. 1:b=2 3:c=1

A horizon is set once, and for the whole batch.
[0:a= 1:b=1] [2:c=1 3:d=1]
now_ms=5 -> [0:a= 1:b=1]^1005 [2:c=1 3:d=1]
now_ms=900 -> same
now_ms=1005 -> 0-1:[1:b=1]^1005 [2:c=1 3:d=1]

A horizon shared with an older tombstone binds.
# Kafka keeps one horizon per batch, also after the batch's first tombstone is gone.
[0:a= 1:b=]^100 2:c=1
now_ms=99 -> same
or now_ms=100 -> 0.. 2:c=1

A tombstone takes the older values of its key along.
# Its own horizon has passed, but the values below it do not come back.
0:a=1 | 1:a=2 | 2:a=^50 3:b=1
now_ms=50 -> 0.. 3:b=1

An expired tombstone still beats records below the first dirty offset.
0:a=1 | 1:a=^50 2:b=1
now_ms=50 first_dirty=1 -> 0.. 2:b=1

A tombstone stays in a forced round that leaves its values out.
# Nothing is clean, and a person starts at 3 twice. A round over all of it lets both go.
0:a=1 | 1:a=^50 2:b=1 | 3:b=^50 4:c=1
now_ms=50 first_dirty=3 clean_until=0 -> 0:a=1 1:a=^50 3:b=^50 4:c=1
now_ms=50 first_dirty=3 clean_until=0 -> same
now_ms=50 -> 0.. 4:c=1
""")
def test_when_a_tombstone_goes(scenario: list[str], tmp_path: Path) -> None:
    check(scenario, tmp_path)


def test_a_record_without_a_key_is_dropped_and_counted(tmp_path: Path) -> None:
    log = picture("[0:=1 1:= 2:a=1] 3:=4 4:b=1", tmp_path)
    for policy in ({"compact"}, {"compact", "delete"}):
        done = passed(log, rules=replace(RULES, cleanup_policy=frozenset(policy)))
        assert drawn(done.log) == "0-2:[2:a=1] 4:b=1"
        assert (done.counts.without_key, done.counts.kept) == (3, 2)


def test_a_horizon_that_a_broker_set_is_kept(tmp_path: Path) -> None:
    log = picture("0:a=1 1:b=^500 | 2:c=1 | 3:d=1", tmp_path)
    after = cleaned(log, rules=APART)
    assert drawn(after) == drawn(log)
    assert [segment.earliest_due_ms for segment in after.segments] == [500, None, None]
    assert drawn(vacuumed(after, now_ms=500, rules=APART)) == "0:a=1 ..1 | 2:c=1 | 3:d=1"


def test_a_superseded_tombstone_goes_at_once(tmp_path: Path) -> None:
    done = passed(picture("0:a=1 1:a= 2:a=2", tmp_path))
    assert drawn(done.log) == "0.. 2:a=2"
    assert (done.counts.superseded, done.counts.tombstones_expired) == (2, 0)


def test_every_record_is_kept_or_counts_under_the_first_reason(tmp_path: Path) -> None:
    log = picture(
        "P1([0:a=1 1:=2 2:b=]) 3:P1:A^5 4:=1 5:a=1 [6:a=2 7:c=]^5 8:=3 9:P2:C^5 10:d=1", tmp_path
    )
    counts = passed(log, now_ms=5).counts
    assert counts.adds_up
    assert counts.records_in == 11
    dropped = (counts.aborted, counts.without_key, counts.superseded, counts.tombstones_expired)
    assert dropped == (3, 2, 1, 1)
    assert (counts.markers_expired, counts.kept) == (1, 3)
