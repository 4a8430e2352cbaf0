"""Exit codes, and output that a terminal or a pipe can take.

0: done, nothing to do, or left, for the next run or to a run at work. 1: a bug. 2: a wrong setting
or wrong usage. 3: a partition failed. 4: fenced, because another run took a partition over. 3 goes
before 4. 5: the verb's work is done, and its result could not be written. 130: stopped by Ctrl-C.
143: stopped by SIGTERM.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from contextlib import suppress
from typing import Final

from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    TierfoldError,
    UnreadableObject,
)

EXIT_BUG: Final = 1
EXIT_WRONG_SETTING: Final = 2
EXIT_PARTITION_FAILED: Final = 3
EXIT_FENCED: Final = 4
EXIT_NOT_WRITTEN: Final = 5
EXIT_BROKEN_PIPE: Final = 128 + 13
"""The exit code that a shell reports for a process that SIGPIPE ended."""

_STDERR: Final = 2

_PLAIN: Final = {"→": "->", "–": "-", "…": "...", "≤": "<=", "·": "-", "│": "|"}
"""Replacements for characters that the terminal's encoding lacks."""


def exit_code_of(outcome: str) -> int:
    """Return the exit code of a verb whose most urgent outcome this is."""
    from tierfold.jobs.reports.result import NEEDS_A_PERSON, NEEDS_ANOTHER_RUN

    if outcome in NEEDS_A_PERSON:
        return EXIT_PARTITION_FAILED
    return EXIT_FENCED if outcome in NEEDS_ANOTHER_RUN else 0


def exit_code_of_error(error: TierfoldError) -> int:
    """Return the exit code, which says what to fix: a setting, the data, or tierfold itself."""
    match error:
        case BadSettings():
            return EXIT_WRONG_SETTING
        case CorruptLog() | UnreadableObject():
            return EXIT_PARTITION_FAILED
        case _:
            return EXIT_BUG


def leave_broken_pipe() -> None:
    """Exit quietly after the reader closed the pipe, and drop unwritten output."""
    drop_output()
    sys.exit(EXIT_BROKEN_PIPE)


def drop_output() -> None:
    """Drop what stdout has not written: Python would flush it at exit, and report an error then."""
    with suppress(io.UnsupportedOperation):  # A program has replaced stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def ensure_streams() -> None:
    """Let no other file have the numbers 0 to 2: what is printed there would go into it.

    Raises BadSettings if stdout is closed: no result could be printed.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(number)
    if sys.stdout is None:
        raise BadSettings(
            "stdout is closed, so the result could not be printed, and nothing was begun",
            where="the command line",
            remedy="Leave it open; `> /dev/null` drops the result.",
        )


def replace_unprintable() -> None:
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
