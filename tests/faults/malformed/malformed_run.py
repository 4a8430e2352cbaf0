"""A million malformed inputs: every parser in a process of its own, kernels with checked bounds.

    python -m tests.faults.malformed.malformed_run --inputs 1000000 --seed 1
    python -m tests.faults.malformed.malformed_run --parser 'batches' --seed 1 --replay 4711

Exit code 1: an input was neither refused clearly nor read right, or a process died of it. An input
is made from the parser's name, the seed and its number alone, so that it can be had again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults.malformed.malformed_child import FAILURES_MOST, NUMBER, Told, replay
from tests.faults.malformed.malformed_parsers import PARSERS, dealt

CHECKED_CACHE: Final = Path("~/.cache/tierfold/kernels-with-checked-bounds").expanduser()
_CHILD: Final = "tests.faults.malformed.malformed_child"
_POLL_S: Final = 0.5
_IDLE_POLLS_MOST: Final = 1200
"""A child that neither computes nor gets on for so long waits for what never comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One parser's part of a run."""

    name: str
    seed: int
    inputs: int
    checks_bounds: bool = True
    child: str = _CHILD
    """The module that is run; tests have one that dies."""


def run(order: Order) -> Told:
    """The parser's inputs, in one child after the other where one died."""
    whole, first = Told(), 0
    with tempfile.TemporaryDirectory(prefix="tierfold-malformed-") as folder:
        file = Path(folder) / "number"
        while first < order.inputs and len(whole.failures) < FAILURES_MOST:
            file.write_bytes(NUMBER.pack(first))
            told, died = _child(order, first, file)
            _add(whole, told)
            if not died:
                break
            (number,) = NUMBER.unpack(file.read_bytes())
            whole.inputs += number + 1 - first
            whole.failures.append(f"{replay(order.name, order.seed, number)}\n{died}")
            first = number + 1
    return whole


def _child(order: Order, first: int, file: Path) -> tuple[Told, str]:
    """What it told, and what it died of; empty: it did not."""
    environment = os.environ | {"PYTHONFAULTHANDLER": "1"}
    if order.checks_bounds:
        CHECKED_CACHE.mkdir(parents=True, exist_ok=True)
        environment |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(CHECKED_CACHE)}
    arguments = (order.name, str(order.seed), str(first), str(order.inputs), str(file))
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(
            [sys.executable, "-m", order.child, *arguments],
            stdout=out,
            stderr=said,
            env=environment,
        )
        stopped = _watched(child, file, order)
        out.seek(0)
        said.seek(0)
        if child.returncode == 0:
            return Told(**json.loads(out.read())), ""
        return Told(), f"exit code {child.returncode}{stopped}\n{said.read()[-4000:]}"


def _watched(child: subprocess.Popen[bytes], file: Path, order: Order) -> str:
    """Waits for the child's end, tells how far it is, and ends it where it stands still."""
    for number in _numbers(child, file):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{order.name}: {number} of {order.inputs} ")
        if number is None:
            child.kill()
            child.wait()
            return ", killed: it waited for ever"
    return ""


def _numbers(child: subprocess.Popen[bytes], file: Path) -> Iterator[int | None]:
    """The number it is at, again and again until it ends; None: it has not moved for too long."""
    before, idle = -1, 0
    while child.poll() is None:
        # Polls are counted, not seconds: whoever halts both processes must not be taken for a hang.
        time.sleep(_POLL_S)
        (number,) = NUMBER.unpack(file.read_bytes())
        idle = idle + 1 if number == before else 0
        before = number
        yield None if idle > _IDLE_POLLS_MOST else number


def _add(whole: Told, told: Told) -> None:
    whole.inputs += told.inputs
    whole.refused += told.refused
    whole.right += told.right
    if told.slowest_s > whole.slowest_s:
        whole.slowest_s, whole.slowest = told.slowest_s, told.slowest
    whole.peak_bytes = max(whole.peak_bytes, told.peak_bytes)
    whole.failures += told.failures


def _row(name: str, told: Told) -> str:
    return (
        f"| {name} | {told.inputs:,} | {told.refused:,} | {told.right:,} | "
        f"{1000 * told.slowest_s:.0f} ms | {told.peak_bytes / 2**20:.0f} MiB | "
        f"{len(told.failures)} |"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parser", choices=PARSERS, action="append", help="only these")
    parser.add_argument("--replay", type=int, help="the one input of that number, here")
    return parser.parse_args()


def main() -> int:
    """Prints a table; the exit code."""
    given = _arguments()
    chosen = tuple(PARSERS[name] for name in given.parser or PARSERS)
    if given.replay is not None:
        for each in chosen:
            _say(repr(each.made(each.rng(given.seed, given.replay))))
            _say(each.tried(given.seed, given.replay))
        return 0
    _say("| parser | inputs | refused | right | slowest | memory | failures |")
    _say("|---|---|---|---|---|---|---|")
    whole = Told()
    for name, inputs in dealt(given.inputs, chosen).items():
        told = run(Order(name=name, seed=given.seed, inputs=inputs))
        _add(whole, told)
        _say(_row(name, told))
        for failure in told.failures:
            sys.stderr.write(f"{failure}\n")
    _say(_row("all", whole))
    return 1 if whole.failures else 0


if __name__ == "__main__":
    sys.exit(main())
