"""A scenario: runs, one of them a zombie, brokers and readers; then calm, and the final checks.

    played(seed)   play the scenario of a seed, checked after every step; says why it failed
"""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass

from tests.faults.simulation.environment_checks import Broken
from tests.faults.simulation.simulation_actors import begin
from tests.faults.simulation.simulation_ending import converge
from tests.faults.simulation.simulation_settings import deterministic, drawn_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What happened under one seed."""

    seed: int
    trace: tuple[str, ...]
    faults: Counter[str]
    outcomes: Counter[str]
    failure: str
    """The violation, or the error that ended it; empty: it succeeded."""


def played(seed: int) -> Scenario:
    """Play the scenario of a seed, to its end or to the first violation."""
    environment = drawn_environment(seed)
    failure = ""
    with deterministic(environment):
        try:
            begin(environment)
            environment.scheduler.play()
            environment.scheduler.calm_down()
            converge(environment)
        except Broken as error:
            failure = str(error)
        except Exception:  # noqa: BLE001 - any error is a failure of the scenario
            failure = traceback.format_exc()
    scheduler = environment.scheduler
    return Scenario(
        seed=seed,
        trace=tuple(scheduler.trace),
        faults=scheduler.faults,
        outcomes=environment.outcomes,
        failure=failure,
    )
