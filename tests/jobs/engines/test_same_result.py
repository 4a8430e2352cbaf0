"""Both engines write the same bytes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.jobs.chunked_logs import PRODUCERS, Broker, Upload, put_uploads
from tests.jobs.claimed_rounds import ALWAYS
from tests.jobs.engines import same_result
from tests.jobs.engines.same_result import Result, check_same_result
from tests.jobs.tiers import key_of, made_tier, sample_copy
from tests.spread import most_in_soak
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.engines import task_assignment
from tierfold.jobs.pipeline.partition_report import COMPACTED
from tierfold.jobs.settings.resolution import Settings, resolve
from tierfold.storage.kafka.control_records import ControlType

SEEDS: Final = 3
PARTITIONS: Final = 3
SETTINGS: Final = (*ALWAYS, "segment.bytes=1000", "chunk.bytes=2000")


def uploads_of(rng: random.Random) -> list[Upload]:
    """A log with tombstones, keyless records, and transactions, some of them without an index."""
    broker = Broker()
    for _ in range(rng.randint(4, 8)):
        broker.roll()
        for _ in range(rng.randint(1, 8)):
            producer = rng.choice((-1, -1, *PRODUCERS))
            pairs = [a_pair(rng) for _ in range(rng.randint(1, 4))]
            broker.append(pairs, producer)
            if producer >= 0 and rng.random() < 0.5:
                kind = rng.choice((ControlType.COMMIT, ControlType.ABORT))
                broker.end(producer, kind, is_listed=rng.random() < 0.7)
    broker.roll()
    for producer in PRODUCERS:
        broker.end(producer, ControlType.COMMIT, is_listed=True)
    broker.append([(b"last", b"active")], -1)
    broker.roll()
    return broker.uploads[:-1]


def a_pair(rng: random.Random) -> tuple[bytes | None, bytes | None]:
    key = rng.choice((b"a", b"b", b"c", b"d", b"e", b"f", None))
    return key, None if rng.random() < 0.2 else rng.randbytes(rng.randint(1, 60))


def settings_of(tier: Path, rng: random.Random) -> Settings:
    """Each topic with its own strategy, in a file beside the tier."""
    config = tier.with_name(f"{tier.name}.toml")
    strategies = rng.sample([CompactionStrategy.OFFSET, CompactionStrategy.TIMESTAMP], 2)
    config.write_text(
        "\n".join(
            f'[topics."topic{number}"]\n"compaction.strategy" = "{strategies[number % 2].value}"'
            for number in range(PARTITIONS)
        )
    )
    return resolve(SETTINGS, config)


@pytest.mark.parametrize("seed", most_in_soak(range(SEEDS), 1))
def test_drawn_logs_become_the_same_segments(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    # Makes several key buckets per partition, and more shuffle partitions than tasks.
    monkeypatch.setattr(task_assignment, "BUCKET_BYTES", 1000)
    monkeypatch.setattr(task_assignment, "SHUFFLE_PARTITION_BYTES", 1000)
    rng = random.Random(seed)
    tier = made_tier(tmp_path / "tier")
    for number in range(PARTITIONS):
        put_uploads(tier, key_of(f"topic{number}"), uploads_of(rng))
    reports = check_same_result(tier, settings_of(tier, rng))
    assert {report.outcome for report in reports} == {COMPACTED}
    assert any(report.objects_written for report in reports)


def test_the_sample_becomes_the_same_segments(spark: SparkSession, tmp_path: Path) -> None:
    tier = sample_copy(tmp_path / "tier")
    (report,) = check_same_result(tier, resolve([*ALWAYS, "segment.bytes=1500000"]))
    assert report.outcome == COMPACTED


def test_a_difference_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = made_tier(tmp_path / "tier")
    put_uploads(tier, key_of("topic0"), uploads_of(random.Random(0)))

    def with_a_changed_log(copy: Path, key: PartitionKey, state: PartitionState) -> Result:
        found = compared(copy, key, state)
        if copy.name == "local":
            changed = next(what for what in found if what.endswith(".log"))
            found[changed] = b"changed"
        return found

    compared = same_result.result_of
    monkeypatch.setattr(same_result, "result_of", with_a_changed_log)
    with pytest.raises(AssertionError, match=r"spark and local differ.*topic0-0, .*\.log"):
        check_same_result(tier, resolve(SETTINGS))
