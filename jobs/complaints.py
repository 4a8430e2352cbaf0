"""What the command line says of wrong words and of bugs, without the secrets among them."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from compaction.shown import HIDDEN, printable, shown, without_secrets

_SPARE_WORDS: Final = re.compile(r"(unexpected extra arguments?) \(.*\)", re.DOTALL)
"""Words that click has no use for and quotes: `--set NAME VALUE` without its sign, say."""


class Verbs(click.Group):
    """A group of verbs whose complaints about the command line repeat no secret of it."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:  # noqa: ANN401 - as click
        """See `click.Group`."""
        with _fit_to_be_shown():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click
        """See `click.Group`; a verb's own words are read here."""
        with _fit_to_be_shown():
            return super().invoke(ctx)


@contextmanager
def _fit_to_be_shown() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        told = shown(_SPARE_WORDS.sub(rf"\1 ({HIDDEN})", error.message))
        error.message = told  # type: ignore[misc]  # click shows it with usage and hints
        raise


def trace() -> str:
    """The trace of the exception at hand, fit to be put into a bug report."""
    return "\n".join(map(printable, without_secrets(traceback.format_exc()).splitlines()))
