"""Prints what tierfold logs on stderr, one line each, from the level that `-v` and `-q` choose."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click
from rich.text import Text

from tierfold.compaction.model.redaction import printable
from tierfold.jobs.cli.output import LEVEL, Document, output_of

_STYLES: Final = {logging.DEBUG: "dim", logging.INFO: "", logging.WARNING: "yellow"}


class _StderrLines(logging.Handler):
    """Prints each log record as one line on stderr."""

    def __init__(self, ctx: click.Context) -> None:
        super().__init__()
        self._ctx = ctx

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        output, is_in_result = output_of(self._ctx), getattr(record, "is_in_result", False)
        if record.levelno < output.level or output.is_silent:
            return
        if is_in_result and isinstance(output, Document):
            return
        prefix = "warning: " if record.levelno == logging.WARNING else ""
        line = Text(printable(prefix + record.getMessage()), _STYLES.get(record.levelno, "red"))
        output.stderr.print(line)


@contextmanager
def logged_on_stderr(ctx: click.Context) -> Iterator[None]:
    """Print what tierfold logs meanwhile, from the level that `-v` and `-q` choose.

    At the end the bar is gone.
    """
    logger, handler = logging.getLogger("tierfold"), _StderrLines(ctx)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)  # The handler leaves out what -q and the default leave out.
    try:
        yield
    finally:
        output_of(ctx).progress.stop()
        logger.removeHandler(handler)
        logger.setLevel(before)


def level_option(ctx: click.Context, option: click.Parameter, value: bool) -> None:  # noqa: FBT001
    """The callback of `-v` and `-q`: keep the level."""
    if value:
        ctx.meta[LEVEL] = logging.DEBUG if option.name == "verbose" else logging.ERROR
