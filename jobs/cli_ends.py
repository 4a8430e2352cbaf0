"""How a verb ends: where people read, what machines read, the exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from jobs.outcome_reports import FAILED, FENCED, LOST_RACE, REFUSED, UNKNOWN, PartitionReport
from jobs.retain_report import RetainReport

EXIT_BUG: Final = 1
EXIT_WRONG_SETTING: Final = 2
EXIT_PARTITION_FAILED: Final = 3
EXIT_FENCED: Final = 4

WIDTH_WITHOUT_TERMINAL: Final = 120
"""Columns of a table that goes to a file or a pipe."""


def for_people() -> Console:
    """Where people read."""
    width = None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
    return Console(file=sys.stdout, width=width, highlight=False)


def leave(reports: Sequence[PartitionReport | RetainReport]) -> None:
    """Exit with the code that the reports call for; where that is 0, go on."""
    outcomes = {each.outcome for each in reports}
    if outcomes & {FAILED, REFUSED, UNKNOWN}:
        sys.exit(EXIT_PARTITION_FAILED)
    if outcomes & {FENCED, LOST_RACE}:
        sys.exit(EXIT_FENCED)
