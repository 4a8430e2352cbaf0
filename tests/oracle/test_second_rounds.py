"""Rounds that leave clean segments unread equal Kafka's, and those that read them all.

`TIERFOLD_GROWTH_SEEDS=17:18` replays seed 17 alone (README.md).
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.oracle.comparators import equal_logs, unequal_indexes, unequal_txnindexes
from tests.oracle.growing_run import ROUNDS_MS, Grown, GrownRound, GrownTopic, seeds
from tests.oracle.kafka_lab import Batch, KafkaLab

REACHED = {
    *("skipped by Bloom filter", "skipped by key index", "read as superseded", "segment skipped"),
    *("clean record superseded", "tombstone gone", "marker gone", "aborted data gone"),
    *("horizon set", "empty batch gone", "producer forgotten"),
    *("known key arrives", "new key arrives", "tombstone arrives", "marker arrives"),
    "horizon waits beside a skipped segment",
}

by_seed = pytest.mark.parametrize("seed", seeds())


@by_seed
def test_every_batch_and_record_is_what_kafka_leaves(
    lab: KafkaLab, grown: Grown, seed: int
) -> None:
    topic = grown.topics[seed]
    for number, done in enumerate(topic.rounds):
        expected, found = lab.batches(done.oracle), lab.batches(done.indexed.view)
        assert all(batch["valid"] for batch in found)
        differences = equal_logs(expected, found, _source(lab, topic, number))
        assert _explained(differences, done, number) == ""
        assert done.indexed.status["cleaner_offset"] == done.oracle_end


@by_seed
def test_a_round_without_key_indexes_leaves_the_same_bytes(
    lab: KafkaLab, grown: Grown, seed: int
) -> None:
    for number, done in enumerate(grown.topics[seed].rounds):
        expected, found = lab.batches(done.unindexed.view), lab.batches(done.indexed.view)
        assert _explained(equal_logs(expected, found, expected), done, number) == ""
        assert done.indexed.report["counts"] == done.unindexed.report["counts"]


@by_seed
def test_every_index_has_the_entries_that_its_log_needs(
    lab: KafkaLab, grown: Grown, seed: int
) -> None:
    for number, done in enumerate(grown.topics[seed].rounds):
        side_files = lab.side_files(done.indexed.view)
        expected = lab.side_files(done.oracle)
        differences = unequal_indexes(lab.batches(done.indexed.view), side_files)
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


def test_all_seeds_together_skip_segments_and_reach_each_outcome(
    lab: KafkaLab, grown: Grown
) -> None:
    met: Counter[str] = Counter()
    for topic in grown.topics.values():
        for done in topic.rounds:
            met.update(_asked(done))
        for before, done in pairwise(topic.rounds):
            met.update(_changes(lab, before, done))
    assert {name for name in REACHED if met[name] < 3} == set(), met


def _asked(done: GrownRound) -> Counter[str]:
    asked, skipped = done.indexed.report["key_indexes"], done.indexed.report["segments_skipped"]
    met: Counter[str] = Counter()
    met["skipped by Bloom filter"] = asked["by_bloom_filter"]
    met["skipped by key index"] = asked["by_key_index"]
    met["read as superseded"] = asked["superseded"]
    met["segment skipped"] = skipped
    return met


def _changes(lab: KafkaLab, before: GrownRound, done: GrownRound) -> Counter[str]:
    """What a later round changed, by Kafka's result."""
    met: Counter[str] = Counter()
    old, new = _by_offset(lab.batches(before.oracle)), _by_offset(lab.batches(done.oracle))
    for offset, batch in _by_offset(lab.batches(done.given)).items():
        after, is_old = new.get(offset), offset in old
        if not is_old:
            met["marker arrives"] += batch["isControl"]
            met["tombstone arrives"] += any(r["valueLen"] < 0 for r in batch["records"])
        elif after is None:
            met["marker gone"] += batch["isControl"]
            met["empty batch gone"] += batch["count"] == 0
            met["tombstone gone"] += any(r["valueLen"] < 0 for r in batch["records"])
            continue
        if after is not None and is_old and not batch["isControl"]:
            met["clean record superseded"] += after["count"] < batch["count"]
        if after is not None:
            met["horizon set"] += after["deleteHorizonMs"] != batch["deleteHorizonMs"]
            waits = after["crc"] == batch["crc"] and batch["deleteHorizonMs"] is not None
            if waits and done.indexed.report["segments_skipped"]:
                met["horizon waits beside a skipped segment"] += 1
    met["producer forgotten"] = len(before.producers - done.producers)
    met["aborted data gone"] = done.indexed.report["counts"]["aborted"]
    known = {record["key"] for batch in old.values() for record in batch["records"]}
    for offset, batch in _by_offset(lab.batches(done.given)).items():
        if offset not in old and not batch["isControl"]:
            for record in batch["records"]:
                met["known key arrives" if record["key"] in known else "new key arrives"] += 1
    return met


def _source(lab: KafkaLab, topic: GrownTopic, number: int) -> list[Batch]:
    """The log before a round: tierfold's last result, and the new batches."""
    start = topic.borders[number][0]
    before = lab.batches(topic.rounds[number - 1].indexed.view) if number else []
    given = lab.batches(topic.rounds[number].given)
    return [*before, *(batch for batch in given if batch["baseOffset"] >= start)]


def _by_offset(batches: list[Batch]) -> dict[int, Batch]:
    return {batch["baseOffset"]: batch for batch in batches}


def _explained(differences: list[str], done: GrownRound, number: int) -> str:
    """The differences and the folders to look at; empty: there are none."""
    if not differences:
        return ""
    views = f"{done.indexed.view}, {done.unindexed.view}, {done.oracle}"
    return "\n  ".join([f"after round {number + 1}: {views}", *differences])
