"""A scenario: runs (one a zombie), brokers and readers, first with faults, then without.

    played(seed)   play the scenario of a seed, check every step, and return how it ended
"""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass

from tests.faults.simulation.environment_checks import Violation
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
    """The violation or error that ended it; empty: it succeeded."""


def played(seed: int) -> Scenario:
    """Play the scenario of a seed to its end, or to the first violation or error."""
    environment = drawn_environment(seed)
    failure = ""
    with deterministic(environment):
        try:
            begin(environment)
            environment.scheduler.play()
            environment.scheduler.calm_down()
            converge(environment)
        except Violation as error:
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
