"""Scenarios of a tier that `tierfold upload` fills violate nothing, and reach every outcome."""

from __future__ import annotations

import pytest

from tests.faults.simulation.simulation_run import summary_of
from tests.faults.simulation.uploads_scenario import played_uploads

SEEDS = 8
SEEDS_IN_SOAK = 200


def test_what_a_deposed_machine_uploads_is_never_live_beside_the_leaders() -> None:
    total = summary_of(played_uploads, range(SEEDS))
    assert not total.failures, total.described(" --uploads")
    whose = ("leader", "deposed")
    expected = {f"{how} by a {who}" for how in ("claim", "takeover") for who in whose}
    expected |= {f"upload: {how}" for how in ("uploaded", "nothing_to_do", "refused", "fenced")}
    assert expected <= {what for what, count in total.outcomes.items() if count}, str(total)


@pytest.mark.soak
def test_every_outcome_happens() -> None:
    total = summary_of(played_uploads, range(1000, 1000 + SEEDS_IN_SOAK))
    assert not total.failures, total.described(" --uploads")
    ends = ("failed", "lost_race", "unknown", "survey failed")
    expected = {f"upload: {how}" for how in ends}
    expected |= {"swap", "restored", "orphan deleted", "incomplete deleted"}
    expected |= {"the tier has another history", "set apart at the end"}
    assert expected <= {what for what, count in total.outcomes.items() if count}, str(total)
