"""Search far beyond what the tests do, or print the way to what is wrong in one scenario.

    python -m tests.faults.publishing_search.search_run --states 50000
    python -m tests.faults.publishing_search.search_run --scenario "two overlaps"
    python -m tests.faults.publishing_search.search_run --drawn 500 --seed 1 --states 2000

Exit code 1: something is wrong; the summary has the shortest way to it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tests.faults.publishing_search.search import Search
from tests.faults.publishing_search.search_drawn import drawn_scenario
from tests.faults.publishing_search.search_scenarios import SCENARIOS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Search every order of steps of publishing.")
    parser.add_argument("--states", type=int, default=50_000, help="at most so many a scenario")
    parser.add_argument("--scenario", choices=SCENARIOS, action="append", help="only these")
    parser.add_argument("--drawn", type=int, default=0, help="so many drawn scenarios instead")
    parser.add_argument("--seed", type=int, default=0, help="the first one's seed")
    chosen = parser.parse_args(arguments)
    scenarios = {name: SCENARIOS[name] for name in chosen.scenario or SCENARIOS}
    if chosen.drawn:
        seeds = range(chosen.seed, chosen.seed + chosen.drawn)
        scenarios = {f"seed {seed}": drawn_scenario(seed) for seed in seeds}
    total = whole = wrong = 0
    began = time.monotonic()
    for name, scenario in scenarios.items():
        searched = Search(scenario).result(chosen.states)
        total += searched.states
        whole += searched.is_whole
        wrong += searched.problem is not None
        sys.stdout.write(f"{name}: {searched}\n")
        sys.stdout.flush()
    seconds = time.monotonic() - began
    sys.stdout.write(
        f"{total} states in {seconds:.0f} s, {whole} scenarios seen whole, {wrong} wrong\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
