"""A segment as two tables holds what Kafka's own classes read in it."""

from __future__ import annotations

import pickle
import zlib
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.storage.kafka_dumps import GOLDEN, NAMES, kafka_reads
from tests.storage.legacy_messages import message, wrapper
from tests.storage.live_segments import data, log_of, marker
from tests.storage.tiers.aiven_samples import KEY_FILE, SAMPLES, Sample
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.jobs.verbs.dump import read_segment
from tierfold.storage.kafka.batch_draft import write_batch
from tierfold.storage.kafka.checksums import crc32c
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.segment_tables import BATCHES, RECORDS, SegmentTables
from tierfold.storage.tiers.layout_options import KeyFile, LayoutOptions


def stored(tmp_path: Path, log: bytes) -> str:
    path = tmp_path / "0.log"
    path.write_bytes(log)
    return str(path)


def flipped(batch: bytes) -> bytes:
    """The batch with a bad CRC."""
    return batch[:-1] + bytes([batch[-1] ^ 1])


def batches_of(found: SegmentTables) -> list[dict[str, Any]]:
    """Each row as `kafka_reads` has a batch."""
    rows = found.batches.to_pylist()
    times = ("base_timestamp", "max_timestamp", "delete_horizon")
    in_ms = {name: found.batches.column(name).cast("int64").to_pylist() for name in times}
    return [
        {
            "pos": row["position"],
            "size": row["size_bytes"],
            "baseOffset": row["base_offset"],
            "lastOffset": row["last_offset"],
            "magic": row["magic"],
            "codec": row["codec"],
            "producerId": row["producer_id"],
            "epoch": row["producer_epoch"],
            "baseSequence": row["base_sequence"],
            "partitionLeaderEpoch": row["leader_epoch"],
            "isTransactional": row["is_transactional"],
            "isControl": row["is_control"],
            "timestampType": row["timestamp_type"],
            "maxTimestamp": -1 if row["max_timestamp"] is None else in_ms["max_timestamp"][i],
            "deleteHorizonMs": in_ms["delete_horizon"][i],
            "crc": row["crc"],
            "count": row["records"],
            "baseTimestamp": in_ms["base_timestamp"][i],
        }
        for i, row in enumerate(rows)
    ]


def records_of(found: SegmentTables) -> list[tuple[int, dict[str, Any]]]:
    """Each row as `kafka_reads` has a record, with the batch's place."""
    times_ms = found.records.column("timestamp").cast("int64").to_pylist()
    return [
        (
            row["batch"],
            {
                "offset": row["offset"],
                "timestamp": -1 if time_ms is None else time_ms,
                "sequence": row["sequence"],
                "key": None if row["key"] is None else row["key"].hex(),
                "valueLen": -1 if row["value"] is None else len(row["value"]),
                "valueCrc32": None if row["value"] is None else f"{zlib.crc32(row['value']):08x}",
                "headers": [
                    [one["key"], None if one["value"] is None else one["value"].hex()]
                    for one in row["headers"] or ()
                ],
                "controlType": row["control_type"],
            },
        )
        for row, time_ms in zip(found.records.to_pylist(), times_ms, strict=True)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_segment_is_read_as_kafka_reads_it(name: str) -> None:
    found = read_segment(str(GOLDEN / f"{name}.log"))
    assert (found.batches.schema, found.records.schema) == (BATCHES, RECORDS)
    assert found.batches.column("is_valid").to_pylist() == [True] * len(found.batches)
    kafka = kafka_reads(name)
    expected_records = [
        (i, {"controlType": None} | {n: v for n, v in record.items() if n != "value"})
        for i, batch in enumerate(kafka)
        for record in batch.pop("records")
    ]
    counts = np.bincount([i for i, _ in expected_records], minlength=len(kafka)).tolist()
    found_batches = batches_of(found)
    for batch, count, own in zip(kafka, counts, found_batches, strict=True):
        batch["count"] = count
        if batch["magic"] < 2:
            del own["baseTimestamp"]
        else:
            is_time = batch["deleteHorizonMs"] is None and batch["baseTimestamp"] != -1
            batch["baseTimestamp"] = batch["baseTimestamp"] if is_time else None
    assert found_batches == kafka
    assert records_of(found) == expected_records


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_stored_log_is_read_as_the_log_itself(sample: Sample, tmp_path: Path) -> None:
    segment = sample.segments()[0]
    log = sample.bucket / f"{sample.key_prefix}{segment.stem}.log"
    keys = (KeyFile(key_id="key-1", path=str(KEY_FILE)),) if sample.keys else ()
    found = read_segment(str(log), LayoutOptions(key_files=keys))
    itself = read_segment(stored(tmp_path, segment.parts["log"]))
    assert found.path == str(log)
    assert (found.batches, found.records) == (itself.batches, itself.records)
    assert len(found.records) > 4000


def test_a_batch_with_a_bad_crc_has_no_records_and_hides_no_other(tmp_path: Path) -> None:
    batches = [write_batch(data(base, (b"a", b"b"), (b"c", b"d"))) for base in (0, 2, 4, 6)]
    log = flipped(batches[0]) + batches[1] + flipped(batches[2]) + batches[3]
    found = read_segment(stored(tmp_path, log))
    assert found.batches.column("is_valid").to_pylist() == [False, True, False, True]
    assert found.batches.column("base_offset").to_pylist() == [0, 2, 4, 6]
    assert found.batches.column("position").to_pylist() == [i * len(batches[0]) for i in range(4)]
    assert found.records.column("offset").to_pylist() == [2, 3, 6, 7]
    assert found.records.column("batch").to_pylist() == [1, 1, 3, 3]
    assert len(read_segment(stored(tmp_path, flipped(batches[0]))).records) == 0


def test_a_log_of_old_and_new_batches_counts_them_together(tmp_path: Path) -> None:
    packed = wrapper(2, message(0, b"x") + message(1, b"y") + message(2, b"z"))
    found = read_segment(stored(tmp_path, log_of([packed, data(3, (b"a", b"b"))])))
    assert found.batches.column("records").to_pylist() == [3, 1]
    assert found.records.column("batch").to_pylist() == [0, 0, 0, 1]


def test_of_a_spoilt_wrapper_no_count_is_known(tmp_path: Path) -> None:
    packed = wrapper(0, message(0, b"x"))
    found = read_segment(stored(tmp_path, flipped(packed)))
    assert found.batches.column("records").to_pylist() == [None]


def test_a_control_type_that_kafka_lacks_is_unknown(tmp_path: Path) -> None:
    head = marker(0, 7, ControlType.COMMIT)
    odd = replace(head, records=(replace(head.records[0], key=b"\x00\x00\x00\x63"),))
    found = read_segment(stored(tmp_path, log_of([odd, marker(1, 7, ControlType.KRAFT_VOTERS)])))
    assert found.records.column("control_type").to_pylist() == ["UNKNOWN", "KRAFT_VOTERS"]


def test_sequences_wrap_to_zero(tmp_path: Path) -> None:
    batch = replace(data(0, *[(b"k", b"v")] * 3, producer_id=7), base_sequence=2**31 - 2)
    found = read_segment(stored(tmp_path, log_of([batch])))
    assert found.records.column("sequence").to_pylist() == [2**31 - 2, 2**31 - 1, 0]


def test_a_segment_that_a_brokers_cleaner_emptied_has_no_rows(tmp_path: Path) -> None:
    found = read_segment(stored(tmp_path, b""))
    assert (found.batches.schema, found.records.schema) == (BATCHES, RECORDS)
    assert (len(found.batches), len(found.records)) == (0, 0)


@pytest.mark.parametrize("log", [None, b"\x00" * 9], ids=["missing", "torn"])
def test_what_is_no_segment_is_one_sentence(tmp_path: Path, log: bytes | None) -> None:
    path = str(tmp_path / "0.log") if log is None else stored(tmp_path, log)
    with pytest.raises(UnreadableObject if log is None else CorruptLog, match=path):
        read_segment(path)


def test_records_that_break_a_valid_batch_are_an_error(tmp_path: Path) -> None:
    broken = bytearray(write_batch(data(0, (b"a", b"b"))))
    broken[61] = 99  # The record's length.
    broken[17:21] = crc32c(np.frombuffer(broken, np.uint8)).to_bytes(4, "big")
    with pytest.raises(CorruptLog, match="its length leads out of the batch"):
        read_segment(stored(tmp_path, bytes(broken)))


def test_it_is_frozen_and_can_be_pickled(tmp_path: Path) -> None:
    batch = replace(data(0, (b"k", b"v")), codec=Codec.ZSTD)
    found = read_segment(stored(tmp_path, log_of([batch])))
    copy = pickle.loads(pickle.dumps(found))  # noqa: S301 - our own bytes
    assert (copy.path, copy.batches, copy.records) == (found.path, found.batches, found.records)
    assert repr(copy) == f"<SegmentTables of {tmp_path}/0.log: 1 batches, 1 records>"
    with pytest.raises(FrozenInstanceError):
        copy.path = "elsewhere"
