"""Which producers are still active, and what identifies them."""

from __future__ import annotations

import pytest

from tests.compaction.builders import a_producer
from tierfold.compaction.cleaning.record_retention import producer_pairs
from tierfold.compaction.model.producers import NO_DATA_OFFSET, ProducerEntry

NOW_MS = 10_000


def an_entry(
    producer_id: int, *, last: int = 8, last_ms: int = 0, open_from: int | None = None
) -> ProducerEntry:
    return a_producer(
        producer_id,
        open_from,
        epoch=producer_id + 100,
        last_data_offset=last,
        last_timestamp_ms=last_ms,
    )


def active(*entries: ProducerEntry) -> tuple[list[list[int]], list[list[int]]]:
    data, markers = producer_pairs(entries, now_ms=NOW_MS, expiration_ms=1000)
    assert data.shape[1] == markers.shape[1] == 2
    return data.tolist(), markers.tolist()


@pytest.mark.parametrize(
    ("silent_ms", "is_known"), [(999, True), (1000, False), (1001, False), (-5, True)]
)
def test_a_producer_is_forgotten_once_it_was_silent_for_the_expiration(
    silent_ms: int, *, is_known: bool
) -> None:
    data, _ = active(an_entry(1, last_ms=NOW_MS - silent_ms))
    assert data == ([[1, 8]] if is_known else [])


@pytest.mark.parametrize("open_from", [0, 3])
def test_a_producer_with_an_open_transaction_never_expires(open_from: int) -> None:
    data, _ = active(an_entry(1, last_ms=-(10**12), open_from=open_from))
    assert data == [[1, 8]]


def test_a_producer_without_data_is_known_by_its_epoch() -> None:
    first = an_entry(1, last=NO_DATA_OFFSET, last_ms=NOW_MS)
    assert active(first) == ([], [[1, 101]])
    # Offset 0 is data.
    assert active(an_entry(1, last=0, last_ms=NOW_MS)) == ([[1, 0]], [])


def test_producers_come_out_sorted_for_the_search() -> None:
    entries = [an_entry(p, last=p if p % 2 else -1, last_ms=NOW_MS) for p in (7, 2, 5, 4, 1)]
    assert active(*entries) == ([[1, 1], [5, 5], [7, 7]], [[2, 102], [4, 104]])
    assert active() == ([], [])
