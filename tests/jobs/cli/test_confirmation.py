"""In a terminal `vacuum` asks before it deletes after a short grace period or orphan age."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.jobs.commands import ROOT, users_environment
from tests.jobs.tiers import files_below, made_tier, put_updates
from tests.jobs.vacuum_tiers import ORDERS


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """A tier whose only segment is an orphan: tierfold has just written all its objects."""
    made_tier(tmp_path / "tier")
    put_updates(tmp_path / "tier", ORDERS, 0)
    return tmp_path / "tier"


def in_terminal(tier: Path, answer: str, *arguments: str) -> tuple[int, str]:
    """Run `vacuum` in a terminal where a person types `answer`; return exit code and screen."""
    screen, keyboard = pty.openpty()
    os.write(screen, answer.encode())
    process = subprocess.Popen(
        [sys.executable, "-m", "tierfold", "vacuum", str(tier), *arguments],
        cwd=ROOT,
        env=users_environment(),
        stdin=keyboard,
        stdout=subprocess.DEVNULL,
        stderr=keyboard,
    )
    code = process.wait(60)
    os.close(keyboard)
    shown = b""
    with suppress(OSError):  # On Linux, this is the end of a terminal that shows nothing.
        shown = os.read(screen, 1 << 16)
    os.close(screen)
    return code, shown.decode()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("n\n", id="no", marks=pytest.mark.soak),
        pytest.param("\n", id="enter"),
        pytest.param("\x04", id="the input ends", marks=pytest.mark.soak),
    ],
)
def test_anything_but_yes_deletes_nothing(tier: Path, answer: str) -> None:
    before = files_below(tier)
    code, shown = in_terminal(tier, answer, "--orphan-age", "0s", "--grace-period", "59m")
    assert code == 2
    assert "--grace-period is 59 min, below 1 h" in shown
    assert "--orphan-age is 0 ms, below 1 d" in shown
    assert "the answer was not yes. Nothing was deleted." in " ".join(shown.split())
    assert files_below(tier) == before


@pytest.mark.parametrize(
    ("answer", "arguments"),
    [("y\n", ("--orphan-age", "0s")), ("", ("--orphan-age", "0s", "--yes"))],
    ids=["answered", "--yes"],
)
def test_yes_goes_on_and_the_report_says_that_it_was_short(
    tier: Path, answer: str, arguments: tuple[str, ...]
) -> None:
    code, shown = in_terminal(tier, answer, *arguments)
    assert code == 0
    assert ("Delete anyway?" in shown) is bool(answer)
    assert "warning: --orphan-age is 0 ms, below 1 d" in shown


@pytest.mark.parametrize(
    "arguments", [("--grace-period", "1h"), ("--orphan-age", "0s", "--dry-run")]
)
def test_it_does_not_ask_without_need(tier: Path, arguments: tuple[str, ...]) -> None:
    code, shown = in_terminal(tier, "", *arguments)
    assert (code, "Delete anyway?" in shown) == (0, False)
