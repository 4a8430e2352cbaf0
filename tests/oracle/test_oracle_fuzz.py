"""tierfold's results equal those of Kafka's cleaner: the same logs and clocks, four passes.

`TIERFOLD_ORACLE_SEEDS=17:18` replays seed 17 alone (README.md).
"""

from __future__ import annotations

import filecmp
from pathlib import Path

import pytest

from tests.oracle.comparators import (
    explained,
    gaps_and_overlaps,
    unequal_indexes,
    unequal_txnindexes,
)
from tests.oracle.fuzz_run import FuzzedTopic, Pass, seeds
from tests.oracle.kafka_lab import Batch, KafkaLab, Record, is_aborted
from tests.oracle.oracles import unequal_to_kafka

OUTCOMES = (
    *("kept", "aborted", "without_key", "superseded"),
    *("tombstones_expired", "markers_expired"),
)

pytestmark = pytest.mark.parametrize("seed", seeds())


def test_every_batch_and_record_is_what_kafka_leaves(
    lab: KafkaLab, fuzzed: dict[int, FuzzedTopic], seed: int
) -> None:
    source = lab.batches(fuzzed[seed].before)
    for number, done in enumerate(fuzzed[seed].passes, start=1):
        found = lab.batches(done.view)
        assert all(batch["valid"] for batch in found)
        differences = unequal_to_kafka(done.cleaned, found, source)
        assert explained(differences, _where(done, number)) == ""
        source = found


def test_every_index_has_the_entries_that_its_log_needs(
    lab: KafkaLab, fuzzed: dict[int, FuzzedTopic], seed: int
) -> None:
    for number, done in enumerate(fuzzed[seed].passes, start=1):
        side_files = lab.side_files(done.view)
        differences = unequal_indexes(lab.batches(done.view), side_files)
        for cleaning in done.cleaned.values():
            expected = lab.side_files(cleaning.log)
            differences += unequal_txnindexes(expected, side_files, done.segments)
        assert explained(differences, _where(done, number)) == ""


def test_leader_epochs_and_producer_snapshots_stay_the_same(
    lab: KafkaLab, fuzzed: dict[int, FuzzedTopic], seed: int
) -> None:
    before = fuzzed[seed].before
    epochs = lab.side_files(before)["leaderEpoch"]
    for done in fuzzed[seed].passes:
        assert lab.side_files(done.view)["leaderEpoch"] == epochs
        for snapshot in done.view.glob("*.snapshot"):
            assert filecmp.cmp(snapshot, before / snapshot.name, shallow=False)


def test_live_segments_cover_the_log_and_their_metadata_is_right(
    lab: KafkaLab, fuzzed: dict[int, FuzzedTopic], seed: int
) -> None:
    for done in fuzzed[seed].passes:
        assert gaps_and_overlaps(done.segments, fuzzed[seed].end_offset) == []
        batches = lab.batches(done.view)
        for segment, entry in zip(done.segments, done.status["segments"], strict=True):
            own = [b for b in batches if b["file"] == f"{segment.start_offset:020d}.log"]
            assert own, f"{segment.log} is empty: with some plugins, readers get stuck there"
            assert entry["size_bytes"] == sum(batch["size"] for batch in own)
            assert entry["max_timestamp_ms"] == max(batch["maxTimestamp"] for batch in own)
            assert own[0]["baseOffset"] >= segment.start_offset
            assert own[-1]["lastOffset"] <= segment.end_offset
        for cleaning in done.cleaned.values():
            assert done.status["cleaner_offset"] == cleaning.end or not cleaning.end


def test_the_counts_cover_the_outcome_of_every_record(
    lab: KafkaLab, fuzzed: dict[int, FuzzedTopic], seed: int
) -> None:
    source = fuzzed[seed].before
    for done in fuzzed[seed].passes:
        counts = done.report["counts"]
        before = _data_below(lab.batches(source), done.oracle.end)
        after = _data_below(lab.batches(done.view), done.oracle.end)
        entries = lab.side_files(source)["txnindex"]
        aborted = {
            record["offset"]
            for batch, record in before
            if not batch["isControl"] and is_aborted(batch, entries)
        }
        assert counts["records_in"] == len(before)
        assert counts["kept"] == len(after)
        assert counts["aborted"] == len(aborted)
        assert counts["without_key"] == sum(
            record["key"] is None and record["offset"] not in aborted for _, record in before
        )
        assert len(before) == sum(counts[name] for name in OUTCOMES)
        source = done.view


def test_a_broker_finds_every_object(
    lab: KafkaLab, fuzzed: dict[int, FuzzedTopic], seed: int, tmp_path: Path
) -> None:
    last = fuzzed[seed].passes[-1]
    for index, segment in enumerate(last.segments):
        fetched = tmp_path / str(index)
        lab.fetch(fuzzed[seed].tier, last.status, index, fetched)
        suffixes = {path.name for path in fetched.iterdir()}
        assert suffixes >= {"log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"}
        assert ("txnindex" in suffixes) == segment.part("txnindex").exists()
        for suffix in suffixes:
            assert filecmp.cmp(fetched / suffix, segment.part(suffix), shallow=False)


def _data_below(batches: list[Batch], end: int) -> list[tuple[Batch, Record]]:
    """Every record below `end`, including markers, with its batch."""
    return [(b, r) for b in batches for r in b["records"] if r["offset"] < end]


def _where(done: Pass, number: int) -> str:
    return f"after pass {number}: {done.view} differs from Kafka's {done.oracle.log.parents[1]}"
