"""Runs killed at random times by SIGKILL: nothing is lost, and nothing is left half done.

Runs that lose only one of Spark's processes are on Spark; the others are not. `make soak` kills
many more, all of them on Spark (tests/faults/kills/killed_run.py).
"""

from __future__ import annotations

from itertools import islice

import pytest

from tests.faults.kills.killed_run import KilledTier, killed_round, kills_of
from tests.faults.kills.planned_kills import (
    ON_BOTH,
    Target,
    Trigger,
    planned_kills,
)
from tests.oracle.kafka_lab import KafkaLab

SEED = 59734
"""With this seed, one run on Spark loses a worker, the daemon and its driver, and the next one
loses its JVM while Spark starts."""
KILLS = 6
"""So many kills of this seed cover every target and trigger."""


@pytest.fixture(scope="module")
def tiers(lab: KafkaLab, tmp_path_factory: pytest.TempPathFactory) -> list[KilledTier]:
    """Kills on one tier; if a run ends before its kill, the rest hit another tier."""
    return killed_round(tmp_path_factory.mktemp("killed"), SEED, KILLS, lab, ON_BOTH)


@pytest.mark.soak
def test_after_any_kill_the_tier_is_whole_and_the_next_run_finishes(
    tiers: list[KilledTier],
) -> None:
    assert [violation for tier in tiers for violation in tier.violations] == []
    assert len(kills_of(tiers)) == KILLS


@pytest.mark.soak
def test_some_kills_hit_the_work(tiers: list[KilledTier]) -> None:
    # What a kill hits depends on the machine; if none hits the work, nothing is tested.
    assert any(kill.after.orphans + kill.after.hidden for kill in kills_of(tiers))
    assert len({kill.after.cleaner_offsets for kill in kills_of(tiers)}) > 1


def test_the_kills_cover_every_target_and_trigger() -> None:
    planned = list(islice(planned_kills(SEED, ON_BOTH), KILLS))
    assert {kill.target for kill in planned} == set(Target)
    assert {kill.trigger for kill in planned} == set(Trigger) - {Trigger.UPLOADING}
