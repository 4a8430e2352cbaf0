"""Which transactions without a marker stop a round, and where a chunk's are decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tests.compaction.builders import a_producer
from tests.storage.live_segments import an_abort
from tierfold.compaction.cleaning.transactions import (
    OpenTransaction,
    TransactionStatus,
    transactions_end,
    unexplained_transaction,
    with_unindexed,
)
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.producers import ProducerEntry


def status(
    *undecided: tuple[int, int], unindexed: Sequence[AbortedTransaction] = ()
) -> TransactionStatus:
    """`undecided`: (producer id, first offset) of each transaction without a marker."""
    return TransactionStatus(
        discardable=np.empty(0, np.int64),
        listed=(),
        unindexed=tuple(unindexed),
        undecided=tuple(
            OpenTransaction(producer_id=producer_id, first_offset=first_offset)
            for producer_id, first_offset in undecided
        ),
    )


OPEN, IDLE = a_producer(1, 5), a_producer(1, None)


@pytest.mark.parametrize(
    ("producers", "first_offset", "stops"),
    [
        pytest.param([OPEN], 5, False, id="the snapshot calls it open"),
        pytest.param([OPEN, a_producer(2, None)], 5, False, id="one of several is open"),
        pytest.param([a_producer(1, 0)], 0, False, id="it is open from offset 0 on"),
        pytest.param([IDLE], 5, True, id="the snapshot knows the producer, and nothing open"),
        pytest.param([], 5, True, id="the snapshot does not know the producer"),
        pytest.param([a_producer(2, 5)], 5, True, id="only another producer's is open"),
        pytest.param([IDLE], 9, True, id="it begins at the round's last offset"),
        pytest.param([IDLE], 10, False, id="it begins where the round ends"),
        pytest.param([IDLE], 11, False, id="it begins beyond the round"),
    ],
)
def test_a_transaction_without_a_marker_stops_the_round_unless_it_is_open(
    producers: list[ProducerEntry], first_offset: int, stops: bool
) -> None:
    found = unexplained_transaction(status((1, first_offset)), producers, 10)
    assert bool(found) == stops
    if stops:
        assert f"the transaction of producer 1 from offset {first_offset} on has no marker" in found
        assert "nothing was committed" in found


def test_one_unexplained_transaction_among_explained_ones_is_found() -> None:
    found = unexplained_transaction(status((1, 5), (2, 20), (3, 6)), [OPEN], 10)
    assert "producer 3 from offset 6" in found
    assert unexplained_transaction(status(), [], 10) == ""


def test_aborts_without_an_index_join_the_others_by_their_markers() -> None:
    indexed = (an_abort(1, 30, 40), an_abort(1, 0, 10))
    found = with_unindexed(indexed, status(unindexed=[an_abort(2, 5, 20)]))
    assert found == (an_abort(1, 0, 10), an_abort(2, 5, 20), an_abort(1, 30, 40))
    assert with_unindexed((), status()) == ()


@pytest.mark.parametrize(
    ("snapshots", "expected"),
    [
        pytest.param([(10, []), (20, [])], 10, id="nothing is open at the chunk's end"),
        pytest.param([(10, [IDLE]), (20, [])], 10, id="the producers there are idle"),
        pytest.param([(10, [OPEN]), (20, [IDLE]), (30, [])], 20, id="a later segment decides it"),
        pytest.param([(10, [OPEN, IDLE]), (20, [])], 20, id="one of two is open"),
        pytest.param([(15, [a_producer(1, 9)]), (20, [])], 20, id="open from the last offset on"),
        pytest.param([(15, [a_producer(1, 10)]), (20, [])], 15, id="open from the next offset on"),
        pytest.param([(10, [a_producer(1, 0)]), (20, [])], 20, id="open from offset 0 on"),
        pytest.param([(10, [OPEN]), (20, [OPEN])], None, id="no snapshot in view decides it"),
        pytest.param([], None, id="there is no snapshot"),
    ],
)
def test_a_chunks_transactions_are_decided_where_none_of_them_is_open(
    snapshots: list[tuple[int, list[ProducerEntry]]], expected: int | None
) -> None:
    assert transactions_end(10, snapshots) == expected


def test_no_snapshot_is_read_beyond_the_one_that_decides() -> None:
    def snapshots() -> Iterator[tuple[int, Sequence[ProducerEntry]]]:
        yield 10, [OPEN]
        yield 20, []
        raise AssertionError("read too far")

    assert transactions_end(10, snapshots()) == 20
