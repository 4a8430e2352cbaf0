"""A group that one segment cannot hold becomes several, each complete by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.storage.legacy_messages import message
from tests.storage.live_segments import (
    KEY,
    a_check_order,
    a_group_task,
    an_abort,
    data,
    marker,
    put_segment,
)
from tests.storage.stored_logs import small_windows
from tierfold.compaction.cleaning.offset_map import SUPERSEDED
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.storage.indexes.leader_epoch_checkpoint import write_leader_epoch_checkpoint
from tierfold.storage.indexes.producer_snapshot import write_producer_snapshot
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.segments.segment_check import read_and_check
from tierfold.storage.segments.segment_metadata import (
    listed_checkpoint,
    read_aborted,
    read_checkpoint,
    read_segment_metadata,
    read_snapshot,
)
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Part, address_of

LOG = (
    data(100, (b"a", b"1"), (b"b", b"2")),
    data(102, (b"c", b"3"), producer_id=7),
    data(103, (b"d", b"3"), producer_id=8),
    marker(104, 8, ControlType.ABORT),
    data(105, (b"e", b"4")),
    marker(106, 7, ControlType.COMMIT),
    data(107, (b"f", b"5"), producer_id=8),
    data(108, (b"g", b"6")),
    marker(109, 8, ControlType.ABORT),
    data(110, (b"h", b"7")),
)
ABORTS = (an_abort(8, 103, 104), an_abort(8, 107, 109))


def written(
    tier: LocalTieredStorage,
    segments: Sequence[Segment],
    most: int,
    superseded: Sequence[int] = (),
    **fields: Any,
) -> GroupReceipt:
    """The receipt if these records of each segment are superseded."""
    bits = np.zeros(100, np.uint8)
    bits[[*superseded]] = SUPERSEDED
    task = a_group_task(segments, output_bytes_max=most, **fields)
    return rewrite_group(tier, task, lambda _: bits)


def new_logs(tier: LocalTieredStorage, receipt: GroupReceipt) -> list[bytes]:
    return [
        tier.read_part(address_of(KEY, one.segment), Part.LOG).tobytes() for one in receipt.written
    ]


@pytest.fixture(autouse=True)
def _one_batch_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    small_windows(monkeypatch, 1)


def two_sources(tier: LocalTieredStorage) -> list[Segment]:
    """The log as two segments; neither loses a record."""
    return [
        put_segment(tier, LOG[:5], offsets=(100, 105), aborted=ABORTS[:1]),
        put_segment(tier, LOG[5:], offsets=(106, 110), aborted=ABORTS[1:]),
    ]


@pytest.mark.parametrize("most", [1, 100, 200, 300, 500, 700])
def test_each_new_segment_is_complete_and_together_they_are_the_whole(
    tier: LocalTieredStorage, most: int
) -> None:
    sources = two_sources(tier)
    whole = written(tier, sources, 10**6, listed=ABORTS)
    assert len(whole.written) == 1
    receipt = written(tier, sources, most, listed=ABORTS)
    assert receipt.result is GroupResult.WRITTEN
    assert receipt.counts == whole.counts
    assert receipt.records_written == whole.records_written
    assert receipt.bytes_written == whole.bytes_written
    logs = new_logs(tier, receipt)
    assert b"".join(logs) == new_logs(tier, whole)[0]
    assert len(logs) > 1
    assert all(len(log) <= most or len(list(read_segment(log).batches())) == 1 for log in logs)
    segments = [one.segment for one in receipt.written]
    assert (segments[0].start_offset, segments[-1].end_offset) == (100, 110)
    assert all(a.next_offset == b.start_offset for a, b in pairwise(segments))
    aborted = [read_aborted(tier, KEY, segment) for segment in segments]
    assert tuple(entry for entries in aborted for entry in entries) == ABORTS
    for segment, entries, log in zip(segments, aborted, logs, strict=True):
        assert segment.size_bytes == len(log)
        assert all(segment.start_offset <= e.last_offset <= segment.end_offset for e in entries)
        assert read_and_check(tier, a_check_order(segment)).checked.corruptions == ()
        (listed,) = [e for e in tier.listing(KEY) if e.segment_id == segment.segment_id]
        found = read_segment_metadata(tier, KEY, listed, listed_checkpoint(tier, KEY, listed))
        assert found.index_corruptions == ()
        assert found.segment.end_offset == segment.end_offset
        assert found.segment.leader_epochs == segment.leader_epochs


def test_open_transactions_are_known_at_every_cut(tier: LocalTieredStorage) -> None:
    source = put_segment(tier, LOG, offsets=(100, 110), aborted=ABORTS)
    receipt = written(tier, [source], 1, [0], listed=ABORTS)
    opened = {
        one.segment.end_offset: {
            entry.producer_id: entry.current_txn_first_offset
            for entry in read_snapshot(tier, KEY, one.segment)
        }
        for one in receipt.written[:-1]
    }
    assert opened == {
        101: {},
        102: {7: 102},
        103: {7: 102, 8: 103},
        104: {7: 102, 8: None},
        105: {7: 102, 8: None},
        106: {7: None, 8: None},
        107: {7: None, 8: 107},
        108: {7: None, 8: 107},
        109: {7: None, 8: None},
    }


def test_the_state_before_the_group_counts_at_a_cut(tier: LocalTieredStorage) -> None:
    silent = ProducerEntry(
        producer_id=3,
        epoch=2,
        last_sequence=9,
        last_data_offset=90,
        last_offset_delta=1,
        last_timestamp_ms=5,
        coordinator_epoch=4,
        current_txn_first_offset=89,
    )
    preceding = put_segment(tier, [data(98, (b"z", b"0"))], offsets=(98, 99))
    path = Path(tier.uri(address_of(KEY, preceding), Part.SNAPSHOT))
    path.write_bytes(write_producer_snapshot([silent]))
    source = put_segment(tier, LOG, offsets=(100, 110), aborted=ABORTS)
    receipt = written(tier, [source], 1, [0], listed=ABORTS, preceding=preceding)
    assert len(receipt.written) > 2
    for one in receipt.written[:-1]:
        assert silent in read_snapshot(tier, KEY, one.segment)


def test_from_a_source_on_its_own_snapshot_counts(tier: LocalTieredStorage) -> None:
    dropped = ProducerEntry(
        producer_id=9,
        epoch=0,
        last_sequence=4,
        last_data_offset=101,
        last_offset_delta=0,
        last_timestamp_ms=5,
        coordinator_epoch=-1,
        current_txn_first_offset=101,
    )
    sources = two_sources(tier)
    path = Path(tier.uri(address_of(KEY, sources[0]), Part.SNAPSHOT))
    path.write_bytes(write_producer_snapshot([dropped]))
    receipt = written(tier, sources, 1, listed=ABORTS)
    for one in receipt.written[:-1]:
        is_behind = one.segment.end_offset >= sources[0].end_offset
        assert (dropped in read_snapshot(tier, KEY, one.segment)) is is_behind


def test_checkpoints_end_where_their_segment_does(tier: LocalTieredStorage) -> None:
    source = put_segment(tier, LOG, offsets=(100, 110))
    lineage = tuple(
        LeaderEpoch(epoch=epoch, start_offset=start)
        for epoch, start in ((1, 40), (3, 90), (4, 103), (6, 108))
    )
    path = Path(tier.uri(address_of(KEY, source), Part.LEADER_EPOCH_CHECKPOINT))
    path.write_bytes(write_leader_epoch_checkpoint(lineage))
    source = replace(source, leader_epochs=epochs_in(lineage, 100, 110))
    receipt = written(tier, [source], 200, [0])
    assert len(receipt.written) > 3
    for one in receipt.written:
        start, end = one.segment.start_offset, one.segment.end_offset
        found = read_checkpoint(tier, KEY, one.segment)
        assert found == tuple(entry for entry in lineage if entry.start_offset <= end)
        assert one.segment.leader_epochs == epochs_in(lineage, start, end)


def test_legacy_messages_that_become_batches_are_cut_too(tier: LocalTieredStorage) -> None:
    messages = [message(100 + i, b"v", key=b"%d" % i, magic=0) for i in range(60)]
    source = put_segment(tier, messages, offsets=(100, 159))
    receipt = written(tier, [source], source.size_bytes)
    assert receipt.bytes_written > 2 * source.size_bytes
    segments = [one.segment for one in receipt.written]
    assert len(segments) >= 3
    assert all(segment.size_bytes <= source.size_bytes for segment in segments)
    assert receipt.counts.kept == receipt.records_written == 60
    assert all(read_snapshot(tier, KEY, segment) == () for segment in segments)


def test_a_first_try_that_is_too_large_leaves_nothing(tier: LocalTieredStorage) -> None:
    sources = two_sources(tier)
    before = {segment.segment_id for segment in tier.listing(KEY)}
    receipt = written(tier, sources, 300, listed=ABORTS)
    new = {segment.segment_id for segment in tier.listing(KEY)} - before
    assert new == {one.segment.segment_id for one in receipt.written}
    root = Path(tier.uri(address_of(KEY, sources[0]), Part.LOG)).parent
    assert {path.suffix for path in root.iterdir()} <= {f".{part.value}" for part in Part}


def test_what_is_superseded_is_dropped_in_every_part(tier: LocalTieredStorage) -> None:
    source = put_segment(tier, LOG, offsets=(100, 110))
    receipt = written(tier, [source], 300, [0, 5])
    assert len(receipt.written) > 1
    assert receipt.counts.superseded == 2
    offsets = [
        record.offset
        for log in new_logs(tier, receipt)
        for batch in read_segment(log).batches()
        for record in batch.records
    ]
    assert offsets == sorted({*range(100, 111)} - {100, 105})


