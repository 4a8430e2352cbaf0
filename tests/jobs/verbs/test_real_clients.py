"""Topics that four real clients wrote are read, compacted, verified and read again.

`golden_clients/README.md` describes what a consumer read from them. A short loop computes what
compaction must leave of that.
"""

from __future__ import annotations

import gzip
import json
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.jobs.commands import CLOCK, COMPACT, Ran, tierfold
from tests.jobs.tiers import key_of
from tierfold.jobs.sources.segment_options import FORMAT
from tierfold.jobs.sources.segment_source import register
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, partition_folder

CLIENTS: Final = Path(__file__).parent / "golden_clients"
TOPICS: Final = ("c-franz", "c-java", "c-kafkajsb", "c-librdkafka")
BY_TIMESTAMP: Final = "by-timestamp"
"""The records of `c-java` once more, under another strategy: producers sent them out of order."""
SOURCES: Final = {topic: topic for topic in TOPICS} | {BY_TIMESTAMP: "c-java"}
NOW_MS: Final = 1_795_304_000_000
"""Soon after the last of them was written."""

pytestmark = pytest.mark.usefixtures("spark")


class Record(NamedTuple):
    """A record as a consumer sees it; of the value its length (-1: null) and CRC-32."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value_bytes: int
    value_crc: int | None
    headers: tuple[tuple[str, bytes | None], ...]


def consumed(topic: str) -> list[Record]:
    """What a consumer read of the topic."""
    with gzip.open(CLIENTS / f"{SOURCES[topic]}.read_committed.jsonl.gz", "rt") as lines:
        return [_record(*json.loads(line)) for line in lines]


def _record(offset: int, timestamp_ms: int, key: str | None, *rest: Any) -> Record:
    value_bytes, crc, headers = rest
    return Record(
        offset=offset,
        timestamp_ms=timestamp_ms,
        key=None if key is None else bytes.fromhex(key),
        value_bytes=value_bytes,
        value_crc=crc,
        headers=tuple(
            (name, None if value is None else bytes.fromhex(value)) for name, value in headers
        ),
    )


def compacted(topic: str) -> list[Record]:
    """What compaction must leave of it: of each key the last record, or the one of the last time.

    No tombstone has waited for long enough to go.
    """
    latest: dict[bytes, tuple[int, int]] = {}
    records = consumed(topic)
    for record in records:
        if record.key is not None:
            time_ms = record.timestamp_ms if topic == BY_TIMESTAMP else 0
            place = time_ms, record.offset
            latest[record.key] = max(place, latest.get(record.key, place))
    kept = {offset for _, offset in latest.values()}
    return [record for record in records if record.offset in kept]


def read(spark: SparkSession, tier: Path) -> dict[str, list[Record]]:
    """What our reader reads, by topic."""
    register(spark)
    rows = (
        spark.read.format(FORMAT)
        .option("columns", "topic,offset,timestamp,key,value,headers")
        .load(str(tier))
        .selectExpr("topic", "offset", "unix_millis(timestamp) AS ms", "key", "value", "headers")
        .toArrow()
    )
    found: dict[str, list[Record]] = {topic: [] for topic in SOURCES}
    for row in rows.to_pylist():
        value = row["value"]
        found[row["topic"]].append(
            Record(
                offset=row["offset"],
                timestamp_ms=row["ms"],
                key=row["key"],
                value_bytes=-1 if value is None else len(value),
                value_crc=None if value is None else zlib.crc32(value),
                headers=tuple((header["key"], header["value"]) for header in row["headers"] or ()),
            )
        )
    return {topic: sorted(records) for topic, records in found.items()}


class Done(NamedTuple):
    """One run over all topics, and what the reader read before it."""

    tier: Path
    before: dict[str, list[Record]]
    run: Ran


@pytest.fixture(scope="module")
def done(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    """A copy of the topics, read and then compacted by one run."""
    tier = tmp_path_factory.mktemp("clients") / "tier"
    shutil.copytree(CLIENTS / TIER_FOLDER, tier / TIER_FOLDER)
    (java,) = (tier / TIER_FOLDER).glob("c-java-0-*")
    shutil.copytree(java, tier / partition_folder(key_of(BY_TIMESTAMP)))
    config = tier.with_name("settings.toml")
    config.write_text(f'[topics."{BY_TIMESTAMP}"]\n"compaction.strategy" = "timestamp"\n')
    before = read(spark, tier)
    run = tierfold("compact", tier, *COMPACT, "--config", config, CLOCK, str(NOW_MS), "--json")
    yield Done(tier=tier, before=before, run=run)
    shutil.rmtree(tier)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_reader_reads_what_a_consumer_read(done: Done, topic: str) -> None:
    assert done.before[topic] == consumed(topic)


def test_one_run_compacts_them_all_to_the_latest_record_of_each_key(
    spark: SparkSession, done: Done
) -> None:
    assert set(done.run.outcomes.values()) == {"compacted"}, done.run.entries
    found = read(spark, done.tier)
    for topic in SOURCES:
        assert found[topic] == compacted(topic), topic
    assert found[BY_TIMESTAMP] != found["c-java"]


def test_verify_finds_no_fault_and_compares_every_key(done: Done) -> None:
    ran = tierfold("verify", done.tier, "--json", "--second-opinion")
    for (topic, _), found in ran.partitions.items():
        assert found["corruptions"] == []
        assert found["keys_compared"] == len(compacted(topic))
        second = {"keys": len(compacted(topic)), "differing": 0, "late": 0}
        assert found["second_opinion"] == second
        assert found["compared_by"] == ("timestamp" if topic == BY_TIMESTAMP else "offset")
