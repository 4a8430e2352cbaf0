"""What is known of a segment besides its keys: what is due, its transactions, its counts."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.compaction.unread import some_facts, watched
from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.cleaning.transactions import TransactionBatches
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.compaction.skipping.segment_facts import WatchedBatches, joined_watched

MARKER = {"is_control": True, "control_type": 1}
EMPTIED = {"is_control": True, "control_type": -2, "has_records": False, "is_emptied": True}


@pytest.mark.parametrize(
    ("rows", "tombstones_ms", "expected"),
    [
        ([], None, None),
        ([], 0, 0),
        ([], -5, -5),
        ([MARKER], None, None),
        ([MARKER], 400, 400),
        ([MARKER | {"horizon_ms": 300}], None, 300),
        ([MARKER | {"horizon_ms": 0}], None, 0),
        ([MARKER | {"horizon_ms": 300}, MARKER | {"horizon_ms": 200}, MARKER], None, 200),
        ([MARKER | {"horizon_ms": 300}], 400, 300),
        ([MARKER | {"horizon_ms": 300}], 200, 200),
        # Only what a batch still holds can be due.
        ([EMPTIED | {"horizon_ms": 300}], None, None),
        ([{"horizon_ms": 300}], None, None),
    ],
)
def test_the_earliest_horizon_of_a_tombstone_or_a_marker_is_due(
    rows: list[dict[str, object]], tombstones_ms: int | None, expected: int | None
) -> None:
    found = some_facts(rows, tombstones_due_ms=tombstones_ms).due_ms
    assert found == expected
    assert found is None or type(found) is int


def test_its_counts_keep_everything() -> None:
    leader_change = MARKER | {"control_type": 2}
    facts = some_facts([MARKER, EMPTIED, {}, leader_change, MARKER], records=12, record_bytes=345)
    expected = Counts(
        records_in=12, kept=12, record_bytes_in=345, kept_bytes=345, kept_markers=2
    )
    assert facts.counts == expected
    assert facts.counts.adds_up


def test_transactional_and_control_batches_decide_transactions() -> None:
    rows = [
        {"base_offset": 1, "last_offset": 2, "producer_id": 3},
        {"base_offset": 4, "is_transactional": False, "has_records": False},
        MARKER | {"base_offset": 5, "last_offset": 6, "producer_id": 7},
        MARKER | {"base_offset": 8, "last_offset": 8, "is_transactional": False},
    ]
    found = watched(*rows).transaction_batches
    assert {one.name: getattr(found, one.name).tolist() for one in fields(TransactionBatches)} == {
        "base_offset": [1, 5, 8],
        "last_offset": [2, 6, 8],
        "producer_id": [3, 7, 1],
        "control_type": [-1, 1, 1],
    }


def test_pieces_are_joined_in_their_order() -> None:
    rows = [MARKER | {"base_offset": at, "horizon_ms": at} for at in range(5)]
    whole = watched(*rows)
    found = joined_watched([watched(*rows[:2]), watched(), watched(*rows[2:])])
    for column in fields(WatchedBatches):
        joined, expected = getattr(found, column.name), getattr(whole, column.name)
        assert (joined.dtype, joined.tolist()) == (expected.dtype, expected.tolist())
    assert (len(found), len(watched())) == (5, 0)
    assert watched({}).horizon_ms.tolist() == [NO_HORIZON]
