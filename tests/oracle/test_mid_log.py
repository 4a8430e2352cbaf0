"""Rounds that end in mid-log leave what Kafka 4.4 leaves, and 4.3 one batch more; bugs are found.

Under a `min.compaction.lag.ms` the rounds of these seeds end before the log does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.oracle.comparators import explained
from tests.oracle.fuzz_run import LAG_MS, FuzzedTopic, run_passes, seeds_of
from tests.oracle.oracles import VERSIONS_VARIABLE, Oracles, unequal_to_kafka
from tierfold.compaction.cleaning import rounds
from tierfold.compaction.cleaning.record_retention import RoundRules
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.model.kafka_versions import KAFKA_VERSIONS
from tierfold.jobs.pipeline import round_execution

LOG_END, MID_LOG = 0, 103
"""In the fourth pass an emptied batch ends the log of the first seed, a round of the other."""
SEEDS: Final = seeds_of("TIERFOLD_MID_LOG_SEEDS", f"{MID_LOG}:{MID_LOG + 1}")


def passes_of(
    oracles: Oracles, folder: Path, seeds: Sequence[int], patch: pytest.MonkeyPatch
) -> dict[int, FuzzedTopic]:
    """The seeds' logs after four passes by tierfold and by all versions of Kafka."""
    patch.setenv(VERSIONS_VARIABLE, "all")
    return run_passes(oracles, folder, seeds, min_lag_ms=LAG_MS)


def differences(oracles: Oracles, topic: FuzzedTopic) -> dict[str, list[str]]:
    """How tierfold differs from each version over one log."""
    found: dict[str, list[str]] = {version: [] for version in KAFKA_VERSIONS}
    source = oracles.lab.batches(topic.before)
    for number, done in enumerate(topic.passes, start=1):
        batches = oracles.lab.batches(done.view)
        for version, cleaning in done.cleaned.items():
            lines = unequal_to_kafka({version: cleaning}, batches, source)
            found[version] += [f"pass {number}: {line}" for line in lines]
        source = batches
    return found


def test_only_the_batch_at_the_end_of_a_round_differs(
    oracles: Oracles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: Counter[str] = Counter()
    for seed, topic in passes_of(oracles, tmp_path, SEEDS, monkeypatch).items():
        for version, lines in differences(oracles, topic).items():
            assert explained(lines, f"seed {seed}, Kafka {version}") == ""
        for done in topic.passes:
            old, new = (done.cleaned[version] for version in KAFKA_VERSIONS)
            assert new.round_end is None
            assert [b["baseOffset"] for b in old.expected] == [
                b["baseOffset"] for b in new.batches
            ]
            met["round in mid-log"] += new.ends_in_mid_log
            met["one batch more in 4.3"] += old.round_end is not None
    assert met["round in mid-log"] > met["one batch more in 4.3"] > 0, met


def rules_with_end(end: str) -> object:
    """Rules of a round under which the batch before `end` stays."""
    sound = rounds.round_rules

    def planted(work: Round) -> RoundRules:
        ends = {"of the round": work.compact.next_offset, "nowhere": -1}
        return replace(sound(work), remote_end=ends[end])

    return planted


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param((MID_LOG, "of the round", "unexpected"), id="kept in mid-log"),
        pytest.param((LOG_END, "nowhere", "missing"), id="dropped at the end of the log"),
    ],
)
def test_a_planted_bug_is_found(
    bug: tuple[int, str, str], oracles: Oracles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed, end, kind = bug
    planted = rules_with_end(end)
    monkeypatch.setattr(rounds, "round_rules", planted)
    monkeypatch.setattr(round_execution, "round_rules", planted)
    topic = passes_of(oracles, tmp_path, [seed], monkeypatch)[seed]
    for version, lines in differences(oracles, topic).items():
        assert any(f"is {kind}" in line for line in lines), (version, lines)
