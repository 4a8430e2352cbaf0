"""Which batches a rewrite need not read, against the rules for records and batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.cleaning.batch_outline import (
    BYTES_ALWAYS,
    ENTRY_BYTES,
    BatchOutline,
    deserialize_outline,
    is_worth_sending,
    joined_outlines,
    serialize_outline,
    surely_dropped,
)
from tierfold.compaction.cleaning.record_retention import (
    BatchColumns,
    BatchRetention,
    RecordFacts,
    RoundRules,
    decide_retention,
)
from tierfold.compaction.model.units import NO_HORIZON, NO_PRODUCER_ID

PRODUCER = 5


def an_outline(*records: int, first_offset: int = 0, gap: int = 0) -> BatchOutline:
    """Batches of so many records; `gap` offsets lie behind the records of each."""
    ends = np.cumsum(np.array(records, np.int64) + gap)
    return BatchOutline(
        size_bytes=np.arange(100, 100 + len(records), dtype=np.int32),
        records=np.array(records, np.int32),
        last_offset=first_offset + ends - 1,
        first_offset=first_offset,
        record_bytes=10 * sum(records),
    )


def rules(remote_end: int, *last_data: tuple[int, int]) -> RoundRules:
    return RoundRules(
        now_ms=100,
        delete_retention_ms=10,
        remote_end=remote_end,
        last_data_offsets=np.array(sorted(last_data), np.int64).reshape(-1, 2),
        marker_epochs=np.empty((0, 2), np.int64),
    )


@pytest.mark.parametrize(
    ("bits", "dropped"),
    [
        ([1, 1, 0, 0, 0], [True, False, False]),
        ([1, 0, 1, 1, 0], [False, False, False]),
        ([0, 0, 1, 1, 0], [False, False, False]),
        ([0, 0, 1, 1, 1], [False, False, True]),
        ([1, 1, 1, 1, 1], [True, False, True]),
        ([1, 1, 1, 1, 1, 0, 0, 0], [True, False, True]),
    ],
)
def test_a_batch_goes_if_all_its_records_are_superseded(
    bits: list[int], dropped: list[bool]
) -> None:
    found = surely_dropped(an_outline(2, 0, 3), np.array(bits, np.bool_), rules(99))
    assert found.tolist() == dropped


def test_the_last_batch_of_the_round_and_of_a_producer_are_read() -> None:
    outline, every = an_outline(2, 2, 2), np.ones(6, np.bool_)
    assert surely_dropped(outline, every, rules(6)).tolist() == [True, True, False]
    assert surely_dropped(outline, every, rules(9, (7, 3))).tolist() == [True, False, True]


def test_bits_of_fewer_records_are_refused() -> None:
    with pytest.raises(ValueError, match="3 records were scanned, and 2 have bits"):
        surely_dropped(an_outline(1, 2), np.ones(2, np.bool_), rules(9))


@given(data=st.data())
def test_what_goes_is_dropped_whatever_else_is_in_the_batch(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    outline = an_outline(*sizes, gap=1)
    batches, records = len(sizes), sum(sizes)

    def flags(count: int) -> np.ndarray:
        drawn = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
        return np.array(drawn, np.bool_)

    of_record = np.repeat(np.arange(batches, dtype=np.int32), sizes)
    is_control, is_legacy = flags(batches), flags(batches)
    has_producer = flags(batches) & ~is_legacy
    is_control &= has_producer
    # As the offset map sets it: control records and aborted ones never compete.
    aborted = flags(batches) & ~is_control
    has_key = flags(records)
    superseded = flags(records) & has_key & ~(is_control | aborted)[of_record]
    live = data.draw(st.sets(st.integers(0, batches - 1), max_size=1))
    remote_end = int(outline.last_offset[-1]) + data.draw(st.integers(1, 2))
    of_round = rules(remote_end, *((PRODUCER, int(outline.last_offset[at])) for at in live))
    decided = decide_retention(
        BatchColumns(
            last_offset=outline.last_offset,
            producer_id=np.where(has_producer, PRODUCER, NO_PRODUCER_ID),
            producer_epoch=np.zeros(batches, np.int16),
            is_control=is_control,
            is_legacy=is_legacy,
            is_emptied=flags(batches) & (outline.records == 0),
            horizon_ms=np.where(flags(batches), 50, NO_HORIZON),
            record_batch=of_record,
            has_key=has_key,
            has_value=flags(records),
        ),
        RecordFacts(
            aborted=aborted,
            discardable=flags(batches) & is_control,
            superseded=superseded,
            supersedes=np.zeros(records, np.bool_),
            legacy_tombstones_go=data.draw(st.booleans()),
        ),
        of_round,
    )
    dropped = surely_dropped(outline, superseded, of_round)
    assert (decided.batch[dropped] == BatchRetention.DROP).all()
    # And it leaves out all that it may, except a batch at a producer's last offset without one.
    all_lost = np.array([superseded[of_record == i].all() for i in range(batches)])
    may_go = all_lost & (outline.records > 0) & (decided.batch == BatchRetention.DROP)
    assert (may_go & ~dropped & has_producer).sum() == 0


def test_an_outline_survives_a_shuffle_and_stretches_join() -> None:
    whole = an_outline(2, 0, 3, first_offset=7)
    again = deserialize_outline(serialize_outline(whole))
    pieces = [
        replace(
            whole,
            size_bytes=whole.size_bytes[a:b],
            records=whole.records[a:b],
            last_offset=whole.last_offset[a:b],
            first_offset=first,
            record_bytes=record_bytes,
        )
        for a, b, first, record_bytes in ((0, 2, 7, 20), (2, 3, 9, 30))
    ]
    for found in (again, joined_outlines(pieces)):
        for name in ("size_bytes", "records", "last_offset"):
            column, expected = getattr(found, name), getattr(whole, name)
            assert (column.tolist(), column.dtype) == (expected.tolist(), expected.dtype)
        assert (found.first_offset, found.record_bytes) == (7, 50)


def test_it_is_sent_only_if_it_is_small_beside_the_log() -> None:
    few = BYTES_ALWAYS // ENTRY_BYTES
    at_most, more = an_outline(*[1] * few), an_outline(*[1] * (few + 1))
    assert is_worth_sending(at_most, 0)
    assert not is_worth_sending(more, 800 * few)
    assert is_worth_sending(more, 800 * (few + 1))


def test_the_outline_of_legacy_batches_is_not_sent() -> None:
    outlines = [an_outline(1), replace(an_outline(1), has_legacy=True)]
    assert not is_worth_sending(joined_outlines(outlines), 1000)
    assert is_worth_sending(joined_outlines(outlines[:1]), 1000)
