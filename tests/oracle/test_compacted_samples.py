"""Of segments that a broker uploaded with Aiven's plugin, tierfold keeps what Kafka keeps."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.aiven import CASES
from tests.jobs.commands import ALWAYS, CLOCK, Ran, tierfold
from tests.oracle.comparators import equal_logs, unequal_indexes
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.remote_views import RemoteSegment, to_local
from tests.storage.tiers.aiven_objects import PlainSegment
from tests.storage.tiers.aiven_samples import KEY_FILE, SAMPLES, ZSTD, Sample
from tests.storage.tiers.aiven_tiers import segments_in, write_aiven, write_local

NOW_MS: Final = 1_795_250_000_000
"""An hour after the last record of the samples."""

DAY_MS: Final = 86_400_000
SEGMENT_BYTES: Final = 2**30
CHUNK_BYTES: Final = 997
"""So small that most batches have several chunks; in `CASES`, for short logs, it is a tenth."""


def arguments(sample: Sample) -> tuple[str, ...]:
    key = ("--encryption-key", f"key-1={KEY_FILE}") if sample.keys else ()
    return (*key, *(("--key-prefix", sample.key_prefix) if sample.key_prefix else ()))


def ran(*words: str | Path) -> Ran:
    found = tierfold(*words)
    assert found.code == 0, found
    return found


def compacted(tier: Path, *options: str) -> list[dict[str, Any]]:
    """Compact and verify; return the live segments as `status` lists them."""
    now = (CLOCK, str(NOW_MS))
    done = ran("compact", tier, *ALWAYS, *now, *options, "--json")
    assert [entry["outcome"] for entry in done.entries] == ["compacted"]
    assert "agree with the originals" in ran("verify", tier, *options).stdout
    (entry,) = ran("status", tier, *options, "--json", "--segments").entries
    live: list[dict[str, Any]] = entry["segments"]
    return live


def local_view(segments: Sequence[PlainSegment], ends: Sequence[int], folder: Path) -> Path:
    """A folder with the segments under local names; `ends` are their last offsets."""
    tier = write_local(folder / "tier", segments)
    logs = [next(tier.rglob(f"*-{segment.segment_id}.log")) for segment in segments]
    remote = [
        RemoteSegment(start_offset=segment.start_offset, end_offset=end, log=log)
        for segment, end, log in zip(segments, ends, logs, strict=True)
    ]
    return to_local(remote, folder / f"{segments[0].topic}-0")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_compacted_sample_has_what_kafka_leaves(
    lab: KafkaLab, sample: Sample, tmp_path: Path
) -> None:
    tier = Path(shutil.copytree(sample.bucket, tmp_path / "tier"))
    uploaded = sample.segments()
    live = compacted(tier, *arguments(sample))
    last = live[-1]["end_offset"]
    ends = [segment.start_offset - 1 for segment in uploaded[1:]]
    source = local_view(uploaded, [*ends, last], tmp_path / "source")
    oracle = tmp_path / "oracle" / source.name
    lab.clean(
        source,
        oracle,
        now_ms=NOW_MS,
        first_dirty=uploaded[0].start_offset,
        delete_retention_ms=DAY_MS,
        segment_bytes=SEGMENT_BYTES,
        producer_expiration_ms=DAY_MS,
    )
    by_id = {one.segment_id: one for one in segments_in(tier, sample.key_prefix, sample.keys)}
    found = [by_id[Path(entry["log"]).stem[21:]] for entry in live]
    view = local_view(found, [entry["end_offset"] for entry in live], tmp_path / "found")
    expected, batches = lab.batches(oracle), lab.batches(view)
    assert 0 < len(batches) < len(lab.batches(source))
    assert equal_logs(expected, batches, lab.batches(source)) == []
    assert unequal_indexes(batches, lab.side_files(view)) == []


def test_all_variants_of_a_sample_get_the_same_log(tmp_path: Path) -> None:
    logs = []
    for case in CASES:
        variant = replace(case.variant, chunk_bytes=CHUNK_BYTES)
        tier = write_aiven(tmp_path / case.name, ZSTD.segments(), variant)
        live = compacted(tier, *case.arguments)
        decoded = case.segments(tier)
        logs.append([decoded[Path(entry["log"]).stem[21:]].parts for entry in live])
    assert logs[0][0]["log"]
    assert logs == [logs[0]] * len(CASES)
