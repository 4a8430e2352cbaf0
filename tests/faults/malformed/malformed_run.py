"""Run 1.3 million malformed inputs: one process per parser, kernels with checked bounds.

    python -m tests.faults.malformed.malformed_run --inputs 1300000 --seed 1
    python -m tests.faults.malformed.malformed_run --parser 'batches' --seed 1 --replay 4711

Exit code 1: a parser neither refused an input clearly nor read it correctly, or an input killed the
process. An input depends only on the parser's name, the seed and its number, so `--replay` can
repeat it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from tests.faults.malformed.malformed_child import FAILURES_MOST, NUMBER, Findings, replay
from tests.faults.malformed.malformed_parsers import PARSERS, inputs_by_parser

CHECKED_CACHE: Final = Path("~/.cache/tierfold/kernels-with-checked-bounds").expanduser()
_CHILD: Final = "tests.faults.malformed.malformed_child"
_POLL_S: Final = 0.5
_IDLE_POLLS_MOST: Final = 1200
"""A child that is idle for this many polls is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserRun:
    """One parser's part of a run."""

    name: str
    seed: int
    inputs: int
    checks_bounds: bool = True
    child: str = _CHILD
    """The module to run; tests use one that dies."""


def run(part: ParserRun) -> Findings:
    """Run a parser's inputs in a child; if it dies, a new child continues."""
    whole, first = Findings(), 0
    with tempfile.TemporaryDirectory(prefix="tierfold-malformed-") as folder:
        file = Path(folder) / "number"
        while first < part.inputs and len(whole.failures) < FAILURES_MOST:
            file.write_bytes(NUMBER.pack(first))
            found, cause = _child(part, first, file)
            _add(whole, found)
            if not cause:
                break
            (number,) = NUMBER.unpack(file.read_bytes())
            whole.inputs += number + 1 - first
            whole.failures.append(f"{replay(part.name, part.seed, number)}\n{cause}")
            first = number + 1
    return whole


def _child(part: ParserRun, first: int, file: Path) -> tuple[Findings, str]:
    """Return a child's findings and the cause of its death; empty: it did not die."""
    environment = os.environ | {"PYTHONFAULTHANDLER": "1"}
    if part.checks_bounds:
        CHECKED_CACHE.mkdir(parents=True, exist_ok=True)
        environment |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(CHECKED_CACHE)}
    arguments = (part.name, str(part.seed), str(first), str(part.inputs), str(file))
    command = [sys.executable, "-m", part.child, *arguments]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=out, stderr=errors, env=environment)
        is_stopped = _watched(child, file, part)
        out.seek(0)
        errors.seek(0)
        if child.returncode == 0:
            return Findings(**json.loads(out.read())), ""
        stopped = ", killed: it did not end" if is_stopped else ""
        return Findings(), f"exit code {child.returncode}{stopped}\n{errors.read()[-4000:]}"


def _watched(child: subprocess.Popen[bytes], file: Path, part: ParserRun) -> bool:
    """Wait for the child's end and print its progress; kill it if it hangs, and return True."""
    before, idle = -1, 0
    while child.poll() is None:
        # Polls are counted, not seconds: pausing both processes must not count as a hang.
        time.sleep(_POLL_S)
        (number,) = NUMBER.unpack(file.read_bytes())
        idle = idle + 1 if number == before else 0
        before = number
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{part.name}: {number} of {part.inputs} ")
        if idle > _IDLE_POLLS_MOST:
            child.kill()
            child.wait()
            return True
    return False


def _add(whole: Findings, found: Findings) -> None:
    whole.inputs += found.inputs
    whole.refused += found.refused
    whole.right += found.right
    if found.slowest_s > whole.slowest_s:
        whole.slowest_s, whole.slowest = found.slowest_s, found.slowest
    whole.peak_bytes = max(whole.peak_bytes, found.peak_bytes)
    whole.failures += found.failures


def _row(name: str, found: Findings) -> str:
    return (
        f"| {name} | {found.inputs:,} | {found.refused:,} | {found.right:,} | "
        f"{1000 * found.slowest_s:.0f} ms | {found.peak_bytes / 2**20:.0f} MiB | "
        f"{len(found.failures)} |"
    )


@click.command()
@click.option("--inputs", default=1_300_000, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--parser", "names", type=click.Choice(list(PARSERS)), multiple=True)
@click.option("--replay", type=int, help="Run only the input with this number, in this process.")
def main(inputs: int, seed: int, names: tuple[str, ...], replay: int | None) -> None:
    """Print a table of all parsers, or of those named; exit code 1 after a failure."""
    chosen = tuple(PARSERS[name] for name in names or PARSERS)
    if replay is not None:
        for parser in chosen:
            click.echo(repr(parser.made(parser.rng(seed, replay))))
            click.echo(parser.tried(seed, replay))
        return
    click.echo("| parser | inputs | refused | right | slowest | memory | failures |")
    click.echo("|---|---|---|---|---|---|---|")
    whole = Findings()
    for name, count in inputs_by_parser(inputs, chosen).items():
        found = run(ParserRun(name=name, seed=seed, inputs=count))
        _add(whole, found)
        click.echo(_row(name, found))
        for failure in found.failures:
            click.echo(failure, err=True)
    click.echo(_row("all", whole))
    sys.exit(1 if whole.failures else 0)


if __name__ == "__main__":
    main()
