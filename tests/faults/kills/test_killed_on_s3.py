"""Runs on S3 killed at random times by SIGKILL; `make soak` also does it with many more kills."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from tests.faults.kills.killed_run import KilledTier, killed_round, kills_of
from tests.faults.kills.planned_kills import (
    IN_ONE_PROCESS,
    Trigger,
    planned_kills,
)
from tests.oracle.kafka_lab import KafkaLab
from tests.storage.emulators import s3, s3_environment

pytestmark = pytest.mark.soak  # CI has them in a folder (test_killed_runs.py).

SEED = 7
KILLS = 4
"""So many kills of this seed cover every trigger."""


@pytest.fixture(scope="module")
def tiers(
    lab: KafkaLab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[KilledTier]]:
    """Kills on one tier; if a run ends before its kill, the rest hit another tier."""
    endpoint = s3()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3_environment(endpoint).items():
            patch.setenv(name, value)
        folder = tmp_path_factory.mktemp("killed")
        yield killed_round(folder, SEED, KILLS, lab, IN_ONE_PROCESS, endpoint)


def test_after_any_kill_the_tier_is_whole_and_the_next_run_and_vacuum_finish(
    tiers: list[KilledTier],
) -> None:
    assert [violation for tier in tiers for violation in tier.violations] == []
    assert len(kills_of(tiers)) == KILLS


def test_some_kills_hit_the_work_and_uploads(tiers: list[KilledTier]) -> None:
    # What a kill hits depends on the machine; if none hits the work, nothing is tested.
    assert any(kill.after.hidden for kill in kills_of(tiers))
    assert any(kill.after.orphans for kill in kills_of(tiers))
    assert len({kill.after.cleaner_offsets for kill in kills_of(tiers)}) > 1


def test_the_kills_cover_every_trigger() -> None:
    planned = list(islice(planned_kills(SEED, IN_ONE_PROCESS), KILLS))
    assert {kill.trigger for kill in planned} == set(Trigger)
