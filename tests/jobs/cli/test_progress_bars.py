"""One bar for a whole run in a terminal; elsewhere a line a minute."""

from __future__ import annotations

import io
import logging
import os
import pty
import re
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click
import pytest
from rich.console import Console

from tests.jobs.commands import ROOT, script, users_environment
from tests.jobs.tiers import key_of, updated_tier
from tierfold.jobs.cli.log_lines import logged_on_stderr
from tierfold.jobs.cli.output import json_option
from tierfold.jobs.cli.progress_bars import Bar, far, left
from tierfold.jobs.context.byte_progress import Progress
from tierfold.jobs.context.stopping import Stopped, deferred, stoppable

WAVE = Progress(
    step="rewrite",
    bytes_total=10,
    partitions_done=64,
    partitions_total=2000,
    run_bytes_done=1_200_000_000,
    run_bytes_total=30_500_000_000,
    elapsed_s=62.4,
    remaining_s=1440.2,
)


def terminal(columns: int) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=columns, color_system=None)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("columns", [80, 140])
def test_a_bar_shows_partitions_bytes_and_time(columns: int) -> None:
    console = terminal(columns)
    bar = Bar(console)
    bar(WAVE)
    bar.stop()
    (*_, last) = [line for line in shown(console).splitlines() if "rewrite" in line]
    assert "64/2 000 partitions, 1.2 GB/30.5 GB" in last
    assert "0:00:00" in last
    assert last.rstrip().endswith("about 24 min left")


def test_what_a_survey_has_listed_is_shown() -> None:
    survey = Progress(step="survey", bytes_total=None, partitions_total=20, objects_listed=12_000)
    assert far(survey) == "0/20 partitions, 12 000 objects listed"


def test_less_than_a_second_is_not_worth_a_number() -> None:
    assert left(replace(WAVE, remaining_s=0.4)) == ""
    assert left(replace(WAVE, remaining_s=None)) == ""


def test_steps_and_waves_share_one_bar_which_is_gone_at_the_end() -> None:
    console = terminal(100)
    bar = Bar(console)
    for step in ("survey", "scan", "rewrite", "scan"):
        bar(Progress(step=step, bytes_total=None))
        bar(Progress(step=step, bytes_total=None, is_ended=True))
    bar.stop()
    # A new bar would begin on a line of its own.
    assert shown(console).count("\n") == 1
    assert shown(console).endswith("\x1b[2K")


def test_without_a_terminal_a_line_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    bar = Bar(Console(file=io.StringIO()))
    for seconds in (1.0, 59.9, 61.0, 62.4, 119.0, 200.0, 239.0):
        bar(Progress(step="survey", bytes_total=None, elapsed_s=seconds))
    assert caplog.messages == ["survey: 1 min so far", "survey: 3.3 min so far"]
    bar(Progress(**{name: getattr(WAVE, name) for name in WAVE.__slots__} | {"elapsed_s": 250.0}))
    assert caplog.messages[-1] == (
        "rewrite: 4.1 min so far, 64/2 000 partitions, 1.2 GB/30.5 GB, about 24 min left"
    )


def test_no_line_is_written_where_stderr_is_part_of_a_document(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    context = click.Context(click.Command("plan"))
    with pytest.raises(Stopped), stoppable(), deferred():
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
        output = json_option(context, click.Option(["--json"]), True)
        with logged_on_stderr(context):
            output.progress(WAVE)
        signal.raise_signal(signal.SIGINT)
    assert capfd.readouterr().err == ""


def in_terminal(*command: str | Path) -> str:
    """What a terminal of 100 columns shows while the command runs."""
    screen, keyboard = pty.openpty()
    subprocess.run(
        [script("tierfold"), *command],
        cwd=ROOT,
        env=users_environment() | {"TERM": "xterm", "COLUMNS": "100"},
        stdout=keyboard,
        stderr=keyboard,
        check=False,
        timeout=60,
    )
    os.close(keyboard)
    shown = bytearray()
    with suppress(OSError):  # On Linux, this is the end of a terminal.
        while text := os.read(screen, 65536):
            shown.extend(text)
    os.close(screen)
    return shown.decode()


@pytest.mark.parametrize(
    ("words", "then"), [((), "1 partition: nothing to do"), (("--topic", "none"), "no topic")]
)
def test_the_bar_is_gone_before_the_report_or_the_error(
    words: tuple[str, ...], then: str, tmp_path: Path
) -> None:
    tier = updated_tier(tmp_path / "tier", [key_of("orders")], 1)
    shown = in_terminal("status" if words else "plan", tier, *words)
    assert re.search(r"survey .*0:00:00", shown), shown
    assert shown.rindex("survey") < shown.rindex("\x1b[2K") < shown.index(then), shown


@pytest.mark.parametrize("words", [("-q",), ("--json", "-q"), ("-q", "--json")])
def test_quiet_also_hides_the_bar(words: tuple[str, ...], tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [key_of("orders")], 1)
    shown = in_terminal("plan", tier, *words)
    assert "orders" in shown
    assert "survey" not in shown
