"""Runs the real command, in this process or in its own, and returns what it printed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.jobs.result_schema import faults
from tierfold.jobs.api import opening
from tierfold.jobs.cli.commands import main
from tierfold.jobs.engines.engine_choice import Engine, in_process
from tierfold.storage import clock

ROOT: Final = Path(__file__).resolve().parents[2]
COMPACT: Final = ("--set", "cleanup.policy=compact")
ALWAYS: Final = (*COMPACT, "--set", "min.cleanable.dirty.ratio=0")
"""Compact whatever the dirty ratio is."""


CLOCK: Final = "the clocks say"
"""Before a time in epoch milliseconds among the arguments of `tierfold`: the machine's and the
store's clock during this command. A test that plays another day says so, and not `--now`."""
TIMES: Final = frozenset({"started_at_ms", "finished_at_ms", "duration_ms"})
"""The fields of a document that have the times of its run."""


@lru_cache(maxsize=16)
def _faults_of(text: str) -> list[str]:
    """What a document does not meet of the schema; tests ask for the same one again and again."""
    return faults(json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """The `--json` document, which must be the whole of stdout and meet the schema."""
        assert self.stdout, self.stderr
        document: dict[str, Any] = json.loads(self.stdout)
        assert _faults_of(self.stdout) == [], document
        return document

    @property
    def untimed(self) -> dict[str, Any]:
        """The document without the times of the run."""
        return {name: value for name, value in self.document.items() if name not in TIMES}

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The entries of the document."""
        entries: list[dict[str, Any]] = self.document["partitions"]
        return entries

    @property
    def partitions(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The entries by topic and number; of a recreated topic, one of the two."""
        return {(entry["topic"], entry["partition"]): entry for entry in self.entries}

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of orders-0."""
        return self.partitions["orders", 0]

    @property
    def outcomes(self) -> dict[tuple[str, int], str]:
        """The outcome of each partition."""
        return {place: report["outcome"] for place, report in self.partitions.items()}

    def ends(self, code: int, outcome: str, *words: str) -> dict[str, Any]:
        """Assert the exit code, and the outcome of orders-0 with these words in its reason."""
        entry = self.entry
        assert (self.code, entry["outcome"]) == (code, outcome), self
        assert not told(entry["reason"], *words), entry["reason"]
        return entry

    def ends_alone(self, code: int, outcome: str, *words: str) -> dict[str, Any]:
        """As `ends`, and assert that there is no other partition."""
        assert self.outcomes.keys() == {("orders", 0)}
        return self.ends(code, outcome, *words)

    def refuses(self, *words: str) -> None:
        """Assert a wrong setting or usage: an error on stderr with these words, and no result."""
        assert self.code == 2, self
        assert not self.stdout or self.document["outcome"] == "bad_settings", self
        assert not told(self.stderr, *words), self.stderr


ON_SPARK: Final = ("--engine", "spark")
LOCAL_ENGINE: Final[Engine] = in_process(2**31)
"""`--engine local`, for the functions of verbs."""


@contextlib.contextmanager
def clocks_at(machine_ms: int, store_ms: int | None = None) -> Iterator[None]:
    """Set the machine's clock, and the store's; both go on once the first is read.

    So a run begins exactly then, and its results depend on no delay. Default: they agree.
    """
    began_ns: list[int] = []

    def time_ns() -> int:
        now_ns = time.time_ns()  # Only once: a busy machine may pause between two readings.
        if not began_ns:
            began_ns.append(now_ns)
        return machine_ms * 1_000_000 + now_ns - began_ns[0]

    store_ahead_ms = 0 if store_ms is None else store_ms - machine_ms
    machine = SimpleNamespace(
        time_ns=time_ns,
        monotonic=time.monotonic,
        clock_gettime=time.clock_gettime,
        sleep=time.sleep,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "time", machine)
        patch.setattr(opening, "store_now_ms", lambda *_: clock.now_ms() + store_ahead_ms)
        yield


def tierfold(*arguments: str | Path) -> Ran:
    """Run `tierfold ARGUMENTS…` in this process, without Spark unless the arguments ask for it.

    `ON_SPARK` uses the session of the tests, `CLOCK` and a time set the clocks.
    """
    if CLOCK in arguments:
        at = arguments.index(CLOCK)
        with clocks_at(int(str(arguments[at + 1]))):
            return tierfold(*arguments[:at], *arguments[at + 2 :])
    has_engine = {"--engine", "--second-opinion"} & {str(argument) for argument in arguments}
    if arguments[:1] in {("compact",), ("verify",)} and not has_engine:
        arguments = (*arguments, "--engine", "local")
    stdout, stderr = io.StringIO(), io.StringIO()
    code: int | str | None = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        patch.setattr(sys, "argv", ["tierfold", *map(str, arguments)])
        try:
            main()
        except SystemExit as left:
            code = left.code
    assert isinstance(code, int)
    return Ran(code=code, stdout=stdout.getvalue(), stderr=stderr.getvalue())


def status_of(tier: Path, *arguments: str) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the entries of `status --json --segments`, whatever its exit code is."""
    return tierfold("status", tier, "--json", "--segments", *arguments).partitions


def in_own_process(*command: str | Path) -> Ran:
    """Run a command in its own process, which starts its own Spark if needed."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env=users_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return Ran(code=done.returncode, stdout=done.stdout, stderr=done.stderr)


def script(name: str) -> Path:
    """Return the path of a console script of this environment."""
    return Path(sys.executable).parent / name


def users_environment() -> dict[str, str]:
    """Return the environment of a user's shell, without this session's Spark."""
    kept = {name: text for name, text in os.environ.items() if not _is_of_spark(name)}
    first = str(Path(sys.executable).parent)
    return kept | {"PATH": os.pathsep.join((first, kept["PATH"]))}


def _is_of_spark(name: str) -> bool:
    # The options only make its JVMs start faster (`tests.spark_classes`).
    is_options = name in {"SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"}
    return name == "PYTHONPATH" or (name.startswith(("PYSPARK_", "SPARK_")) and not is_options)


def told(reason: str, *words: str) -> Sequence[str]:
    """Return the words that a sentence lacks."""
    return [word for word in words if word not in reason]
