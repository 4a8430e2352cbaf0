"""The parser of `DumpLogSegments` reports the tool's findings, and none for a sound log."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from tests.oracle.dumped_segments import Finding, parse_dump
from tests.oracle.fuzz_run import FuzzedTopic
from tests.oracle.kafka_lab import KafkaLab
from tests.spread import spread

NOW_MS = 1_700_000_100_000


@pytest.fixture(scope="module")
def cleaned(lab: KafkaLab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that Kafka wrote and cleaned, with uncompressed batches and several index entries."""
    folder = tmp_path_factory.mktemp("dumped")
    source = folder / "source" / "t-0"
    lab.make(source, seed=21, records=3000, keys=900, txn=2, abort=0.5, segment_bytes="60k")
    lab.clean(source, folder / "t-0", now_ms=NOW_MS, segment_bytes="1m")
    return folder / "t-0"


def _files(folder: Path) -> list[Path]:
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    return sorted(path for path in folder.iterdir() if path.suffix in suffixes)


@pytest.fixture
def folder(cleaned: Path, tmp_path: Path) -> Path:
    """A copy of the log that a test may damage."""
    return Path(shutil.copytree(cleaned, tmp_path / "t-0"))


def test_a_log_that_kafka_cleaned_has_no_findings(lab: KafkaLab, cleaned: Path) -> None:
    dumped = lab.dump_log_segments(_files(cleaned))
    assert dumped.findings == ()
    batches = lab.batches(cleaned)
    assert [int(b["baseOffset"]) for b in dumped.batches] == [b["baseOffset"] for b in batches]
    assert [b["crc"] for b in dumped.batches] == [str(b["crc"]) for b in batches]
    offsets = [record["offset"] for batch in batches for record in batch["records"]]
    assert [int(record["offset"]) for record in dumped.records] == offsets
    assert len(dumped.gaps) > 10
    side_files = lab.side_files(cleaned)
    kinds = (side_files["index"], side_files["timeindex"], side_files["txnindex"])
    assert len(dumped.entries) == sum(map(len, kinds)) + len(side_files["snapshot"])


@pytest.mark.parametrize(
    ("suffix", "at", "kinds"),
    [
        ("index", 4, {"offset index mismatch"}),
        ("timeindex", 0, {"timestamp mismatch", "timestamp out of order", "exception"}),
    ],
)
def test_a_wrong_index_entry_is_reported(
    lab: KafkaLab, folder: Path, suffix: str, at: int, kinds: set[str]
) -> None:
    index = folder / f"{0:020d}.{suffix}"
    second = lab.batches(folder)[1]["pos"]
    wrong = struct.pack(">i", second) if suffix == "index" else struct.pack(">q", NOW_MS * 2)
    raw = index.read_bytes()
    index.write_bytes(raw[:at] + wrong + raw[at + len(wrong) :])
    assert {finding.kind for finding in lab.dump_log_segments(_files(folder)).findings} == kinds


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_torn_index_is_reported(lab: KafkaLab, folder: Path, suffix: str) -> None:
    index = folder / f"{0:020d}.{suffix}"
    index.write_bytes(index.read_bytes()[:-3])
    findings = lab.dump_log_segments(_files(folder)).findings
    assert [finding.kind for finding in findings] == ["exception"]
    assert findings[0].file == str(index)
    assert "CorruptIndexException" in findings[0].detail
    assert index.stat().st_size % 4 == 1  # The tool trims the file that it reads.


def test_a_changed_byte_and_a_torn_log_are_reported(lab: KafkaLab, folder: Path) -> None:
    log = folder / f"{0:020d}.log"
    batch = next(b for b in lab.batches(folder) if b["records"] and not b["isControl"])
    raw = bytearray(log.read_bytes())
    raw[batch["pos"] + batch["size"] - 9] ^= 1  # Inside a value.
    log.write_bytes(raw)
    findings = lab.dump_log_segments([log]).findings
    assert [finding.kind for finding in findings] == ["invalid batch"]
    log.write_bytes(raw[:-5])
    findings = lab.dump_log_segments([log]).findings
    assert [finding.kind for finding in findings] == ["invalid batch", "invalid bytes"]


def test_a_broken_snapshot_is_reported(lab: KafkaLab, folder: Path) -> None:
    snapshot = sorted(folder.glob("*.snapshot"))[-1]
    raw = bytearray(snapshot.read_bytes())
    raw[-1] ^= 1
    snapshot.write_bytes(raw)
    findings = lab.dump_log_segments([snapshot]).findings
    assert len(findings) == 1
    assert "Snapshot is corrupt" in findings[0].detail


@pytest.mark.parametrize("count", [3, pytest.param(1000, marks=pytest.mark.soak)])
def test_a_log_that_tierfold_compacted_has_no_findings(
    lab: KafkaLab, fuzzed: dict[int, FuzzedTopic], count: int
) -> None:
    for topic in spread([*fuzzed.values()], count):
        for done in (topic.passes[0], topic.passes[-1]):  # The tool is slow.
            dumped = lab.dump_log_segments(_files(done.view))
            assert set(dumped.findings) <= _empty_batch_times(lab, done.view)


def _empty_batch_times(lab: KafkaLab, folder: Path) -> set[Finding]:
    """The false findings that the tool also has for Kafka's own cleaned logs.

    It takes a batch's largest timestamp from its records, but an emptied batch has none. The header
    and the time index keep the largest timestamp of the source (Kafka `LogSegment.append`).
    """
    return {
        Finding(
            kind="timestamp mismatch",
            file=str(folder / batch["file"].replace(".log", ".timeindex")),
            detail=f"Index timestamp: {batch['maxTimestamp']}, log timestamp: -1",
        )
        for batch in lab.batches(folder)
        if batch["count"] == 0
    }


def test_falling_offsets_are_findings_and_gaps_are_not() -> None:
    err = "Non-consecutive offsets in /x/0.log\n  -1 is followed by 7\n  9 is followed by 12\n"
    dumped = parse_dump("", err)
    assert dumped.gaps == ((9, 12),)
    assert dumped.findings == ()
    dumped = parse_dump("", err + "  12 is followed by 3\n")
    expected = Finding(kind="offsets fall", file="/x/0.log", detail="12 is followed by 3")
    assert dumped.findings == (expected,)


def test_unknown_lines_are_findings() -> None:
    dumped = parse_dump("Dumping /x/0.log\nsome new finding\n", "another\n")
    assert [finding.detail for finding in dumped.findings] == ["some new finding", "another"]
    dumped = parse_dump("Dumping /x/0.log\n", "", "java.lang.Boom: no\n\tat x\n")
    expected = Finding(kind="exception", file="/x/0.log", detail="java.lang.Boom: no")
    assert dumped.findings == (expected,)


def test_an_index_entry_for_a_missing_offset_is_reported() -> None:
    err = (
        "The following indexed offsets are not found in :/x/0.timeindex\n"
        "Indexed offset: 5, found log offset: 9\n"
    )
    detail = "Indexed offset: 5, found log offset: 9"
    expected = Finding(kind="offset not found", file="/x/0.timeindex", detail=detail)
    assert parse_dump("", err).findings == (expected,)
