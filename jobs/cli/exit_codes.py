"""How a verb ends: where people read, what machines read, the exit code."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from tierfold.jobs.context.stopping import under_spark_submit
from tierfold.jobs.pipeline.partition_report import (
    FAILED,
    FENCED,
    LOST_RACE,
    REFUSED,
    UNKNOWN,
    PartitionReport,
)
from tierfold.jobs.verbs.vacuum_outcome import VacuumReport

EXIT_BUG: Final = 1
EXIT_WRONG_SETTING: Final = 2
EXIT_PARTITION_FAILED: Final = 3
EXIT_FENCED: Final = 4
EXIT_BROKEN_PIPE: Final = 128 + 13
"""As a shell tells of a process that SIGPIPE has ended."""

WIDTH_WITHOUT_TERMINAL: Final = 120
"""Columns of a table that goes to a file or a pipe."""


_PLAIN: Final = {"→": "->", "–": "-", "…": "...", "≤": "<=", "·": "-", "│": "|"}
"""What stands for these where the terminal's encoding lacks them."""


class _PeoplesConsole(Console):
    """A console whose reader may go away, as `head` does once it has its lines."""

    def on_broken_pipe(self) -> None:
        """See `rich.console.Console`: end as a process does that the signal ends."""
        leave_broken_pipe()


def for_people() -> Console:
    """Where people read."""
    width = None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
    return _PeoplesConsole(file=sys.stdout, width=width, highlight=False)


def leave_broken_pipe() -> None:
    """The reader is gone: exit quietly, and drop what is not yet written."""
    # Python writes what is left when it ends, and would complain then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(EXIT_BROKEN_PIPE)


def print_what_can_be() -> None:
    """Whatever the encodings of stdout and stderr lack is replaced, never an error."""
    codecs.register_error("tierfold", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="tierfold")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(each, "?") for each in lacking), error.end


def beside_result(*, as_json: bool) -> Console:
    """Where progress and warnings go: stderr; nowhere where that would spoil a document."""
    # spark-submit joins stderr to stdout: there a document must have both to itself.
    return Console(stderr=True, quiet=as_json and under_spark_submit())


def leave(reports: Sequence[PartitionReport | VacuumReport]) -> None:
    """Exit with the code that the reports call for; where that is 0, go on."""
    outcomes = {report.outcome for report in reports}
    if outcomes & {FAILED, REFUSED, UNKNOWN}:
        sys.exit(EXIT_PARTITION_FAILED)
    if outcomes & {FENCED, LOST_RACE}:
        sys.exit(EXIT_FENCED)
