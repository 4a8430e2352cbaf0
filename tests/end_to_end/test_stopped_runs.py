"""A terminal or a scheduler stops `compact` runs midway: real signals, real processes.

A terminal's Ctrl-C reaches every process of its foreground group. A scheduler's SIGTERM reaches the
process that it started: under spark-submit, the JVM.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.processes import APPLICATION_S, awaited, in_session, java_in, signalled
from tests.jobs.commands import ALWAYS, ROOT, script, tierfold, users_environment
from tests.jobs.tiers import key_of, latest_updates, live_values, updated_tier
from tierfold.storage.catalog.catalog import Catalog

ORDERS: Final = key_of("orders")
SEGMENTS: Final = 12
"""Each is a chunk, so the work takes many times longer than a signal does."""
OPTIONS: Final = (*ALWAYS, "--set", "chunk.bytes=1", "--set", "segment.bytes=1")
WAYS: Final[dict[str, tuple[str | Path, ...]]] = {
    "tierfold": (script("tierfold"), "compact"),
    "spark-submit": (script("spark-submit"), "--master", "local[2,4]", "jobs/compact_job.py"),
}

ENVIRONMENTS: Final = {"tierfold": {}, "spark-submit": {"SPARK_CONF_DIR": str(ROOT / "conf")}}
"""As in docs/cluster.md; only spark-submit needs it, and then cannot use Spark's class archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """A command in a terminal of its own, and what the terminal shows."""

    process: subprocess.Popen[bytes]
    shown: bytearray = field(default_factory=bytearray)

    def read(self, screen: int) -> None:
        """Read all output, until the last process has left the terminal."""
        try:
            while text := os.read(screen, 65536):
                self.shown.extend(text)
        except OSError:  # On Linux, this is the end of a terminal.
            return


@contextmanager
def in_terminal(*command: str | Path, **environment: str) -> Iterator[Terminal]:
    """Run the command as its session's first process; at the end kill all that it started."""
    screen, keyboard = pty.openpty()
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=ROOT,
        env=users_environment() | environment,
        stdin=keyboard,
        stdout=keyboard,
        stderr=keyboard,
        start_new_session=True,
    )
    os.close(keyboard)
    terminal = Terminal(process=process)
    reader = threading.Thread(target=terminal.read, args=(screen,))
    reader.start()
    try:
        yield terminal
        process.wait(APPLICATION_S)
    finally:
        for pid in in_session(process.pid):
            signalled(pid, signal.SIGKILL)
        process.wait()
        reader.join()
        os.close(screen)


@pytest.mark.parametrize(
    ("signum", "way"),
    [
        (signal.SIGINT, "tierfold"),
        pytest.param(signal.SIGTERM, "spark-submit", marks=pytest.mark.soak),
        pytest.param(signal.SIGTERM, "tierfold", marks=pytest.mark.soak),
        pytest.param(signal.SIGINT, "spark-submit", marks=pytest.mark.soak),
    ],
)
def test_a_run_that_is_stopped_releases_its_claims(
    signum: signal.Signals, way: str, tmp_path: Path
) -> None:
    tier = updated_tier(tmp_path / "tier", [ORDERS], SEGMENTS)
    catalog = Catalog(str(tier / "_tierfold"))
    with in_terminal(*WAYS[way], tier, *OPTIONS, **ENVIRONMENTS[way]) as terminal:
        awaited("the claim", lambda: owner_of(catalog) or None)
        if signum == signal.SIGINT:
            os.killpg(terminal.process.pid, signum)
        else:
            os.kill(terminal.process.pid, signum)
    shown = terminal.shown.decode()
    assert terminal.process.returncode == 128 + signum, shown
    assert owner_of(catalog) == ""
    name = "Ctrl-C (SIGINT)" if signum == signal.SIGINT else "SIGTERM"
    sentences = re.findall(rf"^\S+: stopped by {re.escape(name)}: ", shown, re.MULTILINE)
    assert len(sentences) == 1, shown
    assert not re.search("Traceback|Fatal|ERROR|Aborted|Exception", shown), shown
    if way == "tierfold":  # Under spark-submit, stderr is no terminal.
        assert shown.index("survey") < shown.index("Starting Spark…"), shown
    lines = re.findall(rf"Stopping after {re.escape(name)}: .* released\.", shown)
    assert len(lines) == 1, shown
    assert shown.index(lines[0]) < shown.index(": stopped by"), shown
    again = tierfold("compact", tier, *ALWAYS, "--json")
    assert (again.code, again.outcomes) == (0, {("orders", 0): "compacted"})
    status = tierfold("status", tier, "--json", "--segments")
    assert live_values(status.partitions["orders", 0]) == latest_updates(SEGMENTS)


@pytest.mark.soak
def test_a_run_that_is_stopped_while_spark_starts_leaves_no_process(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [ORDERS], 1)
    with in_terminal(script("tierfold"), "compact", tier, *OPTIONS) as terminal:
        leader = terminal.process.pid
        awaited("the JVM", lambda: java_in(leader) or None)
        # Signals follow each other so quickly that one always arrives during the start.
        while terminal.process.poll() is None:
            os.killpg(leader, signal.SIGINT)
            time.sleep(0.1)
        awaited("the JVM's end", lambda: None if java_in(leader) else True)
    shown = terminal.shown.decode()
    assert terminal.process.returncode == 128 + signal.SIGINT, shown
    assert not re.search("Traceback|Fatal|ERROR|Aborted|Exception", shown), shown
    assert not list(tier.glob("_tierfold"))



def owner_of(catalog: Catalog) -> str:
    """The run that holds the partition; empty: none does."""
    row = catalog.read([ORDERS]).get(ORDERS)
    return "" if row is None else row.owner_run
