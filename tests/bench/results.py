"""Prints rows as JSON lines, and appends them to results.jsonl with the circumstances.

Rows worth keeping are copied from there to docs/bench by hand.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from tests.jobs.commands import ROOT


def print_row(benchmark: str, row: Mapping[str, object], folder: Path) -> None:
    """Print a row; append it to the folder's results with commit, machine, time and load."""
    click.echo(json.dumps({"benchmark": benchmark, **row}, ensure_ascii=False))
    circumstances = {
        "benchmark": benchmark,
        "commit": _commit(),
        "machine": _machine(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": round(os.getloadavg()[0], 2),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "results.jsonl").open("a", encoding="utf-8") as out:
        out.write(json.dumps({**circumstances, **row}, ensure_ascii=False) + "\n")


def _machine() -> str:
    """The processor's architecture, its usable cores and the memory."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, {gib:.0f} GiB"


def _commit() -> str:
    """The commit of the tree, with `-dirty` if files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no git"
