"""Lines break between words, at one width for all, and never within what is copied."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from tests.compaction.builders import KEY
from tierfold.jobs.pipeline.partition_report import FAILED, PartitionReport
from tierfold.jobs.reports.plan_report import PlanResult
from tierfold.jobs.reports.screen import WIDTH_WITHOUT_TERMINAL, Screen, folded

COMMAND = "`kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics`"


def lines(text: str, width: int) -> list[str]:
    return folded(Text(text), width).plain.split("\n")


@pytest.mark.parametrize(
    "piece",
    [
        "3 126 604 bytes",
        "3.1 MB",
        "128 MiB",
        "0.5 %",
        "12 min",
        "2026-11-29 04:13:49",
        "cleanup.policy = compact",
        '"cleanup.policy" = "compact"',
        "→ 320.2 kB",
        "~ 3.1 MB",
        "/mnt/tier/tiered-0-EnvZlVwBRBCOjS6Uhrdc6w/00000000000000000000.log",
        COMMAND,
    ],
)
@pytest.mark.parametrize("width", range(8, 30))
def test_what_belongs_together_stays_on_one_line(piece: str, width: int) -> None:
    shown = lines(f"There is this: {piece}, and a few words follow it.", width)
    assert any(piece in line for line in shown)
    assert all(len(line) <= width for line in shown if piece[:4] not in line)


def test_a_line_goes_on_with_its_indent_and_ends_are_kept() -> None:
    assert lines("  a bb ccc\n\nd", 6) == ["  a bb", "  ccc", "", "d"]


@given(st.text("ab`=→ 0123.\n", max_size=60), st.integers(min_value=1, max_value=20))
def test_only_spaces_are_lost(text: str, width: int) -> None:
    assert "".join("".join(lines(text, width)).split()) == "".join(text.split())


def screen(monkeypatch: pytest.MonkeyPatch, columns: str) -> Screen:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    return Screen(StringIO())


def printed(on: Screen, text: str) -> list[str]:
    on.print(text)
    on.print(Text(text))
    assert isinstance(on.file, StringIO)
    return on.file.getvalue().splitlines()


def test_columns_are_obeyed_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(screen(monkeypatch, "20"), "there are 3 126 604 bytes")
    assert shown == ["there are", "3 126 604 bytes"] * 2


def test_a_pipe_gets_each_sentence_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = screen(monkeypatch, "")
    assert pipe.width == WIDTH_WITHOUT_TERMINAL
    assert printed(pipe, "word " * 100) == ["word " * 100] * 2


@pytest.mark.parametrize("columns", ["80", "120"])
def test_a_path_in_a_table_can_be_copied(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "tiered-0-EnvZlVwBRBCOjS6Uhrdc6w/00000000000000000000-0hLI51_3SZKS69rydQPI4w.log"
    failed = PartitionReport(key=KEY, outcome=FAILED, reason=f"{path}: a torn batch")
    other = replace(failed, key=replace(KEY, partition=9), reason="no time was left for it")
    on = screen(monkeypatch, columns)
    PlanResult(tier="/tier", partitions=(failed, other)).show(on)
    assert isinstance(on.file, StringIO)
    shown = on.file.getvalue()
    assert f"{KEY}: {path}: a torn batch" in " ".join(shown.split())
    assert path in shown
    assert ("see below" in shown) is (columns == "120")
