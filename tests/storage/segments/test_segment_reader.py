"""Every batch and record of Kafka's own logs is read as Kafka reads it."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from tests.storage.kafka_dumps import GOLDEN, NAMES, kafka_reads, log_bytes, we_read
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.segments import segment_reader
from tierfold.storage.segments.segment_reader import read_segment


@pytest.mark.parametrize("name", NAMES)
def test_a_segment_is_read_as_kafka_reads_it(name: str) -> None:
    assert we_read(GOLDEN / f"{name}.log") == kafka_reads(name)


def test_the_golden_logs_hold_what_the_format_can() -> None:
    batches = [batch for name in NAMES for batch in kafka_reads(name)]
    records = [record for batch in batches for record in batch["records"]]
    assert {batch["codec"] for batch in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {batch["magic"] for batch in batches} == {0, 1, 2}
    assert {batch["timestampType"] for batch in batches} >= {"CreateTime", "LogAppendTime"}
    assert any(batch["deleteHorizonMs"] is not None for batch in batches)
    assert any(batch["magic"] == 2 and not batch["records"] for batch in batches)
    assert {record.get("controlType") for record in records} == {None, "ABORT", "COMMIT"}
    assert any(record["valueLen"] == -1 for record in records)
    assert any(
        header != ["", None] and header[1] is None for r in records for header in r["headers"]
    )


def test_the_example_of_the_module_runs() -> None:
    failed, tried = doctest.testmod(segment_reader)
    assert (failed, tried > 0) == (0, True)


def test_bytes_and_path_read_alike() -> None:
    assert we_read(log_bytes("v2lz4")) == we_read(GOLDEN / "v2lz4.log")


def test_an_empty_segment_has_no_batches() -> None:
    assert list(read_segment(b"").batches()) == []


def test_a_missing_file_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableObject, match="cannot be read"):
        read_segment(tmp_path / "none.log")


def test_a_legacy_log_may_turn_into_a_new_one() -> None:
    old = log_bytes("v1none")
    new = write_batch(BatchDraft(base_offset=1000))
    batches = list(read_segment(old + new).batches())
    assert [batch.magic for batch in batches][-2:] == [1, 2]
    assert batches[-1].base_offset == 1000


def test_sequences_wrap_to_zero() -> None:
    records = tuple(
        RecordDraft(offset=offset, timestamp_ms=0, key=b"k", value=b"v") for offset in (5, 6, 7)
    )
    draft = BatchDraft(
        base_offset=5, records=records, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2
    )
    (batch,) = read_segment(write_batch(draft)).batches()
    assert [record.sequence for record in batch.records] == [2**31 - 2, 2**31 - 1, 0]


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "torn.log"
    path.write_bytes(log_bytes("v2none")[:-1])
    with pytest.raises(CorruptLog, match=r"torn\.log: the log is torn at byte"):
        read_segment(path)
