"""The rewrite of one group: its output, and what an error leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pictures.log_pictures import (
    INDEX_INTERVAL_BYTES,
    KEY,
    Log,
    batches_of,
    drawn,
    files_of,
    picture,
)
from tests.storage.call_scripts import Script
from tests.storage.corrupted_bytes import patched, summed
from tests.storage.live_segments import a_group_task, flip_bit
from tests.storage.scripted_store import CORRUPTIONS, ScriptedStore, rots
from tests.storage.stored_logs import small_windows, stored
from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.cleaning.offset_map import SUPERSEDED
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import NO_TIMESTAMP_MS
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.segments.group_rewrite import GroupTask, rewrite_group
from tierfold.storage.segments.segment_reader import Batch
from tierfold.storage.segments.segment_scan import scan_transactions
from tierfold.storage.tiers.remote_tier import Part, address_of

NOW_MS = 500


def a_task(log: Log, **fields: Any) -> GroupTask:
    """A task for all segments of the log as one group."""
    fields = {"index_interval_bytes": INDEX_INTERVAL_BYTES, **fields}
    return a_group_task(log.segments, key=KEY, **fields)


def rewritten(log: Log, *superseded: int, **fields: Any) -> GroupReceipt:
    """The receipt if the records of those ordinals, over all segments, are superseded."""
    ordinals = {}
    seen = 0
    for segment in log.segments:
        records = sum(len(batch.records) for batch in batches_of(log, segment))
        ordinals[segment.segment_id] = np.arange(seen, seen + records)
        seen += records

    def bits(segment: Segment) -> np.ndarray:
        return np.isin(ordinals[segment.segment_id], superseded) * SUPERSEDED

    return rewrite_group(log.tier, a_task(log, **fields), bits)


def nothing_superseded(_: Segment) -> np.ndarray:
    """Enough bits for any log here."""
    return np.zeros(100, np.uint8)


def after(log: Log, receipt: GroupReceipt) -> str:
    assert receipt.segment is not None
    return drawn(replace(log, segments=(receipt.segment,)))


def path_of(log: Log, number: int, part: Part) -> Path:
    segment = log.segments[number]
    return Path(log.tier.uri(address_of(KEY, segment), part))


def test_an_unchanged_single_segment_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    log = picture("0:a=1 [1:b=1 2:c=1]", tmp_path)
    before = files_of(log)
    receipt = rewritten(log)
    assert (receipt.result, receipt.segment) == (GroupResult.UNCHANGED, None)
    assert (receipt.bytes_read, receipt.bytes_written) == (log.segments[0].size_bytes, 0)
    assert files_of(log) == before


def test_a_group_of_two_is_written_even_if_nothing_is_removed(tmp_path: Path) -> None:
    log = picture("0:a=1 | 1:b=1", tmp_path)
    receipt = rewritten(log)
    assert receipt.result is GroupResult.WRITTEN
    assert receipt.group_index == 4
    assert after(log, receipt) == "0:a=1 1:b=1"
    size_bytes = sum(segment.size_bytes for segment in log.segments)
    assert (receipt.bytes_read, receipt.bytes_written) == (size_bytes, size_bytes)


def test_the_receipt_lists_what_was_staged_and_its_records(tmp_path: Path) -> None:
    log = picture("0:a=1 P1(1:b=1) 2:P1:A | 3:b= [4:c=1 5:a=2] 6:d=1", tmp_path)
    receipt = rewritten(log, 0)
    assert receipt.segment is not None
    assert receipt.records_written == receipt.counts.kept == 6
    (found,) = [e for e in log.tier.listing(KEY) if e.segment_id == receipt.segment.segment_id]
    (new,) = receipt.written
    assert {(staged.part, staged.size_bytes) for staged in new.staged} == set(found.parts)
    assert new.verified.by_reading_back == len(new.staged) == 5


def test_a_segment_that_is_corrupted_while_written_gets_no_receipt(tmp_path: Path) -> None:
    log = picture("0:a=1 | 1:a=2", tmp_path)
    script = Script(rots(tmp_path, Part.LOG, CORRUPTIONS["a bit turned"]))
    store = ScriptedStore(tmp_path, script)
    with pytest.raises(UnreadableObject, match="are read back"):
        rewritten(replace(log, tier=replace(log.tier, store=store)), 0)


def test_a_group_without_kept_records_writes_nothing(tmp_path: Path) -> None:
    log = picture("0:a=1 | 1:b=1 ..4", tmp_path)
    before = files_of(log)
    receipt = rewritten(log, 0, 1)
    assert (receipt.result, receipt.segment) == (GroupResult.EMPTY, None)
    assert files_of(log) == before


def test_records_and_their_bytes_are_counted(tmp_path: Path) -> None:
    log = picture("[0:a=1 1:bbbbb=1] 2:=1 | 3:c=333 4:a=4", tmp_path)
    # Seven bytes around key and value: length, attributes, two deltas, two lengths, no headers.
    assert rewritten(log, 0, 1).counts == Counts(
        records_in=5,
        kept=2,
        without_key=1,
        superseded=2,
        record_bytes_in=9 + 13 + 8 + 11 + 9,
        kept_bytes=11 + 9,
        without_key_bytes=8,
        superseded_bytes=9 + 13,
    )


def test_markers_that_stay_are_counted(tmp_path: Path) -> None:
    log = picture("P7(0:a=1) 1:P7:C | 2:a=2", tmp_path)
    counts = rewritten(log, 0, 1).counts
    assert (counts.records_in, counts.kept, counts.kept_markers) == (3, 2, 1)


def test_an_empty_key_is_a_key_and_an_empty_value_is_one(tmp_path: Path) -> None:
    log = picture("[0:''=1 1:a='' 2:=1]^100 3:b=1", tmp_path)
    receipt = rewritten(log)
    assert after(log, receipt) == "0-2:[0:''=1 1:a='']^100 3:b=1"
    assert receipt.counts.without_key == 1


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("range_bytes", [None, 90])
@pytest.mark.parametrize("window_bytes", [1, 100, 150, 10**6])
def test_unchanged_stretches_are_copied_once_a_record_is_removed(
    window_bytes: int,
    range_bytes: int | None,
    threads: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_windows(monkeypatch, window_bytes, range_bytes)
    log = picture("0:a=1 [1:b=1 2:c=1] 3:d=1 [4:e=1 5:f=1] 6:g=1", tmp_path)
    assert rewritten(log).result is GroupResult.UNCHANGED
    receipt = rewritten(log, 5, threads=threads)
    assert after(log, receipt) == "0:a=1 [1:b=1 2:c=1] 3:d=1 4-5:[4:e=1] 6:g=1"
    assert receipt.segment is not None
    assert receipt.bytes_written == receipt.segment.size_bytes
    assert (receipt.counts.records_in, receipt.counts.superseded) == (7, 1)


@pytest.mark.parametrize("window_bytes", [1, 10**6])
def test_aborted_data_is_found_in_every_window(
    window_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_windows(monkeypatch, window_bytes)
    log = picture("0:a=1 P1(1:b=1) 2:c=1 P2(3:d=1) P1([4:e=1 5:=2]) 6:P1:A", tmp_path)
    entry = AbortedTransaction(producer_id=1, first_offset=1, last_offset=6, last_stable_offset=3)
    receipt = rewritten(log, aborted=(entry,), listed=(entry,))
    assert after(log, receipt) == "0:a=1 2:c=1 P2(3:d=1) 6:P1:A"
    assert receipt.counts.aborted == 3


def test_only_control_batches_are_discarded(
    tmp_path: Path,
) -> None:
    log = picture("0:a=^100 1:P1:C^100 2:P2:C^100 3:b=1", tmp_path)
    receipt = rewritten(log, discardable=np.array([1, 3], np.int64))
    assert after(log, receipt) == "0.. 2:P2:C^100 3:b=1"


def test_an_emptied_batch_that_must_stay_is_no_change(tmp_path: Path) -> None:
    log = picture("0:a=1 1:()", tmp_path)
    assert rewritten(log).result is GroupResult.UNCHANGED


def with_log(log: Log, content: bytes) -> Log:
    """The log with other content in its only segment."""
    (segment,) = log.segments
    path_of(log, 0, Part.LOG).write_bytes(content)
    return replace(log, segments=(replace(segment, size_bytes=len(content)),))


def last_batch(log: Log, receipt: GroupReceipt) -> Batch:
    assert receipt.segment is not None
    return batches_of(replace(log, segments=(receipt.segment,)), receipt.segment)[-1]


@pytest.mark.parametrize(
    ("timestamp_ms", "fields"),
    [
        (7, {}),
        (7, {"delete_horizon_ms": 90}),
        (NO_TIMESTAMP_MS, {}),
        (NO_TIMESTAMP_MS, {"codec": 1}),
    ],
)
def test_an_emptied_batch_keeps_only_its_largest_timestamp(
    timestamp_ms: int, fields: dict[str, Any], tmp_path: Path
) -> None:
    log = picture("0:a=1", tmp_path)
    record = RecordDraft(offset=0, timestamp_ms=timestamp_ms, key=None, value=b"x")
    log = with_log(log, write_batch(BatchDraft(base_offset=0, records=(record,), **fields)))
    emptied = last_batch(log, rewritten(log))
    assert (emptied.size_bytes, emptied.records, emptied.codec) == (61, (), "none")
    assert (emptied.base_timestamp_ms, emptied.delete_horizon_ms) == (NO_TIMESTAMP_MS, None)
    assert emptied.max_timestamp_ms == timestamp_ms


@pytest.mark.parametrize(("at", "form", "value"), [(27, "q", 5), (21, "h", 0x40), (21, "h", 1)])
def test_an_empty_batch_in_another_form_is_rewritten_in_kafkas(
    at: int, form: str, value: int, tmp_path: Path
) -> None:
    # Another base timestamp, or a horizon or codec without records.
    sound = write_batch(BatchDraft(base_offset=0))
    log = with_log(picture("0:()", tmp_path), summed(patched(sound, at, form, value)))
    emptied = last_batch(log, rewritten(log))
    assert (emptied.base_timestamp_ms, emptied.delete_horizon_ms) == (NO_TIMESTAMP_MS, None)


def test_the_round_is_closed_by_a_batch_of_the_newest_epoch(tmp_path: Path) -> None:
    log = picture("0:a=1 | e3 1:b=1 e6 2:c=1 ..4", tmp_path)
    assert after(log, rewritten(log, ends_in_batch=True)) == "0:a=1 e3 1:b=1 e6 2:c=1 4:()"
    assert after(log, rewritten(log)) == "0:a=1 e3 1:b=1 e6 2:c=1 ..4"


def test_closing_alone_is_a_change(tmp_path: Path) -> None:
    log = picture("0:a=1 ..4", tmp_path)
    assert rewritten(log).result is GroupResult.UNCHANGED
    receipt = rewritten(log, ends_in_batch=True)
    assert after(log, receipt) == "0:a=1 4:()"
    assert receipt.bytes_written == log.segments[0].size_bytes + 61


def test_no_closing_batch_is_added_after_a_last_batch(tmp_path: Path) -> None:
    log = picture("0:a=1 2-4:[3:b=1]", tmp_path)
    assert rewritten(log, ends_in_batch=True).result is GroupResult.UNCHANGED


def test_a_segment_is_rewritten_if_its_transaction_index_would_differ(tmp_path: Path) -> None:
    log = picture("P1(0:a=1) 1:P2:A 2:P1:C 3:b=1", tmp_path)
    entry = AbortedTransaction(producer_id=2, first_offset=0, last_offset=1, last_stable_offset=2)
    receipt = rewritten(log, listed=(entry,))
    assert receipt.segment is not None
    assert receipt.segment.has_transaction_index
    again = replace(log, segments=(receipt.segment,))
    assert rewritten(again, listed=(entry,)).result is GroupResult.UNCHANGED
    other = rewritten(again)
    assert other.segment is not None
    assert not other.segment.has_transaction_index
    assert after(log, other) == drawn(log)


@pytest.mark.parametrize("number", [0, 1])
def test_a_corrupt_source_leaves_nothing_behind(number: int, tmp_path: Path) -> None:
    log = picture("0:a=1 1:b=1 | 2:c=1 3:d=1", tmp_path)
    flip_bit(path_of(log, number, Part.LOG))
    before = files_of(log)
    with pytest.raises(CorruptLog, match="bad CRC") as caught:
        rewrite_group(log.tier, a_task(log), nothing_superseded)
    assert caught.value.where.endswith(f"{log.segments[number].segment_id}.log")
    assert files_of(log) == before


def test_a_bad_checksum_explains_an_offset_outside_the_segment(tmp_path: Path) -> None:
    log = picture("0:a=1 1:b=1", tmp_path)
    path = path_of(log, 0, Part.LOG)
    sound = path.read_bytes()
    path.write_bytes(patched(sound, len(sound) // 2 + 23, "i", 500))
    with pytest.raises(CorruptLog, match="bad CRC"):
        rewrite_group(log.tier, a_task(log), nothing_superseded)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, GeneratorExit])
def test_an_interruption_leaves_nothing_behind(error: type[BaseException], tmp_path: Path) -> None:
    log = picture("0:a=1 1:b=1 | 2:c=1 3:d=1", tmp_path)
    before = files_of(log)
    met: list[set[str]] = []

    def superseded(segment: Segment) -> np.ndarray:
        if segment == log.segments[1]:
            met.append(files_of(log) - before)
            raise error
        return nothing_superseded(segment)

    with pytest.raises(error) as caught:
        rewrite_group(log.tier, a_task(log), superseded)
    # A hidden staged log was there; it is gone, though the error is still referenced.
    assert [len(extra) for extra in met] == [1]
    assert files_of(log) == before
    assert caught.tb is not None


@pytest.mark.parametrize(
    ("bits", "reason"),
    [(np.zeros(2, np.uint8), "more records than there are bits"), (np.eye(4)[3], "later ones")],
)
def test_bits_of_other_records_stop_the_rewrite(
    bits: np.ndarray, reason: str, tmp_path: Path
) -> None:
    log = picture("0:a=1 1:b=1 2:c=1", tmp_path)
    before = files_of(log)
    with pytest.raises(ValueError, match=reason):
        rewrite_group(log.tier, a_task(log), lambda _: bits.astype(np.uint8))
    assert files_of(log) == before


@pytest.mark.parametrize("offsets", [{"start_offset": 1}, {"end_offset": 1}])
def test_batches_beside_their_segments_offsets_stop_the_rewrite(
    offsets: dict[str, int], tmp_path: Path
) -> None:
    log = picture("0:a=1 1:b=1 2:c=1", tmp_path)
    moved = replace(log.segments[0], **offsets)
    if "start_offset" in offsets:
        path = path_of(log, 0, Part.LOG)
        path.rename(path.with_name(path.name.replace(f"{0:020d}", f"{1:020d}")))
    with pytest.raises(CorruptLog, match="batches have offsets 0 to 2, the segment") as caught:
        rewritten(replace(log, segments=(moved,)))
    assert caught.value.where.endswith(".log")


def test_a_control_record_without_a_type_is_reported_with_its_place(tmp_path: Path) -> None:
    record = RecordDraft(offset=0, timestamp_ms=0, key=b"\0", value=b"")
    draft = BatchDraft(base_offset=0, records=(record,), is_control=True, producer_id=1)
    log = with_log(picture("0:P1:A", tmp_path), write_batch(draft))
    for read in (
        lambda: rewrite_group(log.tier, a_task(log), nothing_superseded),
        lambda: scan_transactions(stored(write_batch(draft), where="a log")),
    ):
        with pytest.raises(CorruptLog, match="no readable type") as caught:
            read()
        assert caught.value.where in {"a log", str(path_of(log, 0, Part.LOG))}


def test_a_missing_transaction_index_stops_the_rewrite(tmp_path: Path) -> None:
    log = picture("P1(0:a=1) 1:P1:A 2:b=1", tmp_path)
    path_of(log, 0, Part.TRANSACTION_INDEX).unlink()
    before = files_of(log)
    with pytest.raises(UnreadableObject):
        rewritten(log)
    assert files_of(log) == before


def test_a_due_segment_is_written_even_if_nothing_is_removed(tmp_path: Path) -> None:
    # So that the catalog, which has that time, drops it.
    log = picture("0:a=1 1:b=1", tmp_path)
    (segment,) = log.segments
    for due_ms, result in ((NOW_MS, GroupResult.WRITTEN), (NOW_MS + 1, GroupResult.UNCHANGED)):
        dated = replace(log, segments=(replace(segment, earliest_due_ms=due_ms),))
        receipt = rewritten(dated)
        assert receipt.result is result
        if receipt.segment is not None:
            assert receipt.segment.earliest_due_ms is None
            assert drawn(replace(log, segments=(receipt.segment,))) == drawn(log)


def test_a_new_segment_is_due_with_its_earliest_record(tmp_path: Path) -> None:
    receipt = rewritten(picture("0:a=^900 1:b=1 | 2:c=^800 3:d= | 4:e=1", tmp_path))
    assert receipt.segment is not None
    assert receipt.segment.earliest_due_ms == 800


def test_a_horizon_that_only_a_batch_has_is_added_to_the_catalog(tmp_path: Path) -> None:
    log = picture("0:a=^900 1:b=1", tmp_path)
    (segment,) = log.segments
    known = replace(log, segments=(replace(segment, earliest_due_ms=900),))
    assert rewritten(known).result is GroupResult.UNCHANGED
    receipt = rewritten(log)
    assert receipt.segment is not None
    assert receipt.segment.earliest_due_ms == 900
    assert after(log, receipt) == drawn(log)


def test_horizons_are_found_in_what_brokers_wrote(tmp_path: Path) -> None:
    log = picture("0:a=^700 1:b=^600 | 2:c=^650 3:d=1 | 4:e=^40 5:f=1", tmp_path)
    assert rewritten(log).found_horizon_ms == 40
    ours = replace(log.segments[2], origin=Compacted("run"))
    assert rewritten(replace(log, segments=(*log.segments[:2], ours))).found_horizon_ms == 600
    assert rewritten(replace(log, segments=(ours,))).found_horizon_ms is None
