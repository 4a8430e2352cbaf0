"""The comparators accept Kafka's own result, and report each single change to it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.comparators import (
    equal_logs,
    expected_indexes,
    unequal_indexes,
    unequal_txnindexes,
)
from tests.oracle.kafka_lab import Batch, KafkaLab
from tests.oracle.remote_views import all_segments, to_local, to_remote

NOW_MS = 1_700_000_100_000
MADE: dict[str, Any] = {
    "seed": 11,
    "records": 1500,
    "keys": 500,
    "batch_records": "1:12",
    "codec": "none,lz4,zstd",
    "segment_bytes": "20k",
    "tombstones": 0.2,
    "headers": "1:2",
    "idem": 2,
    "txn": 3,
    "abort": 0.5,
    "ts_jitter": 300,
    "epochs": 2,
}


@pytest.fixture(scope="module")
def source(lab: KafkaLab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with every kind of batch."""
    folder = tmp_path_factory.mktemp("comparators") / "source" / "t-0"
    lab.make(folder, **MADE)
    return folder


@pytest.fixture(scope="module")
def cleaned(lab: KafkaLab, source: Path) -> Path:
    """The log cleaned into small segments; tombstones and markers have delete horizons."""
    out = source.parents[1] / "small" / "t-0"
    lab.clean(source, out, now_ms=NOW_MS, segment_bytes="8k")
    return out


@pytest.fixture
def expected(lab: KafkaLab, cleaned: Path) -> list[Batch]:
    """The batches of the cleaned log."""
    return lab.batches(cleaned)


def test_other_borders_are_no_difference(lab: KafkaLab, source: Path, cleaned: Path) -> None:
    large = source.parents[1] / "large" / "t-0"
    lab.clean(source, large, now_ms=NOW_MS, segment_bytes="1m")
    small_logs, large_logs = sorted(cleaned.glob("*.log")), sorted(large.glob("*.log"))
    assert len(small_logs) > len(large_logs)
    found = lab.batches(large)
    assert equal_logs(lab.batches(cleaned), found, lab.batches(source)) == []
    assert unequal_indexes(found, lab.side_files(large)) == []
    segments = all_segments(large, 10**6)
    assert unequal_txnindexes(lab.side_files(cleaned), lab.side_files(large), segments) == []


def test_other_delete_horizons_are_reported(lab: KafkaLab, source: Path, cleaned: Path) -> None:
    later = source.parents[1] / "later" / "t-0"
    lab.clean(source, later, now_ms=NOW_MS + 1, segment_bytes="8k")
    differences = equal_logs(lab.batches(cleaned), lab.batches(later))
    assert any("deleteHorizonMs is" in line for line in differences)


def test_indexes_of_an_appended_log_have_the_expected_entries(
    lab: KafkaLab, source: Path
) -> None:
    batches, side_files = lab.batches(source), lab.side_files(source)
    assert len(side_files["index"]) > 10
    assert unequal_indexes(batches, side_files) == []


BATCH_FIELDS = (
    *("baseOffset", "lastOffset", "magic", "attributes", "codec", "producerId", "epoch"),
    *("baseSequence", "lastSequence", "partitionLeaderEpoch", "isTransactional", "isControl"),
    *("timestampType", "baseTimestamp", "maxTimestamp", "deleteHorizonMs", "count", "valid"),
)
RECORD_FIELDS = ("offset", "timestamp", "sequence", "key", "valueLen", "valueCrc32", "headers")


@pytest.mark.parametrize("field", BATCH_FIELDS)
def test_a_change_of_any_batch_field_is_reported(expected: list[Batch], field: str) -> None:
    assert {*expected[0]} == {*BATCH_FIELDS, "file", "pos", "records", "size", "crc"}
    found = copy.deepcopy(expected)
    middle = found[len(found) // 2]
    middle[field] = not middle[field] if isinstance(middle[field], bool) else "changed"
    if field == "baseOffset":
        middle[field] = expected[len(found) // 2]["baseOffset"] + 1
    assert equal_logs(expected, found) != []


@pytest.mark.parametrize("field", RECORD_FIELDS)
def test_a_change_of_any_record_field_is_reported(expected: list[Batch], field: str) -> None:
    found = copy.deepcopy(expected)
    with_records = [batch for batch in found if batch["records"]]
    with_records[-1]["records"][-1][field] = "changed"
    assert len(equal_logs(expected, found)) == 1


def test_missing_and_unexpected_batches_and_records_are_reported(expected: list[Batch]) -> None:
    shorter = expected[:3] + expected[4:]
    name = f"batch {expected[3]['baseOffset']}..{expected[3]['lastOffset']} is "
    assert equal_logs(expected, shorter) == [name + "missing"]
    assert equal_logs(shorter, expected) == [name + "unexpected"]
    found = copy.deepcopy(expected)
    batch = next(batch for batch in found if len(batch["records"]) > 1)
    lost = batch["records"].pop()
    assert equal_logs(expected, found)[0].endswith(f"offset {lost['offset']} is missing")


def test_batches_out_of_order_are_reported(expected: list[Batch]) -> None:
    assert equal_logs(expected, [expected[1], expected[0], *expected[2:]]) != []


def test_a_changed_byte_of_a_value_is_reported(
    lab: KafkaLab, cleaned: Path, expected: list[Batch], tmp_path: Path
) -> None:
    batch = next(
        b for b in expected if b["codec"] == "none" and b["records"] and not b["isControl"]
    )
    raw = bytearray((cleaned / batch["file"]).read_bytes())
    raw[batch["pos"] + batch["size"] - 1] ^= 1
    (tmp_path / batch["file"]).write_bytes(raw)
    own = [b for b in expected if b["file"] == batch["file"]]
    differences = equal_logs(own, lab.batches(tmp_path))
    assert any("valid is False, expected True" in line for line in differences)


def test_a_compressed_batch_that_kafka_copied_must_have_the_same_bytes(
    lab: KafkaLab, source: Path, expected: list[Batch]
) -> None:
    originals = lab.batches(source)
    known = {(b["baseOffset"], b["crc"]) for b in originals}
    found = copy.deepcopy(expected)
    compressed = [b for b in found if b["codec"] != "none"]
    copied = next(b for b in compressed if (b["baseOffset"], b["crc"]) in known)
    rewritten = next(b for b in compressed if (b["baseOffset"], b["crc"]) not in known)
    rewritten["crc"] += 1
    assert equal_logs(expected, found, originals) == []
    copied["crc"] += 1
    assert len(equal_logs(expected, found, originals)) == 1


def test_a_wrong_or_missing_index_entry_is_reported(lab: KafkaLab, source: Path) -> None:
    batches, side_files = lab.batches(source), lab.side_files(source)
    for kind, field in (("index", "position"), ("timeindex", "timestamp"), ("index", "offset")):
        changed = copy.deepcopy(side_files)
        changed[kind][2][field] += 1
        assert len(unequal_indexes(batches, changed)) == 1
    changed = copy.deepcopy(side_files)
    del changed["timeindex"][-1]
    assert len(unequal_indexes(batches, changed)) == 1


def test_an_index_entry_comes_before_the_first_batch_after_the_interval() -> None:
    batches: list[Any] = [
        {"maxTimestamp": 5, "lastOffset": 9, "pos": 0, "size": 60},
        {"maxTimestamp": 3, "lastOffset": 19, "pos": 60, "size": 60},
        {"maxTimestamp": 8, "lastOffset": 29, "pos": 120, "size": 60},
        {"maxTimestamp": 8, "lastOffset": 39, "pos": 180, "size": 60},
    ]
    assert expected_indexes(batches, 100) == ([(29, 120)], [(8, 29)])
    assert expected_indexes(batches, 59) == (
        [(19, 60), (29, 120), (39, 180)],
        [(5, 9), (8, 29)],
    )
    assert expected_indexes([]) == ([], [])


def test_a_txnindex_entry_in_the_wrong_segment_and_a_missing_one_are_reported(
    lab: KafkaLab, source: Path, tmp_path: Path
) -> None:
    end = max(batch["lastOffset"] for batch in lab.batches(source))
    folder = to_remote(source, tmp_path, seed=1)
    segments = all_segments(folder, end)
    expected = lab.side_files(to_local(segments, tmp_path / "whole" / "t-0"))
    with_index = [segment for segment in segments if segment.part("txnindex").exists()]
    entries = with_index[0].part("txnindex").read_bytes()
    assert unequal_txnindexes(expected, expected, segments) == []
    with_index[0].part("txnindex").unlink()
    with_index[-1].part("txnindex").write_bytes(
        entries + with_index[-1].part("txnindex").read_bytes()
    )
    moved = lab.side_files(to_local(segments, tmp_path / "moved" / "t-0"))
    differences = unequal_txnindexes(expected, moved, segments)
    assert differences != []
    assert all("lists a marker at" in line for line in differences)
    with_index[-1].part("txnindex").write_bytes(b"")
    fewer = lab.side_files(to_local(segments, tmp_path / "fewer" / "t-0"))
    assert unequal_txnindexes(expected, fewer, segments)[0].startswith("txnindex lacks")
