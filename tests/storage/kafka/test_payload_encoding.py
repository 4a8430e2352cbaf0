"""Measuring and encoding agree to the byte; content is compared in test_batch_rewrite."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.decoded_logs import decoded, one_record, written
from tests.storage.drafts import horizon_ms, logs
from tests.storage.legacy_messages import message, wrapper
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.payload_encoding import encode, measure

UNTOUCHED = 0xA5


@given(logs(), st.lists(st.booleans(), min_size=40, max_size=40), horizon_ms)
def test_so_many_bytes_are_written_as_were_measured(
    drafts: tuple[BatchDraft, ...], rng: list[bool], horizon: int | None
) -> None:
    _, heads, records = decoded(written(drafts))
    all_batches = np.ones(len(heads), np.bool_)
    horizons = np.full(len(heads), NO_HORIZON if horizon is None else horizon, np.int64)
    keep = np.array(rng[: len(records)], np.bool_)
    survivors = measure(heads, records, keep, all_batches, horizons)
    # A byte between neighbours shows a write that goes too far.
    position = np.cumsum(survivors.payload_bytes + 1) - survivors.payload_bytes
    out = np.full(int(survivors.payload_bytes.sum()) + len(heads) + 1, UNTOUCHED, np.uint8)
    encode(records, survivors, all_batches, position, out)
    gaps = np.append(position - 1, out.size - 1)
    assert (out[gaps] == UNTOUCHED).all()
    assert int(survivors.record_count.sum()) == int(keep.sum())


def test_only_the_chosen_batches_are_written() -> None:
    log, heads, records = decoded(written([one_record(0, timestamp_ms=5)]))
    yes, no = np.ones(1, np.bool_), np.zeros(1, np.bool_)
    survivors = measure(heads, records, yes, yes, np.array([NO_HORIZON]))
    out = np.full(20, UNTOUCHED, np.uint8)
    encode(records, survivors, no, np.array([3]), out)
    assert (out == UNTOUCHED).all()
    encode(records, survivors, yes, np.array([3]), out)
    assert out[3 : 3 + survivors.payload_bytes[0]].tobytes() == log[61:].tobytes()


def test_a_legacy_batch_spans_its_survivors() -> None:
    inner = b"".join(message(i, b"v", timestamp_ms=100 - i) for i in range(4))
    _, heads, records = decoded(wrapper(13, inner))
    keep = np.array([False, True, True, False])
    survivors = measure(heads, records, keep, np.ones(1, np.bool_), np.array([NO_HORIZON]))
    assert (survivors.base_offset[0], survivors.last_offset[0]) == (11, 12)
    assert (survivors.base_timestamp_ms[0], survivors.max_timestamp_ms[0]) == (99, 99)
