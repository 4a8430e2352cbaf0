"""The processes that the kernel lists, and commands in sessions of their own.

Every descendant of a session's first process stays in the session, even if it forms another group
or its parent dies: Spark's Python workers leave the driver's process group, but not its session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self, TypeVar

from tests.jobs.commands import ROOT, Ran
from tierfold.jobs.spark import worker_daemon

PATIENCE_S: Final = 240.0
APPLICATION_S: Final = 300.0
LOOK_EVERY_S: Final = 0.05
PYTHON_WORKERS: Final = f"\0{worker_daemon.__name__}\0"
"""A part of the command line of Spark's Python workers and of the daemon that forks them."""

_T = TypeVar("_T")


def awaited(what: str, look: Callable[[], _T | None], every_s: float = LOOK_EVERY_S) -> _T:
    """Call `look` until it finds something, and return that."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = look()
        if found is not None:
            return found
        time.sleep(every_s)
    raise TimeoutError(f"{what}: not within {PATIENCE_S:.0f} s")


@contextmanager
def repeated(action: Callable[[], object], every_s: float) -> Iterator[None]:
    """Call `action` in a thread, repeatedly until the block ends."""
    is_over = threading.Event()

    def repeat() -> None:
        while not is_over.wait(every_s):
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A command that was started; its streams go to files, so that no pipe fills up unread.

    As a context manager, it kills what is left of the command.
    """

    process: subprocess.Popen[bytes]
    stdout: Path
    stderr: Path
    began_s: float = field(default_factory=time.monotonic)
    """By the monotonic clock."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def session(self) -> set[int]:
        """Its living processes: the driver, the JVM, Python workers."""
        return in_session(self.process.pid)

    @property
    def jvm(self) -> set[int]:
        """The JVM's process, once it runs."""
        return java_in(self.process.pid)

    def ended(self) -> Ran:
        """Wait for its end, and return the outcome."""
        self.process.wait(APPLICATION_S)
        stdout, stderr = (path.read_text(encoding="utf-8") for path in (self.stdout, self.stderr))
        return Ran(code=self.process.returncode, stdout=stdout, stderr=stderr)

    def stop(self) -> None:
        """Kill it and everything that it started."""
        while living := self.session:
            for pid in living:
                signalled(pid, signal.SIGKILL)
            if self.process.pid in living:
                self.process.wait()


def started(
    command: Iterable[str | Path], folder: Path, name: str, environment: Mapping[str, str]
) -> Application:
    """Start the command in a session of its own; its streams are files in `folder`."""
    stdout, stderr = (folder / f"{name}.{stream}" for stream in ("out", "err"))
    with stdout.open("wb") as out, stderr.open("wb") as err:
        process = subprocess.Popen(
            list(command),
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    return Application(process=process, stdout=stdout, stderr=stderr)


def bare_environment() -> dict[str, str]:
    """This process's environment without the variables of Python, Numba and Spark."""
    ours = ("PYSPARK_", "SPARK_", "NUMBA_", "PYTHON")
    return {name: text for name, text in os.environ.items() if not name.startswith(ours)}


def living() -> set[int]:
    """The running processes, without zombies."""
    return set(_stats())


def with_descendants(ancestor: int) -> set[int]:
    """The process and its descendants, without those whose parent has died."""
    parents = {pid: int(stat[1]) for pid, stat in _stats().items()}
    family: set[int] = set()
    news: Sequence[int] = [ancestor]
    while news:
        family.update(news)
        news = [pid for pid, parent in parents.items() if parent in news]
    return family


def in_session(leader: int) -> set[int]:
    """The living processes of the session that `leader` started."""
    return {pid for pid, stat in _stats().items() if int(stat[3]) == leader}


def java_in(leader: int) -> set[int]:
    """The Java processes of the session that `leader` started."""
    return {pid for pid in in_session(leader) if text_of(pid, "comm") == "java\n"}


def parent_of(pid: int) -> int:
    """The process's parent; −1: the process has ended."""
    stat = _stat_of(pid)
    return int(stat[1]) if stat else -1


def daemons(pids: set[int]) -> set[int]:
    """The parents of Spark's Python workers among the processes."""
    python = {pid for pid in pids if PYTHON_WORKERS in text_of(pid, "cmdline")}
    return {pid for pid in python if parent_of(pid) not in python}


def python_workers(pids: set[int]) -> set[int]:
    """Spark's Python workers among the processes; they outlive their parent for a while."""
    python = {pid for pid in pids if PYTHON_WORKERS in text_of(pid, "cmdline")}
    return {pid for pid in python if parent_of(pid) in python}


def reading(pids: set[int], folder: Path) -> set[int]:
    """The processes, among `pids`, that have a file below `folder` mapped into their memory."""
    return {pid for pid in pids if str(folder) in text_of(pid, "maps")}


def unfinished_objects(pid: int, folder: Path) -> set[Path]:
    """The hidden files below `folder` that the process has open: objects that it is writing."""
    return {
        file
        for file in _open_files(pid)
        if file.name.startswith(".") and file.is_relative_to(folder)
    }


def writing(pids: set[int], folder: Path) -> set[int]:
    """The processes, among `pids`, that are writing an object below `folder`."""
    return {pid for pid in pids if unfinished_objects(pid, folder)}


def signalled(pid: int, which: signal.Signals) -> bool:
    """Send the signal; return whether the process still existed."""
    try:
        os.kill(pid, which)
    except ProcessLookupError:
        return False
    return True


def text_of(pid: int, file: str) -> str:
    """The text of a file of the process in /proc; empty: the process has ended."""
    try:
        return Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _open_files(pid: int) -> list[Path]:
    try:
        return [path.readlink() for path in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []


def _stats() -> dict[int, list[str]]:
    """`_stat_of` each living process; called many times a second, so it reads one file of each."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    found = {pid: _stat_of(pid) for pid in pids}
    return {pid: stat for pid, stat in found.items() if stat and stat[0] != "Z"}


def _stat_of(pid: int) -> list[str]:
    """Its state, parent, group, session and so on, the fields after the name; empty: it ended."""
    return text_of(pid, "stat").rpartition(") ")[2].split()
