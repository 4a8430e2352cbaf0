"""tierfold's results for overlapping uploads equal Kafka's for the same log without overlap.

`TIERFOLD_LEADER_SEEDS=17:18` replays seed 17 alone (README.md).
"""

from __future__ import annotations

import filecmp
from itertools import pairwise
from pathlib import Path

import pytest

from tests.oracle.comparators import aborted_of, equal_logs
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.leaders_run import Led, rows_of, seeds
from tests.oracle.remote_views import epochs_until
from tests.oracle.two_leaders import PHASES

by_seed = pytest.mark.parametrize("seed", seeds())


@by_seed
def test_every_batch_and_record_is_what_kafka_leaves_of_the_plain_log(
    lab: KafkaLab, led: Led, seed: int
) -> None:
    for number, step in enumerate(led.topics[seed].steps, start=1):
        expected = lab.batches(step.oracle)
        differences = equal_logs(expected, step.found, step.source)
        assert differences == [], f"after pass {number}: {step.oracle}, {led.topics[seed].folder}"
        assert [b["baseOffset"] for b in step.found] == [b["baseOffset"] for b in expected]
        assert all(batch["valid"] for batch in step.found)
        assert step.aborted == aborted_of(lab.side_files(step.oracle)["txnindex"])


@by_seed
def test_live_segments_cover_the_log_and_carry_its_epochs_and_producers(
    led: Led, seed: int
) -> None:
    topic = led.topics[seed]
    epochs = (topic.plain / "leader-epoch-checkpoint").read_text()
    ends = topic.layout.covered.ends
    for step, end in zip(topic.steps, (*ends, ends[-1]), strict=True):
        segments = step.status["segments"]
        assert segments[0]["start_offset"] == 0
        assert segments[-1]["end_offset"] == end - 1
        for one, two in pairwise(segments):
            assert two["start_offset"] == one["end_offset"] + 1
        for segment in segments:
            log, after = Path(segment["log"]), segment["end_offset"] + 1
            snapshot = topic.plain / f"{after:020d}.snapshot"
            assert filecmp.cmp(log.with_suffix(".snapshot"), snapshot, shallow=False)
            checkpoint = log.with_suffix(".leader_epoch_checkpoint").read_text()
            assert checkpoint == epochs_until(epochs, after)
        if step.oracle_end:
            assert step.status["cleaner_offset"] == step.oracle_end


@by_seed
def test_the_reader_gives_each_record_once(lab: KafkaLab, led: Led, seed: int) -> None:
    topic = led.topics[seed]
    for step in topic.steps:
        assert step.read == rows_of(step.source)
    assert led.left.get(topic.name, ()) == rows_of(lab.batches(topic.steps[-1].oracle))


def test_verify_finds_no_fault_whenever_uploads_arrived_and_after_the_last_pass(led: Led) -> None:
    assert len(led.verified) == PHASES + 1
    for ran in led.verified:
        assert ran.code == 0, ran.stdout + ran.stderr
        assert len(ran.entries) == len(led.topics)


def test_sparks_window_finds_the_same_latest_records_after_the_last_pass(led: Led) -> None:
    compared = [entry for entry in led.verified[-1].entries if entry["keys_compared"] is not None]
    assert compared
    for report in compared:
        second = report["second_opinion"]
        assert second is not None, report["notes"]
        assert second["differing"] == 0
        # Spark does not see records of open transactions.
        assert 0 < second["keys"] <= report["keys_compared"], report["topic"]
