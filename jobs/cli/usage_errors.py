"""Reports usage errors, bugs and errors that stop a whole verb, without repeating secrets."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.redaction import HIDDEN, printable, redacted, without_secrets
from tierfold.jobs.cli.exit_codes import leave_broken_pipe

_SPARE_WORDS: Final = re.compile(r"(unexpected extra arguments?) \(.*\)", re.DOTALL)
"""Extra words that click quotes, for example `--set NAME VALUE` without `=`."""

_AS_JSON: Final = "jobs.as_json"
"""The key in click's context that holds whether --json was given."""


class Verbs(click.Group):
    """A group of verbs whose usage errors do not repeat secrets from the command line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group`; the sentence of each verb is not cut."""
        verbs = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.get_short_help_str(limit=200)) for name, verb in verbs])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:  # noqa: ANN401 - as click
        """See `click.Group`."""
        with _fit_to_be_shown():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click
        """See `click.Group`; a verb's own arguments are parsed here."""
        with _fit_to_be_shown(), _documented(ctx):
            return super().invoke(ctx)


def note_json(ctx: click.Context, _: click.Parameter, value: bool) -> bool:  # noqa: FBT001
    """The callback of `--json`: an error that stops the verb is reported in a document, too."""
    ctx.meta[_AS_JSON] = value
    return value


@contextmanager
def _documented(ctx: click.Context) -> Iterator[None]:
    """With `--json`, print a document also if corrupt data stop the whole verb.

    The sentence still goes to stderr, and the exit code is the same.
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
        message = redacted(_SPARE_WORDS.sub(rf"\1 ({HIDDEN})", error.message))
        error.message = message  # type: ignore[misc]  # click shows it with usage and hints
        raise


def trace() -> str:
    """The traceback of the current exception, without secrets, for a bug report."""
    return "\n".join(map(printable, without_secrets(traceback.format_exc()).splitlines()))
