"""Reports fit narrow terminals, closed pipes and encodings that lack our signs."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.commands import ROOT, tierfold, users_environment
from tests.jobs.elections import RUN, histories
from tests.jobs.reports.screens import FLEET
from tests.jobs.tiers import SAMPLE
from tierfold.jobs.cli import exit_codes
from tierfold.jobs.reports.plan_report import PlanResult


def test_the_document_has_every_partition() -> None:
    assert len(PlanResult(tier="/tier", partitions=tuple(FLEET)).to_dict()["partitions"]) == 20_000


@pytest.mark.parametrize("width", [60, 80, 120])
def test_history_shows_all_that_a_restore_takes(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier, *_ = histories(tmp_path / "tier")
    monkeypatch.setenv("COLUMNS", str(width))
    (entry, *_) = tierfold("history", tier, "orders-0", "--json").entries[0]["history"]
    words = tierfold("history", tier, "orders-0").stdout.split()
    assert entry["committed_at"] in words
    assert RUN in words


def test_a_reader_that_goes_away_is_no_bug() -> None:
    log = next(SAMPLE.glob("kafka-tiered-storage/*/00000000000000000000-*.log"))
    with subprocess.Popen(
        [sys.executable, "-m", "tierfold", "dump", str(log)],
        cwd=ROOT,
        env=users_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"t": "batch"')
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (exit_codes.EXIT_BROKEN_PIPE, b"")


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_gets_colours_unless_no_color_is_set(tmp_path: Path, no_color: str) -> None:
    shutil.copytree(SAMPLE, tmp_path / "tier")
    max((tmp_path / "tier").rglob("*.log")).write_bytes(b"")
    seen, terminal = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "tierfold", "status", str(tmp_path / "tier")],
        cwd=ROOT,
        env=users_environment() | {"NO_COLOR": no_color, "TERM": "xterm"},
        stdout=terminal,
        check=False,
    )
    os.close(terminal)
    with os.fdopen(seen, "rb") as screen:
        shown = screen.read1(1 << 16)
    assert b"refused" in shown
    assert (b"\x1b[31m" in shown) is (not no_color)


def test_signs_that_an_encoding_lacks_are_replaced() -> None:
    exit_codes.replace_unprintable()
    told = "3 → 1, 0–7, ≤ 9 … ö".encode("ascii", errors="tierfold")
    assert told == b"3 -> 1, 0-7, <= 9 ... ?"
