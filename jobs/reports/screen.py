"""The screen that everything is printed on, and where it breaks lines.

One rule for all: the width is that of `COLUMNS`, or of the terminal. Sentences break between words
there, but never within a number and its unit, a date, `key = value` or a command: what is longer
than a line is left to the terminal, so that it can be copied. What goes to a file or a pipe is not
broken at all, and its tables have `WIDTH_WITHOUT_TERMINAL` columns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import IO, Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

WIDTH_WITHOUT_TERMINAL: Final = 120
"""Columns of a table that is written to a file or a pipe."""

_PIECE: Final = re.compile(
    r"(?:`[^`]*`"  # a command
    r"|[\"\w.-]+ = (?:\"[^\"]*\"|\S)+"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?"
    r"|(?<![\w.])\d+(?: \d{3})*(?!\d)(?:\.\d+)?"  # a number, and maybe its unit
    r"(?: (?:bytes?|[kMGTP]B|[KMGT]iB|d|h|min|s|ms|%)(?!\w))?"
    r"|[~≤→] (?=\S)"
    r"|\S)+"
)
"""What stays on one line."""


class Screen(Console):
    """A console that breaks sentences between words; see the rule of this module."""

    def __init__(
        self,
        file: IO[str] | None = None,
        *,
        width: int | None = None,
        **options: Any,  # noqa: ANN401 - as rich
    ) -> None:
        """`width`: what else it is, whatever the file is; see `rich.console.Console`."""
        super().__init__(file=file, width=width, **options)
        self._is_whole = width is None and not self.is_terminal and "COLUMNS" not in os.environ
        if self._is_whole:
            self.width = WIDTH_WITHOUT_TERMINAL

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - as rich
        """See `rich.console.Console`; with `soft_wrap` a line is left whole."""
        if len(objects) == 1 and not options.get("soft_wrap"):
            (said,) = objects
            text = self.render_str(said) if isinstance(said, str) else said
            if isinstance(text, Text) and not text.no_wrap:
                objects = (text if self._is_whole else folded(text, self.width),)
                options["soft_wrap"] = True
        super().print(*objects, **options)


def folded(text: Text, width: int) -> Text:
    """Return the text with an end of line wherever a screen of that width breaks it.

    A line goes on with the indent that it begins with.
    """
    lines = []
    for line in text.split("\n", allow_blank=True):
        plain = line.plain
        indent = plain[: len(plain) - len(plain.lstrip())]
        for number, part in enumerate(line.divide(_breaks(plain, width - len(indent)))):
            part.rstrip()
            lines.append(Text(indent).append_text(part) if number else part)
    return Text("\n").join(lines)


def widest_piece(text: str) -> int:
    """Return the columns of the longest piece of the text that stays on one line."""
    return max((cell_len(piece[0]) for piece in _PIECE.finditer(text)), default=0)


def _breaks(line: str, width: int) -> Iterator[int]:
    """Where the line breaks: at the beginning of each piece that does not fit behind the others."""
    start: int | None = None
    for piece in _PIECE.finditer(line):
        if start is None:
            start = piece.start()
        elif cell_len(line[start : piece.end()]) > width:
            start = piece.start()
            yield start
