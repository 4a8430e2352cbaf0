"""Consoles for people, output for machines, and exit codes."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console

from tierfold.jobs.context.stopping import under_spark_submit

if TYPE_CHECKING:
    from tierfold.jobs.pipeline.partition_report import PartitionReport
    from tierfold.jobs.verbs.vacuum_outcome import PartitionVacuum

EXIT_BUG: Final = 1
EXIT_WRONG_SETTING: Final = 2
EXIT_PARTITION_FAILED: Final = 3
EXIT_FENCED: Final = 4
EXIT_BROKEN_PIPE: Final = 128 + 13
"""The exit code that a shell reports for a process that SIGPIPE ended."""

WIDTH_WITHOUT_TERMINAL: Final = 120
"""Columns of a table that is written to a file or a pipe."""


_PLAIN: Final = {"→": "->", "–": "-", "…": "...", "≤": "<=", "·": "-", "│": "|"}
"""Replacements for characters that the terminal's encoding lacks."""


class _PeoplesConsole(Console):
    """A console whose reader may close the pipe early, as `head` does."""

    def on_broken_pipe(self) -> None:
        """See `rich.console.Console`: exit like a process that SIGPIPE ended."""
        leave_broken_pipe()


def for_people() -> Console:
    """Return the console for people, on stdout."""
    width = None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
    return _PeoplesConsole(file=sys.stdout, width=width, highlight=False)


def leave_broken_pipe() -> None:
    """Exit quietly after the reader is gone, and drop unwritten output."""
    # Python flushes the rest at exit, and would print an error then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(EXIT_BROKEN_PIPE)


def print_what_can_be() -> None:
    """Replace characters that the encodings of stdout and stderr lack, instead of raising."""
    codecs.register_error("tierfold", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="tierfold")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in lacking), error.end


def beside_result(*, as_json: bool) -> Console:
    """Return the console for progress and warnings: stderr, or none if that spoils a document."""
    # spark-submit merges stderr into stdout, so nothing may be printed beside a document.
    return Console(stderr=True, quiet=as_json and under_spark_submit())


def leave(reports: Sequence[PartitionReport | PartitionVacuum]) -> None:
    """Exit with the exit code of the reports; return if it is 0."""
    from tierfold.jobs.pipeline.partition_report import FAILED, FENCED, LOST_RACE, REFUSED, UNKNOWN

    outcomes = {report.outcome for report in reports}
    if outcomes & {FAILED, REFUSED, UNKNOWN}:
        sys.exit(EXIT_PARTITION_FAILED)
    if outcomes & {FENCED, LOST_RACE}:
        sys.exit(EXIT_FENCED)
