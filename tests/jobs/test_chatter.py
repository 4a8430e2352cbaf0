"""What the launcher and native code write past Python's stderr: chatter goes, the rest stays."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

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
from jobs.chatter import chatter_hidden
with chatter_hidden():
    subprocess.run(["printf", "%s", sys.argv[1]], stdout=2)
    assert sys.stderr.fileno() != 2
    print("own words", file=sys.stderr)
os.write(2, b"afterwards")
"""


def passed_on(said: str) -> list[str]:
    """What a process shows whose child says so, and that then says something of its own."""
    command = [sys.executable, "-c", WRITES, said]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(ran.stderr.split("\n"))


def test_chatter_is_not_passed_on_and_all_else_is() -> None:
    said = PANIC + "a sentence between\n" + JVM + PANIC + OTHERS
    expected = ["", "", "a sentence between", *OTHERS.splitlines(), "own words", "afterwards"]
    assert passed_on(said) == sorted(expected)
