"""Runs of `tierfold` in processes of their own, without the seconds that Python's imports take.

One process imports everything and forks for each run, before any client or table is opened:

    with ForkServer() as server:
        run = server.started(folder, "compact", tier, at=Instant("send", 1, is_after=True))
        run.ended()                        # its exit code and documents
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

from tests.faults.publishing_kills.publishing_instants import (
    Instant,
    Instants,
    instants_in,
    watched,
)
from tests.jobs.commands import ROOT, Ran, users_environment
from tierfold.jobs.cli.commands import main
from tierfold.jobs.engines import local_executor
from tierfold.jobs.publishing import publishing_run
from tierfold.jobs.verbs import compact

LOADED: Final = (local_executor, publishing_run, compact)
"""A verb imports them when it runs; here each run has them already."""
PATIENCE_S: Final = 120.0
LOOK_EVERY_S: Final = 0.01


class StillRunning(Exception):
    """A run did not end or stop in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedRun:
    """A run that was started."""

    pid: int
    server: ForkServer
    folder: Path

    @property
    def passed(self) -> list[Instant]:
        """The instants that it has passed."""
        return instants_in(self.folder / "passed")

    @property
    def state(self) -> str:
        """The kernel's letter: T is stopped, Z has ended."""
        with suppress(OSError):
            stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8")
            return stat.rpartition(") ")[2][0]
        return "Z"

    def signal(self, signum: signal.Signals) -> None:
        """Send it a signal."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signum)

    def await_stop(self) -> None:
        """Wait until a SIGSTOP holds it; raises StillRunning if it ends or goes on."""
        deadline = time.monotonic() + PATIENCE_S
        while self.state != "T":
            if self.state == "Z" or time.monotonic() > deadline:
                raise StillRunning(f"it did not stop (now {self.state}): {self.passed}")
            time.sleep(LOOK_EVERY_S)

    def has_ended(self) -> bool:
        """Whether it ended."""
        return self.state == "Z"

    def ended(self) -> Ran:
        """Wait for its end; the exit code of a signal is negative."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.has_ended():
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
                raise StillRunning(f"it did not end: {self.passed}")
            time.sleep(LOOK_EVERY_S)
        code = self.server.ask({"wait": self.pid})["code"]
        out, err = ((self.folder / name).read_text(encoding="utf-8") for name in ("out", "err"))
        return Ran(code=code, stdout=out, stderr=err)


class ForkServer:
    """The process that forks."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._started: list[ForkedRun] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name],
            cwd=ROOT,
            env=users_environment() ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        for run in self._started:
            run.signal(signal.SIGKILL)
        self._input.close()
        self._process.wait(PATIENCE_S)

    @property
    def _input(self) -> IO[str]:
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer of the process."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._input.write(f"{json.dumps(request)}\n")
        self._input.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def started(
        self,
        folder: Path,
        *arguments: str | Path,
        at: Instant | None = None,
        signum: signal.Signals = signal.SIGKILL,
    ) -> ForkedRun:
        """Start `tierfold ARGUMENTS…`; it gets the signal `at` this instant.

        `folder`: a new one for its streams.
        """
        folder.mkdir(parents=True)
        answer = self.ask(
            {
                "arguments": [*map(str, arguments)],
                "folder": str(folder),
                "at": None if at is None else str(at),
                "signum": int(signum),
            }
        )
        run = ForkedRun(pid=answer["pid"], server=self, folder=folder)
        self._started.append(run)
        return run


@contextmanager
def stopped(run: ForkedRun) -> Iterator[None]:
    """Within the block the run is stopped; it had to stop by itself."""
    run.await_stop()
    try:
        yield
    finally:
        run.signal(signal.SIGCONT)


def serve() -> None:
    """Answer requests until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            _answer({"code": os.waitstatus_to_exitcode(status)})
            continue
        pid = os.fork()
        if pid == 0:
            _run(request)
        _answer({"pid": pid})


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()


def _run(request: dict[str, Any]) -> None:
    """Be the run; does not return."""
    code: int | str | None = 1
    try:
        os.setsid()
        # A shell's background job ignores it, and all that it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        folder = Path(request["folder"])
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        at = request["at"]
        instants = Instants(
            passed=folder / "passed",
            at=None if at is None else Instant.parsed(at),
            signum=signal.Signals(request["signum"]),
        )
        sys.argv = ["tierfold", *request["arguments"]]
        with watched(instants):
            try:
                main()
            except SystemExit as left:
                code = left.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    serve()
