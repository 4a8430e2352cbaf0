"""What the command line says of wrong words, of bugs, and of what stops a whole verb.

Secrets among them are not repeated.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.redaction import HIDDEN, printable, shown, without_secrets
from tierfold.jobs.cli.exit_codes import leave_broken_pipe

_SPARE_WORDS: Final = re.compile(r"(unexpected extra arguments?) \(.*\)", re.DOTALL)
"""Words that click has no use for and quotes: `--set NAME VALUE` without its sign, say."""

_AS_JSON: Final = "jobs.as_json"
"""Among what click keeps for a verb: whether --json was given."""


class Verbs(click.Group):
    """A group of verbs whose complaints about the command line repeat no secret of it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group`; the sentence of each verb is whole, on as many lines as it takes."""
        verbs = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.get_short_help_str(limit=200)) for name, verb in verbs])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:  # noqa: ANN401 - as click
        """See `click.Group`."""
        with _fit_to_be_shown():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click
        """See `click.Group`; a verb's own words are read here."""
        with _fit_to_be_shown(), _documented(ctx):
            return super().invoke(ctx)


def note_json(ctx: click.Context, _: click.Parameter, value: bool) -> bool:  # noqa: FBT001
    """The callback of `--json`: what stops the verb is said in a document, too."""
    ctx.meta[_AS_JSON] = value
    return value


@contextmanager
def _documented(ctx: click.Context) -> Iterator[None]:
    """Where damaged data stop a whole verb, say in its catalog, `--json` prints a document too.

    The sentence goes to stderr all the same, and the exit code is the same.
    """
    try:
        yield
    except BrokenPipeError:
        leave_broken_pipe()
    except (CorruptLog, UnreadableObject) as error:
        if ctx.meta.get(_AS_JSON):
            click.echo(json.dumps({"partitions": [], "error": str(error)}, indent=2))
        raise


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
