"""The newest record of each key is what Kafka's cleaner leaves, and what Kafka's reader finds.

No broker has the strategy `timestamp` (KIP-280). For it, the expected records come from a
dictionary of all records that Kafka's reader finds.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from pyspark.sql import DataFrame, SparkSession

import tierfold
from tests.oracle.fuzz_run import PASSES_MS, settings_of_kafka
from tests.oracle.kafka_lab import Batch, KafkaLab, Record, is_aborted
from tests.oracle.recipes import LEGACY_FROM, recipe
from tests.oracle.remote_views import to_remote

SEEDS: Final = (*range(6), LEGACY_FROM)

Row: TypeAlias = tuple[str, int, str, int]
"""Topic, offset, key in hex, CRC32 of the value."""


class Log:
    """A seed's uploaded segments as Kafka reads them, and after Kafka's cleaner."""

    def __init__(self, lab: KafkaLab, folder: Path, tier: Path, seed: int) -> None:
        self.topic = f"t{seed}"
        source = folder / "made" / f"{self.topic}-0"
        stable = lab.make(source, **recipe(seed))["lastStableOffset"]
        starts = sorted(int(log.stem) for log in source.glob("*.log"))
        to_remote(source, tier, seed)
        self.end = min(starts[-1], stable)  # The active segment is not uploaded.
        aborted = lab.side_files(source)["txnindex"]
        self.before = self._committed(lab.batches(source), aborted)
        cleaned = folder / "cleaned" / source.name
        lab.clean(source, cleaned, now_ms=PASSES_MS[0], **settings_of_kafka(first_dirty=0))
        left = lab.side_files(cleaned)["txnindex"]
        self.cleaned = self._committed(lab.batches(cleaned), left)

    def _committed(self, batches: Iterable[Batch], aborted: list[dict[str, Any]]) -> list[Record]:
        return [
            record
            for batch in batches
            if not batch["isControl"] and not is_aborted(batch, aborted)
            for record in batch["records"]
            if record["offset"] < self.end
        ]

    def rows(self, records: Iterable[Record], by: str) -> Iterator[Row]:
        """The newest record of each key, by the field `by` and then by offset, as rows."""
        newest: dict[str, Record] = {}
        for record in sorted(records, key=lambda record: (record[by], record["offset"])):
            if record["key"] is not None:
                newest[record["key"]] = record
        for key, record in newest.items():
            if record["valueCrc32"] is not None:
                yield self.topic, record["offset"], key, int(record["valueCrc32"], 16)


@pytest.fixture(scope="module")
def logs(lab: KafkaLab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Log]]:
    folder = tmp_path_factory.mktemp("latest")
    return folder / "tier", [Log(lab, folder, folder / "tier", seed) for seed in SEEDS]


def rows(found: DataFrame) -> list[Row]:
    return sorted(
        (row["topic"], row["offset"], row["key"].hex(), zlib.crc32(row["value"]))
        for row in found.select("topic", "offset", "key", "value").collect()
    )


def newest(spark: SparkSession, tier: Path, strategy: str) -> list[Row]:
    settings = {"compaction.strategy": strategy}
    return rows(tierfold.read(tier, latest=True, settings=settings, spark=spark))


def test_the_newest_by_offset_are_what_kafkas_cleaner_leaves(
    spark: SparkSession, logs: tuple[Path, list[Log]]
) -> None:
    tier, made = logs
    found = newest(spark, tier, "offset")
    assert found == sorted(row for log in made for row in log.rows(log.cleaned, "offset"))
    assert found == sorted(row for log in made for row in log.rows(log.before, "offset"))
    every = sum(len(log.before) for log in made)
    assert 200 < len(found) < every / 2


def test_the_newest_by_timestamp_are_what_kafkas_reader_finds(
    spark: SparkSession, logs: tuple[Path, list[Log]]
) -> None:
    tier, made = logs
    found = newest(spark, tier, "timestamp")
    assert found == sorted(row for log in made for row in log.rows(log.before, "timestamp"))
    assert found != newest(spark, tier, "offset")
