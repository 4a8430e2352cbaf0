"""Kafka's own classes read a segment with one empty batch, and the segments on both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.remote_views import RemoteSegment, to_local
from tests.pictures.cleaning import APART, cleaned
from tests.pictures.log_pictures import KEY, Log, drawn, picture
from tierfold.storage.tiers.remote_tier import Part, address_of

M: Final = 2**31
"""The most offsets that a segment can have."""
NOW_MS: Final = 1_700_000_100_000


def view_of(log: Log, folder: Path) -> Path:
    """A folder with the live segments under local names."""
    segments = [
        RemoteSegment(
            start_offset=segment.start_offset,
            end_offset=segment.end_offset,
            log=Path(log.tier.uri(address_of(KEY, segment), Part.LOG)),
        )
        for segment in log.segments
    ]
    return to_local(segments, folder / "pictures-0")


def test_kafka_reads_and_cleans_a_compacted_vast_log(lab: KafkaLab, tmp_path: Path) -> None:
    log = picture(
        f"0-{M - 1}:[0:a=1] | {M}:=1 ..{2 * M - 1} | {2 * M}:b=1 {2 * M + 1}:a=2",
        tmp_path / "tier",
    )
    before = view_of(log, tmp_path / "before")
    log = cleaned(log, rules=APART)
    assert drawn(log) == (
        f"0-{M - 1}:() | {M}.. {2 * M - 1}:() | {2 * M}:b=1 {2 * M + 1}:a=2"
    )
    after = view_of(log, tmp_path / "after")
    batches = lab.batches(after)
    assert all(batch["valid"] for batch in batches)
    spans = [(batch["baseOffset"], batch["lastOffset"], batch["count"]) for batch in batches]
    assert spans[:2] == [(0, M - 1, 0), (2 * M - 1, 2 * M - 1, 0)]
    records = [record["offset"] for batch in batches for record in batch["records"]]
    assert records == [2 * M, 2 * M + 1]
    files = [path for path in after.iterdir() if path.suffix in (".log", ".index", ".timeindex")]
    # An emptied batch keeps its largest timestamp, as after Kafka's cleaner, but the tool looks for
    # timestamps in records.
    findings = lab.dump_log_segments(files).findings
    assert [(Path(finding.file).name, finding.detail) for finding in findings] == [
        (f"{0:020d}.timeindex", "Index timestamp: 0, log timestamp: -1")
    ]
    # Kafka's cleaner keeps the same records of both logs.
    for name, source in (("a", before), ("b", after)):
        out = tmp_path / name / "pictures-0"
        done = lab.clean(source, out, now_ms=NOW_MS)
        assert done["endOffset"] == 2 * M + 2
        kept = [record["offset"] for batch in lab.batches(out) for record in batch["records"]]
        assert kept == records
