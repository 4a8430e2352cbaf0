"""Breaks the lines of help pages by the rule of `jobs.reports.screen`.

click breaks a path at its hyphens, and a word that is longer than its column anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click
from rich.text import Text

from tierfold.jobs.reports.screen import folded

_AS_IT_IS: Final = "\b\n"
"""What begins a paragraph whose lines click leaves as they are."""


class HelpPage(click.HelpFormatter):
    """Writes paragraphs and lists whose lines are broken already."""

    def write_text(self, text: str) -> None:
        """See `click.HelpFormatter`."""
        super().write_text(_broken(text, self.width - self.current_indent))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """See `click.HelpFormatter`."""
        rows = [*rows]
        first = min(max((len(term) for term, _ in rows), default=0), col_max)
        width = self.width - first - 2 * col_spacing
        broken = [(term, _broken(text, width)) for term, text in rows]
        super().write_dl(broken, col_max, col_spacing)


class HelpContext(click.Context):
    """A context whose help is a `HelpPage`."""

    formatter_class = HelpPage


def _broken(text: str, width: int) -> str:
    return "\n\n".join(_paragraph(one, width) for one in text.split("\n\n") if one)


def _paragraph(text: str, width: int) -> str:
    if text.startswith(_AS_IT_IS):
        return text
    return _AS_IT_IS + folded(Text(" ".join(text.split())), width).plain
