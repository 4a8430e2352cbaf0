"""Runs the commands that a page shows, and returns the page with what they print today.

A `console` block that shows output or names `build/tour` is a transcript. All commands of a page's
transcripts run in this process, in the order of the page, in a folder that holds only `sample`,
`conf` and `build`.
A page may leave out all that a command prints, or replace some lines by a `…` of their own. A new
command gets its output if the page shows `?` below it.

The clock is fixed, so that sizes and ages are the same in every run. Names of runs, segment ids,
times, and how long a command took differ from run to run: they count as equal, and one that a page
repeats in a later command is replaced by the one that the earlier command printed.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from tierfold.jobs.api.keywords import CONFIG_VARIABLE
from tierfold.jobs.cli.commands import tierfold

ROOT: Final = Path(__file__).resolve().parent.parent
NOW_MS: Final = 1_795_361_400_000
"""2026-11-22T15:30:00Z, a day after the records of the sample were written."""

STEP_MS: Final = 60_000
CHANGING: Final = frozenset({"compact", "restore", "vacuum"})
"""The verbs that change a tier; the clock of a page goes on by a step after each."""

TOUR: Final = "build/tour"
OMITTED: Final = "…"

_BLOCK: Final = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_COMMAND: Final = re.compile(r"^\$ (?:.*\\\n)*.*\n", re.MULTILINE)
_RUN: Final = re.compile(r"\d{8}T\d{6}-([\w-]{8})")
_DIFFERS: Final = re.compile(
    r"\d{8}T\d{6}-[\w-]{8}"  # a run's name
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    r"|(?<![\w-])[\w-]{22}(?![\w-])"  # a segment's id
    r"|(?<=^Took )[\d.]+ \w+",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command as a page shows it, and the lines that the page shows below it."""

    command: str
    output: str


def console_blocks(page: str) -> list[list[Step]]:
    """The steps of each `console` block."""
    return [_steps(block[0]) for block in _BLOCK.finditer(page)]


def refreshed(page: str) -> str:
    """Return the page with new output where a command prints something else now."""
    steps = [
        step
        for block in console_blocks(page)
        if any(step.output.strip() or TOUR in step.command for step in block)
        for step in block
    ]
    with tempfile.TemporaryDirectory() as folder:
        today = _Session(Path(folder)).run(steps) if steps else []
    pairs = list(zip(steps, today, strict=True))
    if all(_comparable(shown) == _comparable(now) for shown, now in pairs):
        return page
    for shown, now in pairs:
        gap = shown.output[len(shown.output.rstrip()) :]
        page = page.replace(shown.command + shown.output, now.command + now.output + gap, 1)
    return page


def ran(arguments: list[str], folder: Path) -> str:
    """Run `tierfold ARGUMENTS…` in `folder`; return what it prints to stdout."""
    with contextlib.chdir(folder):
        result = CliRunner(env={CONFIG_VARIABLE: None}).invoke(tierfold, arguments)
    if result.exit_code:
        command = shlex.join(["tierfold", *arguments])
        failure = f"{command}: exit code {result.exit_code}: {result.output}"
        raise RuntimeError(failure) from result.exception
    return result.stdout


class _Session:
    """The folder and the clock of one page."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._now_ms = NOW_MS
        self._shown: dict[str, str] = {}
        (folder / "build").mkdir()
        for name in ("sample", "conf"):
            shutil.copytree(ROOT / name, folder / name)

    def run(self, steps: list[Step]) -> list[Step]:
        today: list[Step] = []
        names: dict[str, str] = {}

        def renamed(found: re.Match[str]) -> str:
            return names.get(found[0], found[0])

        for step in steps:
            command = _DIFFERS.sub(renamed, step.command)
            output = _abridged(self._output(command), step.output)
            names |= zip(_DIFFERS.findall(step.output), _DIFFERS.findall(output), strict=False)
            today.append(Step(command=command, output=output))
        return today

    def _output(self, command: str) -> str:
        for name, shown in self._shown.items():
            command = command.replace(shown, name)
        words = shlex.split(command.removeprefix("$ "), comments=True)
        if words[0] == ".":  # The page activates the environment that this process runs in.
            return ""
        if words[0] != "tierfold":
            shell = ["bash", "-c", command.removeprefix("$ ")]
            return subprocess.check_output(shell, cwd=self._folder, text=True)
        if any("--now" in param.opts for param in tierfold.commands[words[1]].params):
            words += ["--now", str(self._now_ms)]
        printed = _RUN.sub(self._on_clock, ran(words[1:], self._folder))
        if words[1] in CHANGING:
            self._now_ms += STEP_MS
        return "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n")

    def _on_clock(self, run: re.Match[str]) -> str:
        """A run's name with the time of the page's clock: the real one would be hours away."""
        begun = datetime.fromtimestamp(self._now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
        return self._shown.setdefault(run[0], f"{begun}-{run[1]}")


def _steps(block: str) -> list[Step]:
    starts = [found.span() for found in _COMMAND.finditer(block)]
    ends = [start for start, _ in starts[1:]] + [len(block)]
    return [
        Step(command=block[start:after], output=block[after:end])
        for (start, after), end in zip(starts, ends, strict=True)
    ]


def _abridged(printed: str, shown: str) -> str:
    """Leave out the lines that the page leaves out."""
    now, was = printed.splitlines(), shown.rstrip().splitlines()
    if OMITTED not in was:
        return printed if was else ""
    head = was.index(OMITTED)
    tail = len(was) - head - 1
    return "\n".join([*now[:head], OMITTED, *now[len(now) - tail :]])


def _comparable(step: Step) -> str:
    return _DIFFERS.sub("", step.output).strip()
