"""tierfold's results for overlapping uploads equal Kafka's for the same log without overlap.

`TIERFOLD_LEADER_SEEDS=17:18` replays seed 17 alone (README.md).
"""

from __future__ import annotations

import filecmp
from pathlib import Path

import pytest

from tests.oracle.comparators import aborted_of, explained, gaps_and_overlaps
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.leaders_run import LeadersRun, rows_of, seeds
from tests.oracle.oracles import unequal_to_kafka
from tests.oracle.remote_views import epochs_until, live_segments
from tests.oracle.two_leaders import PHASES

by_seed = pytest.mark.parametrize("seed", seeds())


@by_seed
def test_every_batch_and_record_is_what_kafka_leaves_of_the_log_without_overlap(
    lab: KafkaLab, leaders: LeadersRun, seed: int
) -> None:
    for number, step in enumerate(leaders.topics[seed].steps, start=1):
        differences = unequal_to_kafka(step.cleaned, step.found, step.source)
        where = f"after pass {number}: {leaders.topics[seed].folder}, Kafka's {step.oracle.log}"
        assert explained(differences, where) == ""
        expected = [batch["baseOffset"] for batch in step.oracle.expected]
        assert [batch["baseOffset"] for batch in step.found] == expected
        assert all(batch["valid"] for batch in step.found)
        for cleaning in step.cleaned.values():
            assert step.aborted == aborted_of(lab.side_files(cleaning.log)["txnindex"])


@by_seed
def test_live_segments_cover_the_log_and_keep_its_epochs_and_producers(
    leaders: LeadersRun, seed: int
) -> None:
    topic = leaders.topics[seed]
    epochs = (topic.plain / "leader-epoch-checkpoint").read_text()
    ends = topic.layout.covered.ends
    for step, end in zip(topic.steps, (*ends, ends[-1]), strict=True):
        segments = step.status["segments"]
        assert gaps_and_overlaps(live_segments(step.status), end) == []
        for segment in segments:
            log, after = Path(segment["log"]), segment["end_offset"] + 1
            snapshot = topic.plain / f"{after:020d}.snapshot"
            assert filecmp.cmp(log.with_suffix(".snapshot"), snapshot, shallow=False)
            checkpoint = log.with_suffix(".leader_epoch_checkpoint").read_text()
            assert checkpoint == epochs_until(epochs, after)
        for cleaning in step.cleaned.values():
            assert step.status["cleaner_offset"] == cleaning.end or not cleaning.end


@by_seed
def test_spark_reads_each_record_once(lab: KafkaLab, leaders: LeadersRun, seed: int) -> None:
    topic = leaders.topics[seed]
    for step in topic.steps:
        assert step.read == rows_of(step.source)
    assert leaders.read_at_end.get(topic.name, ()) == rows_of(topic.steps[-1].oracle.expected)


def test_verify_passes_after_each_arrival_and_after_the_last_pass(leaders: LeadersRun) -> None:
    assert len(leaders.verified) == PHASES + 1
    for ran in leaders.verified:
        assert ran.code == 0, ran.stdout + ran.stderr
        assert len(ran.entries) == len(leaders.topics)


def test_spark_finds_the_same_latest_records_after_the_last_pass(leaders: LeadersRun) -> None:
    last = leaders.verified[-1]
    compared = [entry for entry in last.entries if entry["keys_compared"] is not None]
    assert compared
    for report in compared:
        second = report["second_opinion"]
        assert second is not None, report["notes"]
        assert second["differing"] == 0
        # Spark does not see records of open transactions.
        assert 0 < second["keys"] <= report["keys_compared"], report["topic"]
