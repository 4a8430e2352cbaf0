"""A segment is left unread only if a rewrite would find nothing to change in it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.pictures.batch_words import draft_of
from tests.scratch import SCRATCH
from tests.storage.judged_segments import (
    ARound,
    facts_of,
    is_left_unread,
    rewritten,
    segment_of,
)
from tests.storage.live_segments import a_tier, an_abort, put_segment
from tierfold.compaction.commits.receipts import GroupResult
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.drop_limits import DropLimits
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage

Case = tuple[str, dict[str, Any], dict[str, Any]]
"""The words of a segment, fields of its row, and fields of the round."""

SEEN_UNTIL_399: Final = DropLimits(now_ms=500, seen_until_ms=399)

STAYS: Final[dict[str, Case]] = {
    "values": ("10:a=1 11:b=1", {}, {}),
    "a passed horizon without a tombstone": ("10:a=1^400", {}, {}),
    "a transaction's horizon without a tombstone": ("P1(10:a=1^900)", {}, {}),
    "a horizon that passes a millisecond later": ("10:a=1", {"earliest_due_ms": 501}, {}),
    "a tombstone that is not yet due": ("10:a=^501", {"earliest_due_ms": 501}, {}),
    "a tombstone whose pass consumers have not seen for long": (
        "10:a=^400",
        {"earliest_due_ms": 400},
        {"served": SEEN_UNTIL_399},
    ),
    "a marker whose pass consumers have not seen for long": (
        "10:P1:C^400",
        {"earliest_due_ms": 400},
        {"served": SEEN_UNTIL_399, "discardable": (10,)},
    ),
    "a tombstone whose offset brokers may have had locally": (
        "10:a=^400",
        {"earliest_due_ms": 400},
        {"served": DropLimits(now_ms=500, seen_below=10)},
    ),
    "another transaction is listed": ("10:a=1", {}, {"listed": (an_abort(1, 3, 9),)}),
    "a later one is listed": ("10:a=1", {}, {"listed": (an_abort(1, 3, 11),)}),
    "a hole, the log goes on": ("10:a=1", {"end_offset": 12}, {"remote_end": 14}),
    "a batch at the end": ("10:a=1", {}, {"remote_end": 11}),
    "several batches at the end": ("10:a=1 11:b=1", {}, {"remote_end": 12}),
    "a hole at the head": ("10:a=1", {"start_offset": 8}, {}),
    "a committed transaction": ("P1(10:a=1) 11:P1:C", {}, {}),
    "another producer's abort": ("P1(10:a=1)", {}, {"aborted": (an_abort(2, 10, 30),)}),
    "an abort before": ("P1(10:a=1)", {}, {"aborted": (an_abort(1, 5, 9),)}),
    "an abort behind": ("P1([10:a=1 11:b=1])", {}, {"aborted": (an_abort(1, 12, 30),)}),
    "an idempotent producer's abort": ("p1(10:a=1)", {}, {"aborted": (an_abort(1, 5, 30),)}),
    "the abort's marker": ("10:P1:A", {}, {"aborted": (an_abort(1, 5, 10),)}),
    "a marker whose transaction has data": ("10:P1:C^400", {"earliest_due_ms": 600}, {}),
    "a marker not yet due": (
        "10:P1:C^501",
        {"earliest_due_ms": 501},
        {"discardable": (10,)},
    ),
    "another marker may go": (
        "10:P1:C 12:P1:C^700",
        {"earliest_due_ms": 700},
        {"discardable": (12,)},
    ),
    "a horizon that no clock reaches": (
        "10:P1:C",
        {},
        {"discardable": (10,), "delete_retention_ms": 2**63 - 400},
    ),
    "an ordinary batch at a discardable offset": ("p1(10:a=1)", {}, {"discardable": (10,)}),
    "a leader change": ("10:L", {}, {}),
    "a producer's last batch": ("p1(10-12:())", {}, {"data": ((1, 12), (2, 10))}),
    "a producer's last batch of a transaction": ("P1(10:())", {}, {"data": ((1, 10),)}),
    "a producer's last marker": ("10:P1.3:()", {}, {"epochs": ((1, 3),), "discardable": (10,)}),
    "the batch at the end of the log": ("10:()", {}, {"remote_end": 11}),
    "a transaction with an empty batch": ("P1(10:()) P1(11:a=1)", {}, {"data": ((1, 10),)}),
}

CHANGES: Final[dict[str, Case]] = {
    "a horizon of the catalog passes": ("10:a=1", {"earliest_due_ms": 500}, {}),
    "a tombstone whose pass consumers have seen for long": (
        "10:a=^400",
        {"earliest_due_ms": 400},
        {"served": DropLimits(now_ms=500, seen_until_ms=400)},
    ),
    "a tombstone's horizon is new to the catalog": ("10:a=^900", {}, {}),
    "a marker's horizon is new to the catalog": ("10:P1:C^900", {}, {}),
    "a second marker's horizon is": ("10:P1:C 11:P1:C^900", {}, {}),
    "a tombstone gets a horizon": ("10:a=", {"earliest_due_ms": 900}, {}),
    "one of two tombstones gets a horizon": (
        "10:a=^900 [11:b=1 12:c=]",
        {"earliest_due_ms": 900},
        {},
    ),
    "a tombstone is due": ("10:a=^500", {"earliest_due_ms": 600}, {}),
    "one of two tombstones is due": ("10:a=^900 11:b=^400", {"earliest_due_ms": 600}, {}),
    "a tombstone in a committed transaction is due": (
        "P1(10:a=^400)",
        {"earliest_due_ms": 600},
        {},
    ),
    "an aborted transaction is listed": ("10:a=1", {}, {"listed": (an_abort(1, 3, 10),)}),
    "one is listed at its end": ("10:a=1 11:b=1", {}, {"listed": (an_abort(1, 3, 11),)}),
    "a hole at the end of the log": (
        "10:a=1",
        {"end_offset": 12},
        {"remote_end": 13},
    ),
    "aborted data": ("P1(10:a=1)", {}, {"aborted": (an_abort(1, 10, 30),)}),
    "aborted data, an earlier first offset": ("P1(10:a=1)", {}, {"aborted": (an_abort(1, 2, 30),)}),
    "aborted data, its marker beside it": (
        "P1(10:a=1) 11:P1:A",
        {},
        {"aborted": (an_abort(1, 10, 11),)},
    ),
    "aborted data in the second batch": (
        "P2(10:a=1) P1(11:a=1)",
        {},
        {"aborted": (an_abort(1, 11, 30),)},
    ),
    "a batch whose end is aborted": (
        "P1([10:a=1 11:b=1])",
        {},
        {"aborted": (an_abort(1, 11, 30),)},
    ),
    "a marker gets a horizon": (
        "10:P1:C",
        {"earliest_due_ms": 600},
        {"discardable": (10,)},
    ),
    "one of two markers gets a horizon": (
        "10:P1:C 11:P1:C^900",
        {"earliest_due_ms": 900},
        {"discardable": (10, 11)},
    ),
    "a marker is due": ("10:P1:C^500", {"earliest_due_ms": 600}, {"discardable": (10,)}),
    "an ABORT marker is due": ("10:P1:A^400", {"earliest_due_ms": 600}, {"discardable": (10,)}),
    "one of two markers is due": (
        "10:P1:C^400 11:P1:C^900",
        {"earliest_due_ms": 900},
        {"discardable": (10, 11)},
    ),
    "an empty batch": ("10:() 11:a=1", {}, {}),
    "an empty batch of a producer that is gone": ("p1(10:())", {}, {"data": ((2, 10),)}),
    "an empty batch of a producer that went on": ("p1(10-12:())", {}, {"data": ((1, 13),)}),
    "an empty batch of a producer that began later": ("p1(10-12:())", {}, {"data": ((1, 10),)}),
    "an empty batch of data in an epoch": ("p1.3(10:())", {}, {"epochs": ((1, 3),)}),
    "an emptied marker": ("10:P1:()", {}, {}),
    "an emptied marker that may go": ("10:P1:()", {}, {"discardable": (10,)}),
    "an emptied marker of an earlier epoch": ("10:P1.2:()", {}, {"epochs": ((1, 3),)}),
    "an emptied marker of another producer": ("10:P1.3:()", {}, {"epochs": ((2, 3),)}),
    "a producer's last batch, emptied otherwise": ("p1(10:())!", {}, {"data": ((1, 10),)}),
    "an empty batch, the log goes on": ("10:()", {}, {"remote_end": 12}),
    "the batch at the end of the log, emptied otherwise": ("10:()!", {}, {"remote_end": 11}),
    "an empty batch before the log's end": ("10:() 11:()", {}, {"remote_end": 12}),
}


CAUTIOUS: Final[dict[str, Case]] = {
    "a transaction index that stays": (
        "10:a=1",
        {"indexed": (an_abort(1, 3, 10),)},
        {"listed": (an_abort(1, 3, 10),)},
    ),
    "a due tombstone in a round that keeps them": (
        "10:a=^400",
        {"earliest_due_ms": 600},
        {"keeps_tombstones": True},
    ),
    "a tombstone whose horizon no clock reaches": (
        "10:a=",
        {},
        {"delete_retention_ms": 2**63 - 400},
    ),
}
"""What the facts do not decide: the rewrite finds that nothing changes."""


def made(tier: LocalTieredStorage, case: Case) -> tuple[Segment, ARound]:
    words, fields, of_round = case
    # Between brackets a space parts records.
    return segment_of(tier, re.split(r" (?![^\[]*\])", words), **fields), ARound(**of_round)


@pytest.mark.parametrize("case", STAYS.values(), ids=STAYS)
def test_it_is_left_unread(case: Case, tier: LocalTieredStorage) -> None:
    segment, of_round = made(tier, case)
    assert is_left_unread(tier, segment, of_round)
    receipt = rewritten(tier, segment, of_round)
    assert receipt.result is GroupResult.UNCHANGED
    assert receipt.counts == facts_of(tier, segment).counts


@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_it_is_read_because_it_changes(case: Case, tier: LocalTieredStorage) -> None:
    segment, of_round = made(tier, case)
    assert not is_left_unread(tier, segment, of_round)
    assert rewritten(tier, segment, of_round).result is not GroupResult.UNCHANGED


@pytest.mark.parametrize("case", CAUTIOUS.values(), ids=CAUTIOUS)
def test_it_is_read_if_in_doubt(case: Case, tier: LocalTieredStorage) -> None:
    segment, of_round = made(tier, case)
    assert not is_left_unread(tier, segment, of_round)
    assert rewritten(tier, segment, of_round).result is GroupResult.UNCHANGED


def test_a_transaction_index_that_lists_another_one_has_it_read(tier: LocalTieredStorage) -> None:
    segment = segment_of(tier, ["10:a=1"], indexed=(an_abort(1, 3, 10),))
    assert not is_left_unread(tier, segment, ARound())
    assert rewritten(tier, segment, ARound()).result is GroupResult.WRITTEN


@pytest.mark.parametrize("fields", [{"start_offset": 11}, {"end_offset": 10}])
def test_batches_outside_its_range_have_it_read(
    fields: dict[str, int], tier: LocalTieredStorage
) -> None:
    words = ["10:a=1", "11:b=1"]
    whole = segment_of(tier, words)
    assert is_left_unread(tier, whole, ARound())
    # Its log begins at offset 10 all the same.
    skipped = fields.get("start_offset", 10) - 10
    segment = replace(whole, **fields, skipped_offsets=skipped)
    assert not is_left_unread(tier, segment, ARound())
    with pytest.raises(CorruptLog, match="the batches have offsets 10 to 11"):
        rewritten(tier, segment, ARound())


def test_a_control_record_without_a_value_waits_as_a_tombstone_does(
    tier: LocalTieredStorage,
) -> None:
    # No broker writes one, but `decide_retention` gives it a horizon, as Kafka's `filterTo` does.
    marker = draft_of("10:P1:C", 0)
    nulled = replace(marker, records=(replace(marker.records[0], value=None),))
    segment = put_segment(tier, [nulled], offsets=(10, 10))
    assert rewritten(tier, segment, ARound()).result is GroupResult.WRITTEN
    assert not is_left_unread(tier, segment, ARound())


@st.composite
def words(draw: st.DrawFn) -> list[str]:
    """Up to four batches, from offset 10 on."""
    found: list[str] = []
    at = 10
    for _ in range(draw(st.integers(1, 4))):
        at += draw(st.sampled_from([0, 0, 0, 1]))
        length = draw(st.integers(1, 2))
        horizon = draw(st.sampled_from(["", "", "^400", "^600"]))
        who = f"{draw(st.integers(1, 2))}{draw(st.sampled_from(['', '.1']))}"
        kind = draw(st.sampled_from("dddpPPcceeL"))
        if kind == "L":
            found.append(f"{at}:L")
            length = 1
        elif kind == "c":
            what = draw(st.sampled_from(["C", "A", "()"]))
            found.append(f"{at}:P{who}:{what}{horizon if what != '()' else ''}")
            length = 1
        elif kind == "e":
            empty = f"{at}-{at + length - 1}:()"
            by = draw(st.sampled_from(["{}", "p{}", "P{}"])).format(who)
            is_odd = draw(st.sampled_from(["", "", "!"]))
            found.append((empty if by == who else f"{by}({empty})") + is_odd)
        else:
            values = [draw(st.sampled_from(["1", "1", ""])) for _ in range(length)]
            inside = " ".join(f"{at + i}:k{i}={value}" for i, value in enumerate(values))
            body = f"[{inside}]{horizon}"
            found.append(body if kind == "d" else f"{kind}{who}({body})")
        at += length
    return found


offsets = st.integers(8, 18)
aborts = st.builds(an_abort, st.integers(1, 2), offsets, offsets).filter(
    lambda one: one.first_offset <= one.last_offset
)


def limits_at(now_ms: int) -> st.SearchStrategy[DropLimits]:
    """What consumers have seen of a served row."""
    return st.builds(
        DropLimits,
        now_ms=st.just(now_ms),
        seen_until_ms=st.sampled_from([399, 400, 600]),
        seen_below=st.sampled_from([0, 1005, 3000]),
    )


@st.composite
def rounds(draw: st.DrawFn, segment: Segment) -> ARound:
    """A round in which the segment is a source."""
    one_each = st.lists(aborts, max_size=2, unique_by=lambda one: one.producer_id)
    aborted = tuple(draw(one_each))
    pairs = st.lists(st.tuples(st.integers(1, 2), offsets), max_size=2, unique_by=lambda p: p[0])
    epochs = st.lists(
        st.tuples(st.integers(1, 2), st.integers(0, 1)), max_size=2, unique_by=lambda p: p[0]
    )
    now_ms = draw(st.sampled_from([399, 400, 500, 600]))
    return ARound(
        now_ms=now_ms,
        remote_end=draw(st.sampled_from([segment.next_offset, segment.next_offset, 2001])),
        data=tuple(draw(pairs)),
        epochs=tuple(draw(epochs)),
        aborted=aborted,
        discardable=tuple(draw(st.sets(offsets, max_size=6))),
        listed=tuple(one for one in aborted if draw(st.booleans())),
        keeps_tombstones=draw(st.booleans()),
        served=draw(st.none() | limits_at(now_ms)),
    )


@settings(max_examples=5 * settings().max_examples)
@given(st.data())
def test_whatever_is_left_unread_would_not_change(data: st.DataObject) -> None:
    drawn = data.draw(words())
    with TemporaryDirectory(dir=SCRATCH) as folder:
        tier = a_tier(Path(folder))
        segment = segment_of(
            tier,
            drawn,
            earliest_due_ms=data.draw(st.sampled_from([None, 400, 600])),
        )
        segment = replace(segment, end_offset=segment.end_offset + data.draw(st.integers(0, 1)))
        of_round = data.draw(rounds(segment))
        if is_left_unread(tier, segment, of_round):
            event("it is left unread")
            receipt = rewritten(tier, segment, of_round)
            assert receipt.result is GroupResult.UNCHANGED
            assert receipt.counts == facts_of(tier, segment).counts
