"""Drawn logs: transactions, idempotent producers and the log's end are right (SEMANTICS 5).

All producers of a drawn log have expired at 100000; a marker whose horizon is set then goes at
101000. Where producers are alive, they keep their last batch, emptied.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.pictures.cleaning import APART, RULES, cleaned, passed
from tests.pictures.log_pictures import batches_of, drawn, listed, picture
from tests.pictures.scenarios import check, scenarios
from tierfold.compaction.cleaning import rounds
from tierfold.compaction.model.units import NO_TIMESTAMP_MS

LATE_MS = RULES.producer_id_expiration_ms


@scenarios("""
An aborted record does not beat an older committed one.
P1(0:a=1) 1:P1:C | P2(2:a=2) 3:P2:A 4:b=1
now_ms=100000 -> P1(0:a=1) 1:P1:C 3:P2:A 4:b=1

Of interleaved transactions only the aborted one goes.
P1(0:a=1) P2(1:b=1) P1(2:c=1) 3:P2:A P2(4:d=1) 5:P1:C 6:P2:C
now_ms=100000 -> P1(0:a=1) P1(2:c=1) 3:P2:A P2(4:d=1) 5:P1:C 6:P2:C

A marker beyond the round decides a transaction within it.
P1(0:a=1) 1:b=1 | 2:P1:A 3:c=1 >
now_ms=100000 -> 0.. 1:b=1 | 2:P1:A 3:c=1 >

A COMMIT marker goes when a round met no batch of its transaction and its horizon has passed.
# The first round still meets the data.
P1(0:a=1) 1:P1:C 2:a=2
now_ms=100000 -> 0.. 1:P1:C 2:a=2
now_ms=100000 -> 0.. 1:P1:C^101000 2:a=2
now_ms=100999 -> same
now_ms=101000 -> 0.. 2:a=2

An ABORT marker and its index entry go in step.
P1(0:a=1) 1:P1:A 2:b=1
now_ms=100000 -> 0.. 1:P1:A 2:b=1 ; P1:0-1
now_ms=100000 -> 0.. 1:P1:A^101000 2:b=1 ;
now_ms=101000 -> 0.. 2:b=1 ;

A COMMIT marker stays while one of its records stays.
P1([0:a=1 1:b=1]) 2:P1:C 3:a=2
now_ms=100000 -> P1(0-1:[1:b=1]) 2:P1:C 3:a=2
now_ms=1000000 -> same

The index of the segment that holds the marker lists the transaction.
P1(0:a=1) 1:b=1 | P2(2:c=1) 3:P1:A | 4:P2:A 5:d=1 ; | P1:0-3 | P2:2-4
now_ms=100000 apart -> 0.. 1:b=1 | 2.. 3:P1:A | 4:P2:A 5:d=1 ; | P1:0-3 | P2:2-4
or now_ms=100000 -> 0.. 1:b=1 3:P1:A 4:P2:A 5:d=1 ; P1:0-3 P2:2-4

A control batch that is already emptied may go.
0:P1:() 1:a=1
now_ms=100000 -> 0.. 1:a=1

Other control records stay.
0:L 1:a=1 2:a=2
now_ms=100000 -> 0:L 2:a=2
now_ms=1000000 -> same
""")
def test_transactions_and_markers(scenario: list[str], tmp_path: Path) -> None:
    check(scenario, tmp_path)


@scenarios("""
The batch with an active producer's last data stays, emptied.
p1([0:a=1 1:b=1]) p1([2:a=2 3:b=2]) 4:a=3 5:b=3
-> 0.. p1(2-3:()) 4:a=3 5:b=3
-> same

An expired producer's last batch goes.
p1(0:a=1) 1:a=2
now_ms=99999 -> p1(0:()) 1:a=2
or now_ms=100000 -> 0.. 1:a=2

An emptied batch goes once its producer has expired.
p1(0:a=1) 1:a=2
-> p1(0:()) 1:a=2
now_ms=100000 -> 0.. 1:a=2

A producer keeps only its newest data, here beyond the round.
p1(0:a=1) 1:a=2 | P1(2:b=1) >
now_ms=100000 -> 0.. 1:a=2 | P1(2:b=1) >

A producer with an open transaction never expires.
P1(0:a=1) 1:a=2
now_ms=100000 -> P1(0:()) 1:a=2

An active producer's last aborted batch stays, emptied and listed.
# Marker and entry stay as long as a round meets the batch, or a reader would take it as committed.
P1(0:a=1) P1(1:b=1) 2:P1:A 3:c=1
-> 0.. P1(1:()) 2:P1:A 3:c=1 ; P1:0-2
now_ms=5000 -> same ; P1:0-2
now_ms=100000 -> 0.. 2:P1:A 3:c=1 ; P1:0-2
now_ms=100000 -> 0.. 2:P1:A^101000 3:c=1 ;

Without data every marker of a producer's current epoch stays.
0:P1.2:C^5 1:P1.3:C^5 2:P1.3:A^5 3:a=1
now_ms=5 -> 0.. 1:P1.3:() 2:P1.3:() 3:a=1
or now_ms=100000 -> 0.. 3:a=1
""")
def test_producers(scenario: list[str], tmp_path: Path) -> None:
    check(scenario, tmp_path)


@scenarios("""
The last batch of the log stays, emptied.
0:a=1 1:a=2 [2:=1 3:=2]
-> 0.. 1:a=2 2-3:()
-> same

The last batch of a round that ends earlier goes.
0:a=1 1:=1 | 2:=2 >
-> 0:a=1 ..1 | 2:=2 >
-> unchanged

The last batch of the log goes once the log goes on.
0:a=1 1:=1
-> 0:a=1 1:()
+ 2:b=1
-> 0:a=1 2:b=1

What an earlier run left goes, although the round ends there.
0:a=1 1:() | 2:=2 >
-> 0:a=1 ..1 | 2:=2 >

A round that ends in an aborted transaction in mid-log leaves nothing of it.
# The marker lies beyond the round.
0:a=1 P1(1:b=1) | 2:P1:A 3:c=1 >
now_ms=100000 -> 0:a=1 ..1 | 2:P1:A 3:c=1 >
now_ms=100000 whole -> 0:a=1 2:P1:A^101000 3:c=1 ;
now_ms=101000 whole -> 0:a=1 3:c=1 ;

A round that ends in the marker of an aborted transaction in mid-log leaves nothing of it.
0:a=1 P1(1:b=1) 2:P1:A | 3:c=1 >
now_ms=100000 -> 0:a=1 2:P1:A | 3:c=1 > ; P1:1-2 |
now_ms=100000 -> 0:a=1 2:P1:A^101000 | 3:c=1 > ; |
now_ms=101000 -> 0:a=1 ..2 | 3:c=1 > ; |

The log ends in an aborted transaction: its marker stays, emptied, until the log goes on.
0:a=1 P1(1:b=1) 2:P1:A
now_ms=100000 -> 0:a=1 2:P1:A ; P1:1-2
now_ms=100000 -> 0:a=1 2:P1:A^101000 ;
now_ms=101000 -> 0:a=1 2:P1:() ;
now_ms=101000 -> unchanged
+ 3:c=1
now_ms=101000 -> 0:a=1 3:c=1 ;

Where the remote range ends in a hole, an empty batch closes it.
e4 0:a=1 1:b=1 ..5
-> e4 0:a=1 1:b=1 5:()
-> unchanged

A hole within the remote range stays a hole.
0:a=1 1:b=1 ..5 | 6:c=1 >
-> unchanged

A closing batch lies behind an emptied one.
0:a=1 p1(1:a=2) 2:a=3 ..5
-> 0.. p1(1:()) 2:a=3 5:()
""")
def test_the_end_of_a_round_and_of_the_log(scenario: list[str], tmp_path: Path) -> None:
    check(scenario, tmp_path)


def test_records_of_aborted_transactions_go_at_once_whatever_their_key(tmp_path: Path) -> None:
    log = picture("P1([0:a=1 1:=2 2:b=]) 3:P1:A 4:c=1", tmp_path)
    done = passed(log, now_ms=LATE_MS)
    assert drawn(done.log) == "0.. 3:P1:A 4:c=1"
    assert (done.counts.aborted, done.counts.without_key) == (3, 0)


def test_a_segment_of_which_nothing_goes_is_rewritten_for_its_index(tmp_path: Path) -> None:
    # An earlier round removed the data. Only the entry is left, which no reader needs.
    log = picture("0:c=1 | P1(1:a=1) 2:P1:A^99999999 3:b=1", tmp_path)
    once = cleaned(log, now_ms=LATE_MS, rules=APART)
    assert (drawn(once), listed(once)) == ("0:c=1 | 1.. 2:P1:A^99999999 3:b=1", " | P1:1-2")
    twice = cleaned(once, now_ms=LATE_MS, rules=APART)
    assert (drawn(twice), listed(twice)) == (drawn(once), " | ")
    assert twice.segments[0] == once.segments[0]


def test_an_abort_marker_without_an_entry_is_trusted(tmp_path: Path) -> None:
    log = picture("0:a=1 P1([1:a=2 2:c=1]) | 3:P1:A? 4:b=1", tmp_path)
    done = passed(log, now_ms=LATE_MS)
    (unindexed,) = done.unindexed
    assert (unindexed.producer_id, unindexed.first_offset, unindexed.last_offset) == (1, 1, 3)
    assert drawn(done.log) == "0:a=1 3:P1:A 4:b=1"
    assert listed(done.log) == "P1:1-3"
    assert listed(log) == " | "


def test_a_marker_that_the_index_lists_is_not_unindexed(tmp_path: Path) -> None:
    log = picture("P1(0:a=1) 1:P1:A 2:P1:A 3:b=1", tmp_path)
    assert passed(log, now_ms=LATE_MS).unindexed == ()


def test_an_emptied_batch_keeps_its_producer_and_its_largest_timestamp(tmp_path: Path) -> None:
    log = cleaned(picture("P7.3([0:a=1 1:b=1]) 2:P7.3:C | 3:a=3 4:b=3", tmp_path))
    emptied = batches_of(log, log.segments[0])[0]
    assert drawn(log) == "P7.3(0-1:()) 2:P7.3:C 3:a=3 4:b=3"
    assert (emptied.size_bytes, emptied.codec) == (61, "none")
    assert emptied.base_timestamp_ms == NO_TIMESTAMP_MS
    assert (emptied.max_timestamp_ms, emptied.base_sequence) == (0, 0)


@pytest.mark.parametrize(
    ("remote_end", "found"),
    [
        pytest.param(2, "0:a=1 1:() | 2:=2 >", id="a batch is kept in mid-log"),
        pytest.param(-1, "0:a=1 1:b=1 ..2", id="a batch is dropped at the end of the log"),
    ],
)
def test_a_planted_bug_in_the_rule_of_the_end_is_drawn(
    remote_end: int, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mid_log = "0:a=1 1:=1 | 2:=2 >"
    log = picture(mid_log if remote_end > 0 else "0:a=1 1:b=1 2:=2", tmp_path)
    sound = rounds.round_rules
    monkeypatch.setattr(
        rounds, "round_rules", lambda work: replace(sound(work), remote_end=remote_end)
    )
    assert drawn(cleaned(log)) == found
