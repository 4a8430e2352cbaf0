"""The writer of new segments: their metadata and objects, and what a failure leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import google_crc32c
import numpy as np
import pytest

from tests.pictures.log_pictures import INDEX_INTERVAL_BYTES, KEY, Log, files_of, picture
from tests.storage.call_scripts import Script
from tests.storage.new_ids import own_address
from tests.storage.scripted_store import CORRUPTIONS, ScriptedStore, rots
from tierfold.compaction.commits.receipts import StagedPart, VerifiedParts
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import BadSettings, CorruptLog, UnreadableObject
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.storage.indexes.offset_index import read_offset_index
from tierfold.storage.indexes.time_index import read_time_index
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.segments.segment_metadata import (
    listed_checkpoint,
    read_aborted,
    read_checkpoint,
    read_segment_metadata,
    read_snapshot,
)
from tierfold.storage.segments.segment_writer import SegmentWriter
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.object_store import StoredChecksum
from tierfold.storage.tiers.remote_tier import PART_BYTES_MAX, Part, address_of

DUE_MS = 300
AN_ABORT = AbortedTransaction(producer_id=7, first_offset=1, last_offset=3, last_stable_offset=4)


def a_batch(base_offset: int, *timestamps_ms: int, **fields: Any) -> np.ndarray:
    records = tuple(
        RecordDraft(offset=base_offset + i, timestamp_ms=at, key=b"k%d" % i, value=b"v")
        for i, at in enumerate(timestamps_ms)
    )
    draft = BatchDraft(base_offset=base_offset, records=records, **fields)
    return np.frombuffer(write_batch(draft), np.uint8)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """What the new segment replaces: offsets 0 to 9 of two segments, three epochs."""
    return picture("0:a=1 e2 1:b=1 | 2:a=2 e4 p7(3:c=1) ..9", tmp_path)


def a_writer(log: Log, *, interval: int = INDEX_INTERVAL_BYTES) -> SegmentWriter:
    group = SegmentGroup(segments=log.segments)
    address = own_address(KEY, group.start_offset)
    return SegmentWriter(log.tier, address, group, run="run-1", index_interval_bytes=interval)


def written(
    log: Log, *stretches: np.ndarray, listed: tuple[AbortedTransaction, ...] = ()
) -> Segment:
    with a_writer(log) as writer:
        for stretch in stretches:
            writer.append(stretch)
        return writer.finish(listed, DUE_MS)


def part_of(log: Log, segment: Segment, part: Part) -> bytes:
    return log.tier.read_part(address_of(KEY, segment), part).tobytes()


def test_the_segment_covers_its_sources_though_its_batches_do_not(log: Log) -> None:
    segment = written(log, a_batch(3, 10))
    assert (segment.start_offset, segment.end_offset) == (0, 9)
    assert segment.segment_id not in {source.segment_id for source in log.segments}
    assert segment.written_by_run == "run-1"


def test_epochs_are_the_union_of_the_sources_with_their_lowest_offsets(log: Log) -> None:
    assert [source.leader_epochs[0].start_offset for source in log.segments] == [0, 2]
    assert written(log, a_batch(3, 10)).leader_epochs == (
        LeaderEpoch(epoch=0, start_offset=0),
        LeaderEpoch(epoch=2, start_offset=1),
        LeaderEpoch(epoch=4, start_offset=3),
    )


def test_the_largest_timestamp_is_that_of_any_batch_an_empty_one_included(log: Log) -> None:
    empty = a_batch(2, max_timestamp_ms=900)
    segment = written(log, a_batch(0, 50, 20), empty, a_batch(3, 70))
    assert segment.max_timestamp_ms == 900
    assert segment.first_timestamp_ms == 50


def test_the_largest_timestamp_of_records_is_of_no_empty_batch(log: Log) -> None:
    empty = a_batch(2, max_timestamp_ms=900)
    segment = written(log, a_batch(0, 50, 20), empty, a_batch(3, 70))
    assert segment.records_max_timestamp_ms == 70
    assert written(log, empty).records_max_timestamp_ms == -1


def test_the_earliest_due_time_is_stored(log: Log) -> None:
    assert written(log, a_batch(0, 5)).earliest_due_ms == DUE_MS


def test_sizes_are_those_of_the_objects(log: Log) -> None:
    segment = written(log, a_batch(0, 1), a_batch(1, 2), a_batch(3, 3))
    assert segment.size_bytes == len(part_of(log, segment, Part.LOG))
    assert segment.offset_index_bytes == len(part_of(log, segment, Part.OFFSET_INDEX)) > 0
    assert segment.time_index_bytes == len(part_of(log, segment, Part.TIME_INDEX)) > 0


def test_the_output_does_not_depend_on_the_stretches(log: Log) -> None:
    batches = [a_batch(i, 100 * i % 700) for i in range(9)]
    one = written(log, np.concatenate(batches))
    other = written(log, *batches)
    for part in (Part.LOG, Part.OFFSET_INDEX, Part.TIME_INDEX):
        assert part_of(log, one, part) == part_of(log, other, part)


def test_index_entries_count_from_the_segments_start(tmp_path: Path) -> None:
    log = picture("5000:a=1 5001:b=1 | 5002:c=1", tmp_path)
    segment = written(log, *[a_batch(5000 + i, 10 * i) for i in range(3)])
    where = (segment.start_offset, "an index")
    offsets = read_offset_index(part_of(log, segment, Part.OFFSET_INDEX), *where)
    times = read_time_index(part_of(log, segment, Part.TIME_INDEX), *where)
    assert offsets.offsets.tolist() == [5001, 5002]
    assert times.offsets.tolist() == [5001, 5002]


def test_an_empty_stretch_adds_nothing(log: Log) -> None:
    nothing = np.empty(0, np.uint8)
    segment = written(log, nothing, a_batch(0, 1), nothing)
    assert segment.size_bytes == len(a_batch(0, 1))


def test_the_metadata_read_is_that_of_the_segment_named(log: Log) -> None:
    segment = written(log, a_batch(0, 9), a_batch(2, 4), a_batch(9, 1))
    (found,) = [e for e in log.tier.listing(KEY) if e.segment_id == segment.segment_id]
    checkpoint = listed_checkpoint(log.tier, KEY, found)
    seen = read_segment_metadata(log.tier, KEY, found, checkpoint).segment
    for field in ("start_offset", "end_offset", "size_bytes", "max_timestamp_ms", "leader_epochs"):
        assert getattr(seen, field) == getattr(segment, field)
    assert seen.first_timestamp_ms == segment.first_timestamp_ms


def test_snapshot_and_checkpoint_are_the_last_sources(log: Log) -> None:
    segment = written(log, a_batch(0, 1))
    newest = log.segments[-1]
    assert read_snapshot(log.tier, KEY, segment) == read_snapshot(log.tier, KEY, newest)
    assert read_checkpoint(log.tier, KEY, segment) == log.lineage


def test_the_transaction_index_holds_what_is_listed_and_is_absent_otherwise(log: Log) -> None:
    segment = written(log, a_batch(0, 1), listed=(AN_ABORT,))
    assert segment.has_transaction_index
    assert read_aborted(log.tier, KEY, segment) == (AN_ABORT,)
    other = written(log, a_batch(0, 1))
    assert not other.has_transaction_index
    with pytest.raises(UnreadableObject):
        part_of(log, other, Part.TRANSACTION_INDEX)


@pytest.mark.parametrize("corrupt", ["bad crc", "torn", "not a batch"])
def test_corrupt_batches_are_refused_and_leave_no_file(log: Log, corrupt: str) -> None:
    before, first = files_of(log), a_batch(0, 1)
    stretch = a_batch(1, 2).copy()
    if corrupt == "bad crc":
        stretch[-1] ^= 1
    elif corrupt == "torn":
        stretch = stretch[:-1]
    else:
        stretch[16] = 9
    with (
        pytest.raises(CorruptLog, match=f"new segment .*, after {len(first)} bytes"),
        a_writer(log) as writer,
    ):
        writer.append(first)
        writer.append(stretch)
    assert files_of(log) == before


def test_a_writer_that_is_abandoned_leaves_nothing(log: Log) -> None:
    before = files_of(log)
    with pytest.raises(KeyboardInterrupt), a_writer(log) as writer:
        writer.append(a_batch(0, 1))
        assert len(files_of(log) - before) == 1
        raise KeyboardInterrupt
    assert files_of(log) == before


def test_without_the_sources_snapshot_the_new_segment_is_never_complete(log: Log) -> None:
    newest = log.segments[-1]
    Path(log.tier.uri(address_of(KEY, newest), Part.SNAPSHOT)).unlink()
    before = {listed.segment_id for listed in log.tier.listing(KEY)}
    with pytest.raises(UnreadableObject):
        written(log, a_batch(0, 1))
    (left,) = [new for new in log.tier.listing(KEY) if new.segment_id not in before]
    assert {Part.SNAPSHOT, Part.LEADER_EPOCH_CHECKPOINT} <= set(left.missing_parts)


# What is written is read back.


@pytest.mark.parametrize("listed", [(), (AN_ABORT,)])
def test_the_writer_lists_its_parts_as_they_are_written(
    log: Log, listed: tuple[AbortedTransaction, ...]
) -> None:
    with a_writer(log) as writer:
        for offset in range(3):
            writer.append(a_batch(offset, 1, 2))
        segment = writer.finish(listed, None)
    (found,) = [e for e in log.tier.listing(KEY) if e.segment_id == segment.segment_id]
    lying = {part: part_of(log, segment, Part(part)) for part, _ in found.parts}
    assert {staged.part: staged for staged in writer.parts} == {
        part: StagedPart(part=part, size_bytes=len(data), crc32c=google_crc32c.value(data))
        for part, data in lying.items()
    }
    assert sorted(writer.objects) == sorted(found.parts)
    assert writer.records == 6


@pytest.mark.parametrize("part", Part)
@pytest.mark.parametrize("corrupt", CORRUPTIONS)
def test_an_object_that_the_store_returns_changed_is_reported(
    log: Log, part: Part, corrupt: str
) -> None:
    assert isinstance(log.tier.store, LocalStore)
    root = log.tier.store.root
    rotting = ScriptedStore(root, Script(rots(root, part, CORRUPTIONS[corrupt])))
    log = replace(log, tier=replace(log.tier, store=rotting))
    with pytest.raises(UnreadableObject) as caught:
        written(log, *[a_batch(i, i) for i in range(3)], listed=(AN_ABORT,))
    assert caught.value.where.endswith(f".{part}")
    assert corrupt == "gone" or "were written," in caught.value.what
    assert corrupt == "gone" or "Nothing was committed" in caught.value.remedy


@pytest.mark.parametrize("part", [Part.SNAPSHOT, Part.LEADER_EPOCH_CHECKPOINT])
def test_a_side_file_that_a_power_cut_emptied_is_not_copied_on(log: Log, part: Part) -> None:
    last = log.segments[-1]
    Path(log.tier.uri(address_of(KEY, last), part)).write_bytes(b"")
    with pytest.raises(CorruptLog, match=f"{last.segment_id}.{part.value}"):
        written(log, a_batch(0, 1))


class StatingStore(LocalStore):
    """A folder that says the CRC32C of an object, as S3 does, raised by `error`."""

    error = 0
    read_keys: ClassVar[list[str]] = []

    def stored_checksum(self, key: str) -> StoredChecksum | None:  # type: ignore[override]
        data = Path(self.uri(key)).read_bytes()
        return StoredChecksum(
            size_bytes=len(data), crc32c=(google_crc32c.value(data) + self.error) % 2**32
        )

    def read_range(self, key: str, start: int, length: int) -> np.ndarray:
        self.read_keys.append(key)
        return super().read_range(key, start, length)


class WrongStore(StatingStore):
    """One whose checksums are wrong, as of some emulators."""

    error = 1


@pytest.mark.parametrize(("kind", "parts_read"), [(StatingStore, 0), (WrongStore, len(Part))])
def test_a_checksum_that_the_store_says_saves_reading_back_if_it_is_right(
    log: Log, kind: type[StatingStore], parts_read: int
) -> None:
    assert isinstance(log.tier.store, LocalStore)
    stating = replace(log, tier=replace(log.tier, store=kind(log.tier.store.root)))
    kind.read_keys.clear()
    with a_writer(stating) as writer:
        writer.append(a_batch(0, 0))
        segment = writer.finish((AN_ABORT,), DUE_MS)
    assert writer.verified == VerifiedParts(
        by_checksum=len(Part) - parts_read, by_reading_back=parts_read
    )
    assert sum(segment.segment_id in key for key in kind.read_keys) == parts_read
    assert part_of(log, segment, Part.LOG)


class RottingStore(ScriptedStore):
    """A scripted store that says the CRC32C of what it keeps."""

    error = 0
    stored_checksum = StatingStore.stored_checksum  # type: ignore[assignment]


def test_a_store_that_keeps_other_bytes_is_found_by_its_checksum(log: Log) -> None:
    assert isinstance(log.tier.store, LocalStore)
    root = log.tier.store.root
    rotting = RottingStore(root, Script(rots(root, Part.LOG, CORRUPTIONS["a bit turned"])))
    log = replace(log, tier=replace(log.tier, store=rotting))
    with pytest.raises(UnreadableObject, match="are read back"):
        written(log, *[a_batch(i, i) for i in range(3)])


@pytest.mark.parametrize(
    ("part", "size_bytes", "remedy"),
    [
        (Part.OFFSET_INDEX, 8, "index.interval.bytes is 0 here"),
        (Part.TIME_INDEX, 12, "index.interval.bytes is 0 here"),
        (Part.TRANSACTION_INDEX, 68, "Set a smaller segment.bytes"),
    ],
)
def test_an_index_that_could_not_be_read_again_leaves_nothing(
    log: Log, part: Part, size_bytes: int, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PART_BYTES_MAX, part, size_bytes - 1)
    before = files_of(log)
    with (
        pytest.raises(BadSettings, match=f"new segment would have {size_bytes} bytes") as caught,
        a_writer(log, interval=0) as writer,
    ):
        writer.append(a_batch(0, 100))
        writer.append(a_batch(4, 200))
        writer.finish((AN_ABORT, AN_ABORT), DUE_MS)
    assert remedy in caught.value.remedy
    assert files_of(log) == before
