"""Exit codes, and output that a terminal or a pipe can take.

0: done, nothing to do, or left for the next run. 1: a bug. 2: a wrong setting or wrong usage. 3: a
partition failed. 4: fenced, because another run took a partition over. 3 goes before 4. 130:
stopped by Ctrl-C. 143: stopped by SIGTERM.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
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
EXIT_BROKEN_PIPE: Final = 128 + 13
"""The exit code that a shell reports for a process that SIGPIPE ended."""

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
    # Python flushes the rest at exit, and would print an error then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(EXIT_BROKEN_PIPE)


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
