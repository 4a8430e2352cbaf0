"""Prints results as JSON lines, and appends them to a file with what they were measured on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from tests.jobs.commands import ROOT

RESULTS: Final = ROOT / "build" / "bench" / "results.jsonl"
"""Recorded ones are copied from here to docs/bench/."""


def printed(benchmark: str, row: Mapping[str, object], results: Path = RESULTS) -> None:
    """Print a row, and append it with the commit, the machine, the time and the load."""
    line = json.dumps({"benchmark": benchmark, **row}, ensure_ascii=False)
    click.echo(line)
    results.parent.mkdir(parents=True, exist_ok=True)
    where = {"benchmark": benchmark, "commit": _commit(), "machine": machine()}
    when = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": round(os.getloadavg()[0], 2),
    }
    with results.open("a", encoding="utf-8") as out:
        out.write(json.dumps({**where, **when, **row}, ensure_ascii=False) + "\n")


def machine() -> str:
    """The processor's architecture, its usable cores and the memory."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, {gib:.0f} GiB"


def _commit() -> str:
    """The commit of the tree, with a mark if files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no git"
