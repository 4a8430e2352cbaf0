"""Play thousands of scenarios, or print the trace of one.

    python -m tests.faults.simulation.simulation_run --seeds 10000 --from 0    takes 20 minutes
    python -m tests.faults.simulation.simulation_run --replay 4711    prints that seed's trace
    python -m tests.faults.simulation.simulation_run --served …    of partitions that brokers serve
    python -m tests.faults.simulation.simulation_run --uploads …   of tiers that `upload` fills

Exit code 1: a scenario failed; the summary prints the command that replays it.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce
from multiprocessing import get_context
from typing import Final, TypeAlias

from tests.faults.simulation.scenario import Scenario, played
from tests.faults.simulation.served_scenario import played_served
from tests.faults.simulation.uploads_scenario import played_uploads

SEEDS_AT_A_TIME: Final = 25

Play: TypeAlias = Callable[[int], Scenario]
"""Plays the scenario of a seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The counts and failures of many scenarios."""

    seeds: int = 0
    steps: int = 0
    faults: Counter[str]
    outcomes: Counter[str]
    failures: tuple[tuple[int, str], ...] = ()
    """Seed and failure."""

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            seeds=self.seeds + other.seeds,
            steps=self.steps + other.steps,
            faults=self.faults + other.faults,
            outcomes=self.outcomes + other.outcomes,
            failures=self.failures + other.failures,
        )

    def __str__(self) -> str:
        return self.described()

    def described(self, options: str = "") -> str:
        """The counts, and each failure with the command that replays it."""
        lines = [f"{self.seeds} seeds, {self.steps} steps, {len(self.failures)} failed"]
        for title, counts in (("faults", self.faults), ("outcomes", self.outcomes)):
            lines.append(f"{title}:")
            lines += [f"  {count:>9} {what}" for what, count in sorted(counts.items())]
        for seed, failure in self.failures:
            lines.append(f"seed {seed}: {failure}")
            module = "tests.faults.simulation.simulation_run"
            lines.append(f"  python -m {module}{options} --replay {seed}")
        return "\n".join(lines)


NOTHING: Final = Summary(faults=Counter(), outcomes=Counter())


def summary_of(play: Play, seeds: Iterable[int]) -> Summary:
    """Play these seeds one after the other; return their summary."""
    return reduce(Summary.__add__, map(partial(_summary_of_one, play), seeds), NOTHING)


def _summary_of_one(play: Play, seed: int) -> Summary:
    scenario = _quietly_played(play, seed)
    return Summary(
        seeds=1,
        steps=len(scenario.trace),
        faults=scenario.faults,
        outcomes=scenario.outcomes,
        failures=((seed, scenario.failure),) if scenario.failure else (),
    )


def summaries(first: int, count: int, play: Play = played) -> Iterator[Summary]:
    """Yield summaries of `count` seeds from `first` on; one process per core plays them."""
    beyond = first + count
    parts = [
        range(start, min(start + SEEDS_AT_A_TIME, beyond))
        for start in range(first, beyond, SEEDS_AT_A_TIME)
    ]
    # A forked process would inherit locks whose threads it does not have.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as processes:
        yield from processes.map(partial(summary_of, play), parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Simulate the protocol under faults.")
    parser.add_argument("--seeds", type=int, default=500, help="how many seeds to play")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--served", action="store_true", help="brokers serve the partition")
    parser.add_argument("--uploads", action="store_true", help="`tierfold upload` fills the tier")
    parser.add_argument("--replay", type=int, metavar="SEED", help="print only its trace")
    chosen = parser.parse_args(arguments)
    play, option = played, ""
    if chosen.served:
        play, option = played_served, " --served"
    elif chosen.uploads:
        play, option = played_uploads, " --uploads"
    if chosen.replay is not None:
        scenario = _quietly_played(play, chosen.replay)
        _say(*scenario.trace, scenario.failure or "the scenario succeeded")
        return 1 if scenario.failure else 0
    total = NOTHING
    for part in summaries(chosen.first, chosen.seeds, play):
        total += part
        _say(f"{total.seeds} of {chosen.seeds} seeds, {len(total.failures)} failed")
    _say(total.described(option))
    return 1 if total.failures else 0


def _quietly_played(play: Play, seed: int) -> Scenario:
    """Play a seed without the warning of each vacuum that the catalog has no `runs` table."""
    logger = logging.getLogger("tierfold")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return play(seed)
    finally:
        logger.setLevel(before)


def _say(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
