"""`dump` prints batches and records as Kafka's own tool does, and reports corruption."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.storage.kafka_dumps import GOLDEN, NAMES, kafka_reads
from tests.storage.live_segments import data, marker
from tests.storage.special_files import SPECIAL_FILES
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.jobs.cli import commands
from tierfold.jobs.cli.exit_codes import EXIT_PARTITION_FAILED
from tierfold.jobs.verbs.dump import dump_lines, read_segment
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.checksums import crc32c
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.control_records import ControlType, end_marker

ROOT = Path(__file__).resolve().parents[3]
SNAPSHOT_KEY = end_marker(0, ControlType.SNAPSHOT_HEADER)[0]
BATCH = BatchDraft(
    base_offset=5,
    records=(
        RecordDraft(
            offset=5,
            timestamp_ms=1000,
            key="schlüssel".encode(),
            value=b"\xff\x00",
            headers=((b"trace", b"\xfe"), (b"empty", None)),
        ),
        RecordDraft(offset=8, timestamp_ms=900, key=None, value=b"line\nend"),
    ),
    last_offset=9,
    codec=Codec.ZSTD,
    leader_epoch=4,
    producer_id=77,
    producer_epoch=2,
    base_sequence=2**31 - 2,
    delete_horizon_ms=950,
)


def dumped(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dump_lines(str(path))]


def segment(tmp_path: Path, *batches: BatchDraft | bytes) -> Path:
    path = tmp_path / "0.log"
    path.write_bytes(
        b"".join(batch if isinstance(batch, bytes) else write_batch(batch) for batch in batches)
    )
    return path


def test_a_batch_and_its_records_are_printed_as_kafka_does(tmp_path: Path) -> None:
    path = segment(tmp_path, BATCH)
    batch, first, second = dumped(path)
    assert batch == {
        "t": "batch",
        "baseOffset": 5,
        "lastOffset": 9,
        "count": 2,
        "baseSequence": 2**31 - 2,
        "lastSequence": 2,
        "producerId": 77,
        "producerEpoch": 2,
        "partitionLeaderEpoch": 4,
        "isTransactional": False,
        "isControl": False,
        "deleteHorizonMs": 950,
        "position": 0,
        "timestampType": "CreateTime",
        "maxTimestamp": 1000,
        "baseTimestamp": 950,
        "size": path.stat().st_size,
        "magic": 2,
        "compresscodec": "zstd",
        "crc": int.from_bytes(path.read_bytes()[17:21], "big"),
        "isvalid": True,
    }
    assert first == {
        "t": "record",
        "offset": 5,
        "timestamp": 1000,
        "keySize": 10,
        "valueSize": 2,
        "sequence": 2**31 - 2,
        "headerKeys": ["trace", "empty"],
        "headers": [{"key": "trace", "valueHex": "fe"}, {"key": "empty", "value": None}],
        "key": "schlüssel",
        "valueHex": "ff00",
    }
    assert (second["key"], second["keySize"], second["sequence"]) == (None, -1, 1)
    assert second["value"] == "line\nend"


def test_control_records_say_what_they_end(tmp_path: Path) -> None:
    path = segment(
        tmp_path,
        data(0, (b"k", None), producer_id=7),
        marker(1, 7, ControlType.ABORT),
        marker(2, 7, ControlType.COMMIT),
    )
    batch, tombstone, *controls = dumped(path)
    assert (batch["isTransactional"], batch["isControl"]) == (True, False)
    assert (tombstone["value"], tombstone["valueSize"]) == (None, -1)
    assert [control.get("isControl") for control in controls] == [True, None, True, None]
    assert [
        (control["endTxnMarker"], control["coordinatorEpoch"]) for control in controls[1::2]
    ] == [("ABORT", 0), ("COMMIT", 0)]


def test_other_control_records_are_printed_whole(tmp_path: Path) -> None:
    head = marker(0, -1, ControlType.COMMIT)
    record = replace(head.records[0], key=SNAPSHOT_KEY, value=b"v")
    _, told = dumped(segment(tmp_path, replace(head, records=(record,))))
    assert told["controlType"] == "SNAPSHOT_HEADER"
    assert (told["key"], told["value"]) == ("\x00\x00\x00\x03", "v")


@pytest.mark.parametrize("name", NAMES)
def test_every_segment_is_printed_as_kafka_does(name: str) -> None:
    lines = dumped(GOLDEN / f"{name}.log")
    batches = [line for line in lines if line["t"] == "batch"]
    records = [line for line in lines if line["t"] == "record"]
    kafka = kafka_reads(name)
    assert [
        (batch["baseOffset"], batch["lastOffset"], batch["magic"], batch["compresscodec"])
        for batch in batches
    ] == [(read["baseOffset"], read["lastOffset"], read["magic"], read["codec"]) for read in kafka]
    assert [batch["timestampType"] for batch in batches] == [
        read["timestampType"] for read in kafka
    ]
    assert [(record["offset"], record["timestamp"], record["valueSize"]) for record in records] == [
        (record["offset"], record["timestamp"], record["valueLen"])
        for read in kafka
        for record in read["records"]
    ]


def test_a_bad_crc_is_reported_and_then_the_rest(tmp_path: Path) -> None:
    spoilt = bytearray(write_batch(data(1, (b"a", b"b"))))
    spoilt[-1] ^= 1
    path = segment(tmp_path, data(0, (b"a", b"b")), bytes(spoilt), data(2, (b"a", b"b")))
    lines: list[dict[str, Any]] = []
    with pytest.raises(CorruptLog, match="1 of 3 batches have a bad CRC, the first at") as caught:
        lines.extend(json.loads(line) for line in dump_lines(str(path)))
    assert "base offset 1" in str(caught.value)


def test_lines_before_the_corruption_are_printed(tmp_path: Path) -> None:
    spoilt = bytearray(write_batch(data(1, (b"a", b"b"))))
    spoilt[-1] ^= 1
    path = segment(tmp_path, bytes(spoilt), data(2, (b"a", b"b")), b"\x00" * 20)
    lines = dump_lines(str(path))
    told = [json.loads(next(lines)) for _ in range(3)]
    assert [line.get("isvalid") for line in told] == [False, True, None]
    with pytest.raises(CorruptLog):
        next(lines)


def test_records_that_break_a_valid_batch_end_the_dump(tmp_path: Path) -> None:
    broken = bytearray(write_batch(data(0, (b"a", b"b"))))
    broken[61] = 99  # The record's length.
    crc = crc32c(np.frombuffer(broken, np.uint8))
    broken[17:21] = crc.to_bytes(4, "big")
    lines = dump_lines(str(segment(tmp_path, bytes(broken))))
    assert json.loads(next(lines))["isvalid"]
    with pytest.raises(CorruptLog, match="its length leads out of the batch"):
        next(lines)


def test_a_segment_that_a_brokers_cleaner_emptied_has_no_batch(tmp_path: Path) -> None:
    assert list(dump_lines(str(segment(tmp_path, b"")))) == []


@pytest.mark.parametrize(
    ("content", "error"), [(None, UnreadableObject), (b"\x00" * 9, CorruptLog)]
)
def test_what_is_no_segment_is_one_sentence_and_exit_code_3(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
    error: type[Exception],
) -> None:
    path = tmp_path / "0.log"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error):
        dumped(path)
    monkeypatch.setattr("sys.argv", ["tierfold", "dump", str(path)])
    with pytest.raises(SystemExit) as left:
        commands.main()
    assert left.value.code == EXIT_PARTITION_FAILED
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert str(path) in printed.err


@pytest.mark.parametrize("special", SPECIAL_FILES.values(), ids=SPECIAL_FILES)
@pytest.mark.parametrize("suffix", [".log", ".rsm-manifest"])
def test_what_is_no_regular_file_is_not_opened(
    tmp_path: Path, suffix: str, special: Callable[[Path], None]
) -> None:
    """A FIFO would pass for an empty log, or hold the process as a manifest."""
    (first, _) = sorted((ROOT / "tests/data/aiven/plain/bucket").rglob("*.log"))
    folder = tmp_path / first.parent.parent.name / "0"
    folder.mkdir(parents=True)
    for name in {".log", ".rsm-manifest"} - {suffix}:
        (folder / f"{first.stem}{name}").write_bytes(first.with_suffix(name).read_bytes())
    special(folder / f"{first.stem}{suffix}")
    with pytest.raises(UnreadableObject, match="no regular file"):
        dumped(folder / first.name)


@pytest.mark.parametrize("special", SPECIAL_FILES.values(), ids=SPECIAL_FILES)
@pytest.mark.parametrize("read", [dumped, lambda path: read_segment(str(path))])
def test_a_log_alone_is_a_regular_file(
    tmp_path: Path, read: Callable[[Path], object], special: Callable[[Path], None]
) -> None:
    special(path := tmp_path / "0.log")
    with pytest.raises(UnreadableObject, match="no regular file"):
        read(path)


def test_a_plain_log_of_aivens_plugin_is_printed() -> None:
    (first, _) = sorted((ROOT / "tests/data/aiven/plain/bucket").rglob("*.log"))
    assert dumped(first)[0]["baseOffset"] == 9188


def test_a_key_cannot_drive_the_terminal(tmp_path: Path) -> None:
    key = "\x1b[2J \x9b2J \x7f \u202eright to left\u2028 größe \U0001f600 \U000e0001"
    path = segment(tmp_path, write_batch(data(0, (key.encode(), b"\x1b]0;title\x07"))))
    lines = list(dump_lines(str(path)))
    assert all(line.isprintable() for line in lines)
    entry = json.loads(lines[1])
    assert (entry["key"], entry["value"]) == (key, "\x1b]0;title\x07")
    assert "größe \U0001f600" in lines[1]


def test_the_verb_prints_the_lines(tmp_path: Path) -> None:
    path = segment(tmp_path, data(0, (b"k", b"v")))
    done = CliRunner().invoke(commands.tierfold, ["dump", str(path)])
    assert done.exit_code == 0
    assert done.output.splitlines() == list(dump_lines(str(path)))
