"""A log that grows and is compacted in rounds equals Kafka's, with and without key indexes.

`TIERFOLD_GROWING_SEEDS=17:18` replays seed 17 alone.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.oracle.comparators import equal_logs
from tests.oracle.growing_run import ROUNDS, Round, run_rounds, seeds
from tests.oracle.kafka_lab import KafkaLab


@pytest.fixture(scope="module")
def grown(
    lab: KafkaLab, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, list[Round]]:
    """The rounds of each seed."""
    return {seed: run_rounds(lab, tmp_path_factory.mktemp(f"t{seed}"), seed) for seed in seeds()}


@pytest.mark.parametrize("seed", seeds())
def test_every_round_equals_kafkas_and_one_without_indexes(
    grown: dict[int, list[Round]], seed: int
) -> None:
    for number, done in enumerate(grown[seed]):
        assert done.report["outcome"] == "compacted", (number, done.report["reason"])
        differences = equal_logs(done.kafka, done.indexed, done.before)
        differences += equal_logs(done.unindexed, done.indexed, done.before)
        assert differences == [], f"round {number}"


def test_rounds_skip_segments_by_filter_and_by_index(grown: dict[int, list[Round]]) -> None:
    found: Counter[str] = Counter()
    for rounds in grown.values():
        for done in rounds:
            asked = done.report["key_indexes"]
            found.update({name: asked[name] for name in asked if asked[name]})
            found["skipped"] += done.report["segments_skipped"]
            found["expired"] += done.report["counts"]["tombstones_expired"]
            found["markers"] += done.report["counts"]["markers_expired"]
        found["rounds"] += len(rounds)
    assert found["rounds"] >= (ROUNDS - 1) * len(grown), found
    for name in ("by_bloom_filter", "by_key_index", "superseded", "skipped", "expired", "markers"):
        assert found[name] > 0, found
