"""A segment that an election has cut off is written again up to the cut, complete by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.compaction.builders import a_state
from tests.storage.live_segments import KEY, a_check_order, put_segment
from tests.storage.segments.test_group_output import ABORTS, LOG
from tests.storage.stored_logs import small_windows
from tierfold.compaction.cleaning.cuts import cut_task
from tierfold.compaction.commits.receipts import GroupReceipt
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segment_ids import is_restored_id
from tierfold.compaction.model.segments import Segment
from tierfold.storage.indexes.producer_snapshot import write_producer_snapshot
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.segments.segment_check import read_and_check
from tierfold.storage.segments.segment_metadata import read_aborted, read_snapshot
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Part, address_of


def put(tier: LocalTieredStorage, log: Sequence[BatchDraft] = LOG) -> Segment:
    return put_segment(tier, log, offsets=(100, 110), aborted=ABORTS)


def cut_off(
    tier: LocalTieredStorage, source: Segment, last: int, before: Sequence[Segment] = ()
) -> GroupReceipt:
    row = replace(a_state([*before, source]), key=KEY)
    epochs = epochs_in(source.leader_epochs, source.start_offset, last)
    short = replace(source, end_offset=last, leader_epochs=epochs)
    task = cut_task(row, short, read_aborted(tier, KEY, source), fingerprint=1)
    return rewrite_group(tier, task, lambda _: np.empty(0, np.uint8))


def offsets_of(tier: LocalTieredStorage, segment: Segment) -> list[tuple[int, int]]:
    log = tier.read_part(address_of(KEY, segment), Part.LOG).tobytes()
    return [(one.base_offset, one.last_offset) for one in read_segment(log).batches()]


@pytest.mark.parametrize("window_bytes", [1, 2**20])
@pytest.mark.parametrize("last", [101, 102, 103, 104, 105, 106, 107, 108, 109])
def test_it_ends_at_the_cut_and_is_complete(
    tier: LocalTieredStorage, last: int, window_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_windows(monkeypatch, window_bytes)
    source = put(tier)
    (new,) = cut_off(tier, source, last).written
    segment = new.segment
    assert (segment.start_offset, segment.end_offset) == (100, last)
    whole = offsets_of(tier, source)
    assert offsets_of(tier, segment) == [one for one in whole if one[1] <= last]
    assert is_restored_id(segment.segment_id)
    assert read_aborted(tier, KEY, segment) == tuple(
        one for one in ABORTS if one.last_offset <= last
    )
    assert read_and_check(tier, a_check_order(segment)).checked.corruptions == ()
    opened = {
        entry.producer_id
        for entry in read_snapshot(tier, KEY, segment)
        if entry.current_txn_first_offset is not None
    }
    of_seven, of_eight = 102 <= last < 106, last == 103 or 107 <= last < 109
    assert opened == {producer for producer, is_in in ((7, of_seven), (8, of_eight)) if is_in}


def test_where_nothing_is_left_below_the_cut_it_has_an_empty_batch(
    tier: LocalTieredStorage,
) -> None:
    (new,) = cut_off(tier, put(tier, LOG[4:]), 103).written
    assert (new.segment.start_offset, new.segment.end_offset) == (100, 103)
    assert offsets_of(tier, new.segment) == [(103, 103)]
    assert read_and_check(tier, a_check_order(new.segment)).checked.corruptions == ()


def test_a_batch_on_both_sides_of_the_cut_is_an_error(tier: LocalTieredStorage) -> None:
    with pytest.raises(CorruptLog, match="100 to 101"):
        cut_off(tier, put(tier), 100)
    assert len(tier.listing(KEY)) == 1


def test_producers_of_the_segment_before_it_are_known(tier: LocalTieredStorage) -> None:
    before = put_segment(tier, LOG[:1], offsets=(98, 99))
    silent = ProducerEntry(
        producer_id=9,
        epoch=1,
        last_sequence=4,
        last_data_offset=90,
        last_offset_delta=1,
        last_timestamp_ms=5,
        coordinator_epoch=4,
        current_txn_first_offset=89,
    )
    path = Path(tier.uri(address_of(KEY, before), Part.SNAPSHOT))
    path.write_bytes(write_producer_snapshot([silent]))
    (new,) = cut_off(tier, put(tier), 105, [before]).written
    assert silent in read_snapshot(tier, KEY, new.segment)
