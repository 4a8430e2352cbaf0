"""Rounds that leave clean segments unread equal Kafka's, and those that read them all.

`TIERFOLD_GROWTH_SEEDS=17:18` replays seed 17 alone (README.md).
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.oracle.comparators import equal_logs, unequal_indexes, unequal_txnindexes
from tests.oracle.growing_run import ROUNDS_MS, Grown, GrownRound, seeds
from tests.oracle.kafka_lab import KafkaLab

REACHED = {
    *("skipped by Bloom filter", "skipped by key index", "read as superseded", "segment skipped"),
    *("clean record superseded", "tombstone gone", "marker gone", "aborted data gone"),
    *("horizon set", "empty batch gone", "producer forgotten"),
    *("known key arrives", "new key arrives", "tombstone arrives", "marker arrives"),
    "horizon waits beside a skipped segment",
}

ANSWERS = ("by_bloom_filter", "by_key_index", "by_small_gain", "superseded", "no_index")

by_seed = pytest.mark.parametrize("seed", seeds())


@by_seed
def test_every_batch_and_record_is_what_kafka_leaves(grown: Grown, seed: int) -> None:
    for number, done in enumerate(grown.topics[seed].rounds):
        assert all(batch["valid"] for batch in done.indexed.found)
        differences = equal_logs(done.expected, done.indexed.found, done.source)
        assert _explained(differences, done, number) == ""
        assert done.indexed.status["cleaner_offset"] == done.oracle_end


@by_seed
def test_a_round_without_key_indexes_leaves_the_same_bytes(grown: Grown, seed: int) -> None:
    for number, done in enumerate(grown.topics[seed].rounds):
        expected = done.unindexed.found
        differences = equal_logs(expected, done.indexed.found, expected)
        assert _explained(differences, done, number) == ""
        assert done.indexed.report["counts"] == done.unindexed.report["counts"]


@by_seed
def test_every_index_has_the_entries_that_its_log_needs(
    lab: KafkaLab, grown: Grown, seed: int
) -> None:
    for number, done in enumerate(grown.topics[seed].rounds):
        side_files = lab.side_files(done.indexed.view)
        expected = lab.side_files(done.oracle)
        differences = unequal_indexes(done.indexed.found, side_files)
        differences += unequal_txnindexes(expected, side_files, done.indexed.segments)
        assert _explained(differences, done, number) == ""


@by_seed
def test_live_segments_cover_the_log_after_each_round(grown: Grown, seed: int) -> None:
    topic = grown.topics[seed]
    for done, borders in zip(topic.rounds, topic.borders, strict=True):
        segments = done.indexed.segments
        assert (segments[0].start_offset, segments[-1].end_offset) == (0, borders[-1] - 1)
        for one, two in pairwise(segments):
            assert two.start_offset == one.end_offset + 1


def test_verify_finds_no_fault_after_the_last_round(grown: Grown) -> None:
    assert grown.verified.code == 0, grown.verified.stdout + grown.verified.stderr
    assert len(grown.verified.entries) == len(grown.topics)


def test_no_key_index_is_unsound_and_without_indexes_nothing_is_skipped(grown: Grown) -> None:
    for topic in grown.topics.values():
        assert len(topic.rounds) == len(ROUNDS_MS)
        for done in topic.rounds:
            assert done.indexed.report["key_indexes"]["unsound_index"] == 0
            asked = done.unindexed.report["key_indexes"]
            assert done.unindexed.report["segments_skipped"] == 0
            assert (asked["by_bloom_filter"], asked["by_key_index"]) == (0, 0)


@by_seed
def test_each_later_round_asks_the_index_of_every_clean_segment(grown: Grown, seed: int) -> None:
    for before, done in pairwise(grown.topics[seed].rounds):
        clean = [s for s in before.indexed.segments if s.end_offset < before.oracle_end]
        asked = done.indexed.report["key_indexes"]
        assert sum(asked[answer] for answer in ANSWERS) == len(clean)


def test_all_seeds_together_skip_segments_and_reach_each_outcome(grown: Grown) -> None:
    met: Counter[str] = Counter()
    for topic in grown.topics.values():
        for done in topic.rounds:
            met.update(_asked(done))
        for before, done in pairwise(topic.rounds):
            met.update(_arrived(before, done))
            met.update(_changed(before, done))
    assert {name for name in REACHED if met[name] < 3} == set(), met


def _asked(done: GrownRound) -> Counter[str]:
    report = done.indexed.report
    asked, skipped = report["key_indexes"], report["segments_skipped"]
    met: Counter[str] = Counter()
    met["skipped by Bloom filter"] = asked["by_bloom_filter"]
    met["skipped by key index"] = asked["by_key_index"]
    met["read as superseded"] = asked["superseded"]
    met["segment skipped"] = skipped
    return met


def _arrived(before: GrownRound, done: GrownRound) -> Counter[str]:
    """What the uploads of a later round hold."""
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


def _changed(before: GrownRound, done: GrownRound) -> Counter[str]:
    """What a later round changed of what was clean, by Kafka's result."""
    met: Counter[str] = Counter()
    skips = done.indexed.report["segments_skipped"] > 0
    after = {batch["baseOffset"]: batch for batch in done.expected}
    for batch in before.expected:
        if batch["baseOffset"] not in after:
            met["marker gone"] += batch["isControl"]
            met["empty batch gone"] += batch["count"] == 0
            met["tombstone gone"] += any(r["valueLen"] < 0 for r in batch["records"])
            continue
        left = after[batch["baseOffset"]]
        met["clean record superseded"] += len(left["records"]) < len(batch["records"])
        met["horizon set"] += left["deleteHorizonMs"] != batch["deleteHorizonMs"]
        waits = left["crc"] == batch["crc"] and batch["deleteHorizonMs"] is not None
        met["horizon waits beside a skipped segment"] += waits and skips
    met["producer forgotten"] = len(before.producers - done.producers)
    met["aborted data gone"] = done.indexed.report["counts"]["aborted"]
    return met


def _explained(differences: list[str], done: GrownRound, number: int) -> str:
    """The differences and the folders to look at; empty: there are none."""
    if not differences:
        return ""
    views = f"{done.indexed.view}, {done.unindexed.view}, {done.oracle}"
    return "\n  ".join([f"after round {number + 1}: {views}", *differences])
