"""Rounds that skip clean segments leave what Kafka leaves, and what rounds without skipping leave.

`TIERFOLD_GROWTH_SEEDS=17:18` replays seed 17 alone (README.md).
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.oracle.comparators import (
    equal_logs,
    explained,
    gaps_and_overlaps,
    unequal_indexes,
    unequal_txnindexes,
)
from tests.oracle.growing_run import ROUNDS_MS, GrowingRound, GrowingRun, seeds
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.oracles import unequal_to_kafka

REACHED = {
    *("skipped by Bloom filter", "skipped by key index"),
    *("read because superseded", "segment skipped"),
    *("clean record superseded", "tombstone removed", "marker removed", "aborted data removed"),
    *("horizon set", "empty batch removed", "producer expired"),
    *("known key arrives", "new key arrives", "tombstone arrives", "marker arrives"),
    "horizon stays beside a skipped segment",
}

ANSWERS = ("by_bloom_filter", "by_key_index", "by_small_gain", "superseded", "no_index")

by_seed = pytest.mark.parametrize("seed", seeds())


@by_seed
def test_every_batch_and_record_is_what_kafka_leaves(grown: GrowingRun, seed: int) -> None:
    for number, done in enumerate(grown.topics[seed].rounds):
        assert all(batch["valid"] for batch in done.indexed.found)
        differences = unequal_to_kafka(done.cleaned, done.indexed.found, done.source)
        assert explained(differences, _where(done, number)) == ""
        for cleaning in done.cleaned.values():
            assert done.indexed.status["cleaner_offset"] == cleaning.end


@by_seed
def test_a_round_without_key_indexes_leaves_the_same_bytes(grown: GrowingRun, seed: int) -> None:
    for number, done in enumerate(grown.topics[seed].rounds):
        expected = done.unindexed.found
        differences = equal_logs(expected, done.indexed.found, expected)
        assert explained(differences, _where(done, number)) == ""
        assert done.indexed.report["counts"] == done.unindexed.report["counts"]


@by_seed
def test_every_index_has_the_entries_that_its_log_needs(
    lab: KafkaLab, grown: GrowingRun, seed: int
) -> None:
    for number, done in enumerate(grown.topics[seed].rounds):
        side_files = lab.side_files(done.indexed.view)
        differences = unequal_indexes(done.indexed.found, side_files)
        for cleaning in done.cleaned.values():
            expected = lab.side_files(cleaning.log)
            differences += unequal_txnindexes(expected, side_files, done.indexed.segments)
        assert explained(differences, _where(done, number)) == ""


@by_seed
def test_live_segments_cover_the_log_after_each_round(grown: GrowingRun, seed: int) -> None:
    topic = grown.topics[seed]
    for done, borders in zip(topic.rounds, topic.borders, strict=True):
        assert gaps_and_overlaps(done.indexed.segments, borders[-1]) == []


def test_verify_passes_after_the_last_round(grown: GrowingRun) -> None:
    assert grown.verified.code == 0, grown.verified.stdout + grown.verified.stderr
    assert len(grown.verified.entries) == len(grown.topics)


def test_no_key_index_is_unsound_and_nothing_is_skipped_without_indexes(grown: GrowingRun) -> None:
    for topic in grown.topics.values():
        assert len(topic.rounds) == len(ROUNDS_MS)
        for done in topic.rounds:
            assert done.indexed.report["key_indexes"]["unsound_index"] == 0
            asked = done.unindexed.report["key_indexes"]
            assert done.unindexed.report["segments_skipped"] == 0
            assert (asked["by_bloom_filter"], asked["by_key_index"]) == (0, 0)


@by_seed
def test_a_later_round_checks_the_index_of_every_clean_segment(
    grown: GrowingRun, seed: int
) -> None:
    for before, done in pairwise(grown.topics[seed].rounds):
        clean = [s for s in before.indexed.segments if s.end_offset < before.oracle.end]
        asked = done.indexed.report["key_indexes"]
        assert sum(asked[answer] for answer in ANSWERS) == len(clean)


def test_all_seeds_together_skip_segments_and_reach_each_outcome(grown: GrowingRun) -> None:
    met: Counter[str] = Counter()
    for topic in grown.topics.values():
        for done in topic.rounds:
            met.update(_asked(done))
        for before, done in pairwise(topic.rounds):
            met.update(_arrived(before, done))
            met.update(_changed(before, done))
    assert {name for name in REACHED if met[name] < 3} == set(), met


def _asked(done: GrowingRound) -> Counter[str]:
    report = done.indexed.report
    asked = report["key_indexes"]
    return Counter(
        {
            "skipped by Bloom filter": asked["by_bloom_filter"],
            "skipped by key index": asked["by_key_index"],
            "read because superseded": asked["superseded"],
            "segment skipped": report["segments_skipped"],
        }
    )


def _arrived(before: GrowingRound, done: GrowingRound) -> Counter[str]:
    """What the uploads of a later round contain."""
    met: Counter[str] = Counter()
    old = {batch["baseOffset"] for batch in before.indexed.found}
    known = {record["key"] for batch in before.indexed.found for record in batch["records"]}
    for batch in done.source:
        if batch["baseOffset"] in old:
            continue
        met["marker arrives"] += batch["isControl"]
        for record in batch["records"] if not batch["isControl"] else ():
            met["known key arrives" if record["key"] in known else "new key arrives"] += 1
            met["tombstone arrives"] += record["valueLen"] < 0
    return met


def _changed(before: GrowingRound, done: GrowingRound) -> Counter[str]:
    """What a later round changed in the clean region, by Kafka's result."""
    met: Counter[str] = Counter()
    skips = done.indexed.report["segments_skipped"] > 0
    after = {batch["baseOffset"]: batch for batch in done.oracle.batches}
    for batch in before.indexed.found:
        if batch["baseOffset"] not in after:
            met["marker removed"] += batch["isControl"]
            met["empty batch removed"] += batch["count"] == 0
            met["tombstone removed"] += any(r["valueLen"] < 0 for r in batch["records"])
            continue
        left = after[batch["baseOffset"]]
        met["clean record superseded"] += len(left["records"]) < len(batch["records"])
        met["horizon set"] += left["deleteHorizonMs"] != batch["deleteHorizonMs"]
        stays = left["crc"] == batch["crc"] and batch["deleteHorizonMs"] is not None
        met["horizon stays beside a skipped segment"] += stays and skips
    met["producer expired"] = len(before.oracle.producers.keys() - done.oracle.producers)
    met["aborted data removed"] = done.indexed.report["counts"]["aborted"]
    return met


def _where(done: GrowingRound, number: int) -> str:
    views = f"{done.indexed.view}, {done.unindexed.view}, {done.oracle.log}"
    return f"after round {number + 1}: {views}"
