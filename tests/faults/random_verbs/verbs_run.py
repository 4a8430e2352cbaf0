"""Play thousands of steps of the state machine with real verbs, and kill runs with SIGKILL.

    python -m tests.faults.random_verbs.verbs_run --steps 2000 --seed 1

Every 250 steps a new tier with the next seed starts. The first violation ends it with exit code 1,
prints the seed and its last steps, and keeps the tier.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click

from tests.end_to_end.processes import awaited, started
from tests.faults.kills.killed_places import FolderPlace
from tests.faults.kills.planned_kills import (
    ON_BOTH,
    PlannedKill,
    Target,
    carried_out,
    planned_kills,
)
from tests.faults.random_verbs.verbs_checks import Violation, rows_of
from tests.faults.random_verbs.verbs_machine import Machine
from tests.faults.random_verbs.verbs_steps import play
from tests.jobs.commands import ALWAYS, ROOT, users_environment
from tests.jobs.signs import aged, signs_in

STEPS_PER_TIER: Final = 250
ENDS: Final = {Target.JVM: frozenset({-9, 0, 2, 3})}
"""Allowed exit codes by killed process; a driver without its JVM may exit with 0, 2 or 3."""
OTHER_ENDS: Final = frozenset({-9, 0, 3})


def killer(folder: Path, seed: int) -> Callable[[Machine], None]:
    """Return a step that runs `compact` in its own process and applies the next planned kill."""
    due: Iterator[PlannedKill] = planned_kills(seed, ON_BOTH)

    def kill(machine: Machine) -> None:
        planned = next(due)
        machine.note(f"{planned.target}, {planned}")
        sizes = ("--set", "segment.bytes=900", "--set", "chunk.bytes=1")
        options = (*ALWAYS, *sizes, "--engine", "spark" if planned.on_spark else "local")
        command = (sys.executable, "-m", "tierfold", "compact", machine.tier, *options)
        environment = users_environment() | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
        name = f"kill-{machine.counts['kill']}"
        # This process has the real clock, so the time is an option; a run refuses an earlier one.
        commits_ms = [int(row["committed_at_ms"]) for row in rows_of(machine.tier).values()]
        now = ("--now", str(max([machine.now_ms, *commits_ms])), "--clock-is-right")
        run = started((*command, "--json", *now), folder, name, environment)
        is_killed = carried_out(planned, run, FolderPlace(machine.tier))
        ran = run.ended()
        awaited("the end of the run's other processes", lambda: None if run.session else True)
        for sign in signs_in(machine.tier):
            aged(sign, 700)  # The next verb finds it silent.
        machine.counts[f"kill: {planned.target if is_killed else 'too late'}"] += 1
        machine.note(f"exit {ran.code}")
        if ran.code not in ENDS.get(planned.target, OTHER_ENDS):
            killed = f"a run whose {planned.target} was killed"
            raise Violation(f"{killed} ended with {ran.code}: {ran.stderr}")

    return kill


def played(folder: Path, seed: int, steps: int, *, is_killed: bool) -> Machine:
    """Play a tier with this seed in a new folder; raises Violation."""
    folder.mkdir()
    machine = Machine(folder / "tier", seed, killer(folder, seed) if is_killed else None)
    play(machine, steps)
    return machine


def summary_lines(counts: Counter[str], events: dict[str, set[str]]) -> Iterator[str]:
    """Yield one line per action and event."""
    for what, count in sorted(counts.items()):
        yield f"{count:>7} {what}"
    for what, found in sorted(events.items()):
        yield f"{len(found):>7} different: {what}"


@click.command()
@click.option("--steps", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of the first tier.")
@click.option("--kills/--no-kills", "is_killed", default=True, help="Whether to kill runs.")
def soak(steps: int, seed: int, is_killed: bool) -> None:
    """Play `steps` steps; exit code 1 at the first violation."""
    counts: Counter[str] = Counter()
    events: dict[str, set[str]] = {}
    done = 0
    folder = Path(tempfile.mkdtemp(prefix="tierfold-verbs-"))
    while done < steps:
        wanted = min(STEPS_PER_TIER, steps - done)
        try:
            machine = played(folder / str(seed), seed, wanted, is_killed=is_killed)
        except Violation as violation:
            click.echo(f"{violation}\nThe tier is {folder / str(seed) / 'tier'}. To replay it:")
            again = f"--steps {STEPS_PER_TIER} --seed {seed}"
            click.echo(f"python -m tests.faults.random_verbs.verbs_run {again}")
            sys.exit(1)
        counts += machine.counts
        for what, found in machine.checker.events.items():
            events.setdefault(what, set()).update(found)
        done += wanted
        click.echo(f"seed {seed}: {done} of {steps} steps, no violation")
        shutil.rmtree(folder / str(seed))
        seed += 1
    click.echo("\n".join(summary_lines(counts, events)))


if __name__ == "__main__":
    soak()
