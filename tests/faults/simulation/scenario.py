"""A story: several runs, a zombie among them, brokers, readers; then calm, and what must be left.

    played(seed)   all that a seed decides, checked after every step; and why it failed, if it did
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
    """The law that was broken, or what else ended it; empty: it came to its good end."""


def played(seed: int) -> Scenario:
    """Play the story of a seed, to its end or to the first law that is broken."""
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
        except Exception:  # noqa: BLE001 - whatever it is, it was not to happen
            failure = traceback.format_exc()
    scheduler = environment.scheduler
    return Scenario(
        seed=seed,
        trace=tuple(scheduler.trace),
        faults=scheduler.faults,
        outcomes=environment.outcomes,
        failure=failure,
    )
