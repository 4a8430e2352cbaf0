"""Of tiers with holes, or whose log start moved, tierfold keeps what Kafka's cleaner keeps.

The tiers of `tests/data/real-logs`, and one of them in Aiven's layout, in four passes each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

import tierfold as tierfold_api
from tests.jobs.commands import tierfold
from tests.jobs.real_logs import (
    COMPACTED,
    EMPTIED,
    LAST_MS,
    LOG_START_MOVED,
    in_aiven,
    unpacked,
    with_ends,
)
from tests.oracle.comparators import equal_logs, gaps_and_overlaps, unequal_indexes
from tests.oracle.fuzz_run import compacted_at
from tests.oracle.kafka_lab import Batch, KafkaLab
from tests.oracle.remote_views import RemoteSegment, all_segments, live_segments, to_local
from tests.storage.tiers.aiven_objects import Variant
from tests.storage.tiers.aiven_tiers import (
    local_segments_in,
    segments_in,
    write_aiven,
    write_local,
)

DAY_MS: Final = 86_400_000
PASSES_MS: Final = (LAST_MS, LAST_MS + 1, LAST_MS + DAY_MS, LAST_MS + 3 * DAY_MS)
"""The second pass finds no horizon that has passed, the others find all."""

SETTINGS: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0,
    "delete.retention.ms": DAY_MS,
    "segment.bytes": 2**20,
    "tier.binding": "detached",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A tier, and the option that it needs."""

    name: str
    end_offset: int
    options: tuple[str, ...] = ()
    is_aiven: bool = False
    segment_bytes: int = 2**20

    @property
    def topic(self) -> str:
        return "ar" if self.name == LOG_START_MOVED else "ct"

    def __str__(self) -> str:
        return f"{self.name}-{'aiven' if self.is_aiven else 'local'}-{self.segment_bytes}"

    def tier(self, folder: Path) -> tuple[Path, Path]:
        """The tier to compact, and the same in LocalTieredStorage."""
        local = unpacked(self.name, folder / "unpacked")
        if not self.is_aiven:
            return local, local
        return in_aiven(local, folder / "aiven", self.end_offset), local


HOLES: Final = ("--holes-are-holes", "ct-0")
CASES: Final = (
    Case(name=COMPACTED, end_offset=33_999, options=HOLES),
    Case(name=COMPACTED, end_offset=33_999, is_aiven=True),
    Case(name=EMPTIED, end_offset=33_999, options=HOLES),
    # Every segment with records is a group of its own.
    Case(name=EMPTIED, end_offset=33_999, options=HOLES, segment_bytes=2**10),
    Case(name=LOG_START_MOVED, end_offset=23_999),
)


def in_soak(*cases: Case) -> list[Any]:
    """Cases for `make soak` alone."""
    return [pytest.param(case, marks=pytest.mark.soak) for case in cases]


def cleaned(
    lab: KafkaLab, source: Path, out: Path, now_ms: int, segment_bytes: int = 2**20
) -> Path:
    """Run Kafka's cleaner over a local log; return its result."""
    lab.clean(
        source,
        out,
        now_ms=now_ms,
        first_dirty=0,
        delete_retention_ms=DAY_MS,
        segment_bytes=segment_bytes,
        producer_expiration_ms=DAY_MS,
    )
    return out


def local_view(case: Case, tier: Path, live: tuple[RemoteSegment, ...], folder: Path) -> Path:
    """The live segments under local names."""
    if case.is_aiven:
        by_id = {segment.segment_id: segment for segment in segments_in(tier)}
        plain = [by_id[segment.log.stem[21:]] for segment in live]
        (place,) = (write_local(folder / "tier", plain) / "kafka-tiered-storage").iterdir()
        live = tuple(
            RemoteSegment(
                start_offset=segment.start_offset,
                end_offset=segment.end_offset,
                log=place / segment.log.name,
            )
            for segment in live
        )
    return to_local(live, folder / f"{case.topic}-0")


@pytest.mark.parametrize("case", [CASES[0], *in_soak(*CASES[1:])], ids=str)
def test_four_passes_leave_what_kafka_leaves(lab: KafkaLab, case: Case, tmp_path: Path) -> None:
    tier, local = case.tier(tmp_path)
    (folder,) = (local / "kafka-tiered-storage").iterdir()
    uploaded = all_segments(folder, case.end_offset)
    before = to_local(uploaded, tmp_path / "before" / f"{case.topic}-0")
    counts = [len(lab.batches(before))]
    for number, now_ms in enumerate(PASSES_MS):
        options = ("--engine", "local", "--first-dirty", "0")
        consent = case.options if number == 0 else ()
        settings = SETTINGS | {"segment.bytes": case.segment_bytes}
        done = compacted_at(tier, now_ms, settings, (*options, *consent))
        report, status = done[case.topic]
        live = live_segments(status)
        place = tmp_path / f"pass-{number}"
        source, out = before, place / "oracle" / before.name
        before = cleaned(lab, source, out, now_ms, case.segment_bytes)
        view = local_view(case, tier, live, place)
        found = lab.batches(view)
        assert equal_logs(lab.batches(before), found, lab.batches(source)) == [], report
        assert unequal_indexes(found, lab.side_files(view)) == []
        assert gaps_and_overlaps(live, case.end_offset + 1) == []
        counts.append(len(found))
    assert 0 < counts[-1] < counts[0]
    assert "agree with the originals" in tierfold("verify", tier, "--engine", "local").stdout


@pytest.mark.soak
@pytest.mark.parametrize("case", [CASES[3], CASES[1]], ids=str)
def test_readers_get_the_records_that_kafka_has_before_and_after(
    spark: SparkSession, lab: KafkaLab, case: Case, tmp_path: Path
) -> None:
    tier, local = case.tier(tmp_path)
    (folder,) = (local / "kafka-tiered-storage").iterdir()
    before = to_local(all_segments(folder, case.end_offset), tmp_path / "before" / "ct-0")
    consent = {"holes_are_holes": "ct-0"} if case.options else {}

    def read() -> list[int]:
        found = tierfold_api.read(tier, ["offset"], spark=spark, **consent).collect()
        return sorted(row["offset"] for row in found)

    assert read() == offsets_of(lab.batches(before))
    options = ("--engine", "local", "--first-dirty", "0", *case.options)
    compacted_at(tier, LAST_MS, SETTINGS, options)
    consent.clear()
    oracle = cleaned(lab, before, tmp_path / "oracle" / "ct-0", LAST_MS)
    assert read() == offsets_of(lab.batches(oracle))


def offsets_of(batches: Iterable[Batch]) -> list[int]:
    """The offsets of all records."""
    return [record["offset"] for batch in batches for record in batch["records"]]


def test_at_a_hole_at_the_remote_end_an_empty_batch_is_added(
    lab: KafkaLab, tmp_path: Path
) -> None:
    local = unpacked(COMPACTED, tmp_path / "unpacked")
    # The first segment alone: its last batch ends at 6316, and its range at 6317.
    first = with_ends(local_segments_in(local)[:1], 6317)
    tier = write_aiven(tmp_path / "tier", first, Variant())
    done = compacted_at(tier, LAST_MS, SETTINGS, ("--engine", "local", "--first-dirty", "0"))
    live = live_segments(done["ct"][1])
    case = Case(name=COMPACTED, end_offset=6317, is_aiven=True)
    (folder,) = (local / "kafka-tiered-storage").iterdir()
    before = to_local(all_segments(folder, 33_999)[:1], tmp_path / "before" / "ct-0")
    oracle = cleaned(lab, before, tmp_path / "oracle" / "ct-0", LAST_MS)
    found = lab.batches(local_view(case, tier, live, tmp_path / "found"))
    assert equal_logs(lab.batches(oracle), found, lab.batches(before)) == [
        "batch 6317..6317 is unexpected"
    ]
    assert "verified: 1 segment" in tierfold("verify", tier, "--engine", "local").stdout
