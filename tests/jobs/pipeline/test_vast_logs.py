"""The verbs handle logs with more offsets than one segment can span."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from tests.jobs.commands import ALWAYS, Ran, status_of, tierfold
from tests.jobs.tiers import files_below, key_of, live_values, made_tier, put_segment
from tests.storage.live_segments import data
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.units import BATCH_HEADER_BYTES
from tierfold.jobs.sources.segment_options import FORMAT
from tierfold.jobs.sources.segment_source import register

M: Final = 2**31
"""As many offsets as a segment can have."""

LOCAL: Final = ("--engine", "local")
ON_THREADS: Final = (*ALWAYS, *LOCAL)

HEAD, MIDDLE, ROW = key_of("head"), key_of("middle"), key_of("row")

LIVE: Final = {
    "head": [(0, M - 1), (M, M + 1)],
    "middle": [(0, M - 1), (M, 2 * M - 1), (2 * M, 2 * M)],
    # The third and the fourth became one: together they have the maximum number of offsets.
    "row": [(0, M - 1), (M, 2 * M - 1), (2 * M, 3 * M - 1), (3 * M, 3 * M + 1)],
}
"""The first and last offset of each live segment after the first run."""

EMPTIED: Final = {"head": [0], "middle": [1], "row": [0, 1, 2]}
"""Which of them are only an empty batch."""

VALUES: Final[dict[str, dict[bytes | None, bytes | None]]] = {
    "head": {b"k": b"new", b"l": b"1"},
    "middle": {b"stays": b"1", b"k": b"new"},
    "row": {b"k": b"new", b"l": b"1"},
}


def put_wide(tier: Path, key: PartitionKey, first: int, last: int, name: bytes = b"k") -> None:
    """Write a segment of one record; an earlier cleaning left its batch with these offsets."""
    batch = replace(data(first, (name, b"1")), last_offset=last)
    put_segment(tier, key, [batch], start_offset=first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A tier of such logs, and the output of the verbs."""

    tier: Path
    first: Ran
    status: dict[tuple[str, int], dict[str, Any]]
    """After the first run."""
    after: dict[str, str]
    """Every file of the tier after the first run."""


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    tier = made_tier(tmp_path_factory.mktemp("vast") / "tier")
    put_wide(tier, HEAD, 0, M - 1)
    put_segment(tier, HEAD, [data(M, (b"k", b"new"), (b"l", b"1"))], start_offset=M)
    put_wide(tier, MIDDLE, 0, M - 1, b"stays")
    put_wide(tier, MIDDLE, M, 2 * M - 1)
    put_segment(tier, MIDDLE, [data(2 * M, (b"k", b"new"))], start_offset=2 * M)
    for start, end in ((0, M), (M, 2 * M), (2 * M, 2 * M + 5), (2 * M + 5, 3 * M)):
        put_wide(tier, ROW, start, end - 1)
    put_segment(tier, ROW, [data(3 * M, (b"k", b"new"), (b"l", b"1"))], start_offset=3 * M)
    first = tierfold("compact", tier, *ON_THREADS, "--set", "segment.bytes=1", "--json")
    return Course(tier=tier, first=first, status=status_of(tier), after=objects_of(tier))


def objects_of(tier: Path) -> dict[str, str]:
    return files_below(tier / "kafka-tiered-storage")


def test_such_logs_are_compacted_and_empty_segments_are_one_batch(course: Course) -> None:
    assert course.first.code == 0, course.first.stderr
    assert set(course.first.outcomes.values()) == {"compacted"}
    for (topic, _), entry in course.status.items():
        segments = entry["segments"]
        spans = [(segment["start_offset"], segment["end_offset"]) for segment in segments]
        assert spans == LIVE[topic]
        sizes = [segment["size_bytes"] for segment in segments]
        empty = [i for i, size in enumerate(sizes) if size == BATCH_HEADER_BYTES]
        assert empty == EMPTIED[topic]
        assert live_values(entry) == VALUES[topic]


def test_verify_and_dump_read_the_empty_segments(course: Course) -> None:
    ran = tierfold("verify", course.tier, *LOCAL, "--json")
    assert ran.code == 0, ran.stdout
    found = {entry["topic"]: entry for entry in ran.entries}
    assert all(report["corruptions"] == [] for report in found.values())
    compared = {topic: report["keys_compared"] for topic, report in found.items()}
    assert compared == {topic: len(values) for topic, values in VALUES.items()}
    log = course.status["head", 0]["segments"][0]["log"]
    dumped = tierfold("dump", log)
    assert dumped.code == 0
    (batch,) = map(json.loads, dumped.stdout.splitlines())
    assert (batch["baseOffset"], batch["lastOffset"], batch["count"]) == (0, M - 1, 0)


@pytest.mark.parametrize(
    ("forced", "outcome"), [((), "nothing_to_do"), (("--first-dirty", "0"), "compacted")]
)
def test_a_further_run_writes_nothing(
    course: Course, tmp_path: Path, forced: tuple[str, ...], outcome: str
) -> None:
    tier = Path(shutil.copytree(course.tier, tmp_path / "tier"))
    ran = tierfold("compact", tier, *ON_THREADS, *forced, "--json")
    assert (ran.code, set(ran.outcomes.values())) == (0, {outcome})
    assert objects_of(tier) == course.after


def test_spark_reads_the_latest_records(course: Course, spark: SparkSession) -> None:
    register(spark)
    rows = spark.read.format(FORMAT).load(str(course.tier)).collect()
    found: dict[str, dict[bytes, bytes]] = {topic: {} for topic in VALUES}
    for row in rows:
        found[row["topic"]][bytes(row["key"])] = bytes(row["value"])
    assert found == VALUES


def test_a_log_goes_on_beyond_an_empty_segment(course: Course, tmp_path: Path) -> None:
    tier = Path(shutil.copytree(course.tier, tmp_path / "tier"))
    put_segment(tier, HEAD, [data(M + 2, (b"l", b"2"))], start_offset=M + 2)
    ran = tierfold("compact", tier, *ON_THREADS, "--topic", "head", "--json")
    assert (ran.code, ran.outcomes) == (0, {("head", 0): "compacted"})
    entry = status_of(tier)["head", 0]
    assert live_values(entry) == {b"k": b"new", b"l": b"2"}
    lone, rest = entry["segments"]
    assert lone["id"] == course.status["head", 0]["segments"][0]["id"]
    assert (rest["start_offset"], rest["end_offset"]) == (M, M + 2)
    assert tierfold("verify", tier, *LOCAL, "--topic", "head").code == 0
