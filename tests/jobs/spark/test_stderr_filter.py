"""Chatter of Spark's launcher and of native code is hidden on stderr; all else is shown."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Final

import pytest

from tests.jobs.commands import ROOT

PANIC: Final = """
thread 'tokio-rt-worker' (27626) panicked at /cargo/object_store-0.13.2/src/buffered.rs:369:41:
Already shut down
stack backtrace:
   0: __rustc::rust_begin_unwind
             at ./library/std/src/panicking.rs:689:5
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
"""
JVM: Final = "WARNING: Using incubator modules: jdk.incubator.vector\n"
OTHERS: Final = """java: no such file
thread 'main' (1) panicked at /cargo/another/src/lib.rs:1:1:
its words
"""
WRITES: Final = """
import os, subprocess, sys
from tierfold.jobs.spark.stderr_filter import chatter_hidden
with chatter_hidden():
    subprocess.run(["printf", "%s", sys.argv[1]], stdout=2)
    assert sys.stderr.fileno() != 2
    print("own words", file=sys.stderr)
os.write(2, b"afterwards")
"""

WRITES_TWICE: Final = """
import subprocess, time
from tierfold.jobs.spark.stderr_filter import chatter_hidden
with chatter_hidden():
    for _ in range(2):
        subprocess.run(["sh", "-c", "echo said >&2"])
        time.sleep(0.05)
"""


def stderr_lines(written: str) -> list[str]:
    """The stderr of a process whose child writes this, and that then writes lines of its own."""
    command = [sys.executable, "-c", WRITES, written]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(ran.stderr.split("\n"))


def test_only_chatter_is_hidden() -> None:
    written = PANIC + "a sentence between\n" + JVM + PANIC + OTHERS
    expected = ["a sentence between", *OTHERS.splitlines(), "own words", "afterwards"]
    assert stderr_lines(written) == sorted(expected)


def test_a_last_line_without_a_newline_is_shown() -> None:
    assert "no newline" in "".join(stderr_lines("no newline"))


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-"])
def test_a_process_succeeds_even_if_stderr_is_full_or_closed(stderr: str) -> None:
    command = ["sh", "-c", f'"$0" -c "$1" {stderr}', sys.executable, WRITES_TWICE]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def test_if_native_code_aborts_the_process_the_place_is_printed() -> None:
    imports = "import os; from tierfold.jobs.spark.stderr_filter import chatter_hidden"
    aborts = f"{imports}\nwith chatter_hidden(): os.abort()"
    command = [sys.executable, "-c", aborts]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == -signal.SIGABRT
    assert ran.stderr.startswith("Fatal Python error: Aborted")
