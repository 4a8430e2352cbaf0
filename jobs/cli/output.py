"""Prints what a verb reports: tables for people, CSV or one JSON document for programs.

Results go to stdout; `log_lines` and `progress_bars` go to stderr.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import click
from rich.text import Text

from tierfold.compaction.model.errors import TierfoldError, UnreadableObject
from tierfold.jobs.cli.exit_codes import (
    EXIT_NOT_WRITTEN,
    drop_output,
    exit_code_of,
    leave_broken_pipe,
)
from tierfold.jobs.cli.progress_bars import Bar
from tierfold.jobs.context.stopping import stop_silently, under_spark_submit
from tierfold.jobs.reports.screen import Screen

if TYPE_CHECKING:
    from rich.console import Console

    from tierfold.jobs.reports.result import Result
    from tierfold.jobs.reports.views import View

_OUTPUT: Final = "jobs.output"
"""The key of the verb's output in click's context."""

LEVEL: Final = "jobs.level"
"""The key of the least level that is printed on stderr, in click's context."""

_PLACE: Final = "jobs.document"
"""The key of the place that `--document` names."""

_FORMAT: Final = "jobs.format"
"""The key of the format that `-o` or `--json` names."""

_VIEW: Final = "jobs.view"
"""The key of what `--only`, `--sort` and `--segments` say, by their names."""

FORMATS: Final = ("table", "wide", "csv", "json")


class ResultNotWritten(Exception):
    """A verb has ended, and its result could not be written."""

    def __init__(self, why: str, outcome: str) -> None:
        ended = f" with the outcome `{outcome}`" if outcome else ""
        super().__init__(
            f"the result could not be written: {why}. The verb itself has ended{ended}, and what it"
            " has committed stays; `tierfold status` and `tierfold history` show it"
        )
        self.exit_code = exit_code_of(outcome) or EXIT_NOT_WRITTEN


class Shown(Protocol):
    """The result of a verb, as `jobs.reports` makes it."""

    @property
    def outcome(self) -> str:
        """Its most urgent outcome."""

    def show(self, console: Console, view: View) -> None:
        """Print the tables."""

    def document(self, view: View) -> dict[str, Any]:
        """Return the document."""

    def csv(self, view: View) -> str:
        """Return its table as CSV."""


class Output:
    """Where the result of a verb goes: tables on stdout."""

    def __init__(self, given: MutableMapping[str, Any] | None = None) -> None:
        self._given = {} if given is None else given
        """What options are kept in click's context; `-q` and `--document` may be read later."""
        self.stderr = Screen(stderr=True, quiet=self.is_silent)
        """Prints above the bar, if one is drawn."""
        self.progress = Bar(self.stderr, is_hidden=lambda: self.level > logging.INFO)
        """Receives the progress of a run."""

    @property
    def level(self) -> int:
        """The least level that is printed on stderr: `-v` and `-q` choose it."""
        level: int = self._given.get(LEVEL, logging.INFO)
        return level

    @property
    def is_silent(self) -> bool:
        """Whether nothing may be written to stderr."""
        return False

    @property
    def view(self) -> View:
        """What of a result is printed."""
        from tierfold.jobs.reports.views import View

        given = self._given.get(_VIEW, {})
        return View(**given | {"sort": given.get("sort", "").replace("-", " ")})

    def show(self, result: Shown) -> None:
        """Print one side of a result on stdout, and write its document where `--document` says.

        Raises ResultNotWritten, after it has tried both.
        """
        self.progress.stop()
        failures = [
            *_failure_of(lambda: self._keep(lambda: result.document(self._whole))),
            *_failure_of(lambda: self._print(result)),
        ]
        if failures:
            raise ResultNotWritten("; ".join(failures), result.outcome)

    @property
    def _whole(self) -> View:
        """A document for `--document` has all partitions, whatever is printed."""
        return replace(self.view, only=(), sort="")

    def _print(self, result: Shown) -> None:
        self._print_tables(result)

    def _print_tables(self, result: Shown, width: int | None = None) -> None:
        result.show(_StdoutScreen(sys.stdout, width=width, highlight=False), self.view)
        sys.stdout.flush()

    def show_error(self, verb: str, error: TierfoldError | click.UsageError) -> None:
        """Report on stdout an error that stopped the verb; tables do not, as stderr has it."""
        with suppress(UnreadableObject):  # The error itself is the one to report.
            self._keep(lambda: _document_of_error(verb, error))

    def _keep(self, document: Callable[[], dict[str, Any]]) -> None:
        """Write the document where `--document` says; raises UnreadableObject."""
        # Only once: if it cannot be written, the error's own document cannot either.
        place = self._given.pop(_PLACE, None)
        if place is not None:
            from tierfold.jobs.context.documents import write_document

            write_document(place, document())


class _Wide(Output):
    """Tables with all rows, none of them folded."""

    @property
    def view(self) -> View:
        """See `Output`."""
        return replace(super().view, is_wide=True)

    def _print(self, result: Shown) -> None:
        from tierfold.jobs.reports.tables import UNBOUNDED

        self._print_tables(result, UNBOUNDED)


class _Csv(Output):
    """The table of partitions as CSV on stdout."""

    def _print(self, result: Shown) -> None:
        # A line ends with CR and LF already.
        click.echo(result.csv(self.view), nl=False)


class Document(Output):
    """One JSON document on stdout."""

    @property
    def is_silent(self) -> bool:
        """See `Output`: spark-submit merges stderr into stdout, which has only the document."""
        return under_spark_submit()

    def _print(self, result: Shown) -> None:
        _print_json(result.document(self.view))

    def show_error(self, verb: str, error: TierfoldError | click.UsageError) -> None:
        """See `Output`."""
        super().show_error(verb, error)
        if _failure_of(lambda: _print_json(_document_of_error(verb, error))):
            drop_output()


_OUTPUTS: Final = dict(zip(FORMATS, (Output, _Wide, _Csv, Document), strict=True))


class _StdoutScreen(Screen):
    """A screen whose reader may close the pipe early, as `head` does."""

    def on_broken_pipe(self) -> None:
        """See `rich.console.Console`: exit like a process that SIGPIPE ended."""
        leave_broken_pipe()


def document_option(ctx: click.Context, _: click.Parameter, place: str | None) -> None:
    """The callback of `--document`: keep the place; raises BadSettings if it is taken."""
    if place is not None:
        from tierfold.jobs.context.documents import check_new

        check_new(place)
        ctx.meta[_PLACE] = place


def json_option(ctx: click.Context, _: click.Parameter, value: bool) -> Output:  # noqa: FBT001
    """The callback of `--json`: return the output, and keep it for an error that stops the verb."""
    if value:
        _choose(ctx, "json")
    output = _OUTPUTS[ctx.meta.get(_FORMAT, FORMATS[0])](ctx.meta)
    if output.is_silent:
        stop_silently()
    ctx.meta[_OUTPUT] = output
    return output


def format_option(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """The callback of `-o`: keep the format. What is given is read before what is not."""
    if value is not None:
        _choose(ctx, value)


def _choose(ctx: click.Context, name: str) -> None:
    """Keep the format; raises UsageError if another one is chosen, too."""
    if ctx.meta.setdefault(_FORMAT, name) != name:
        chosen = ctx.meta[_FORMAT]
        raise click.UsageError(f"Two formats are given, {chosen} and {name}: give one.", ctx)


def view_option(ctx: click.Context, option: click.Parameter, value: object) -> None:
    """The callback of `--only`, `--sort` and `--segments`: keep what is to be printed."""
    if value:
        ctx.meta.setdefault(_VIEW, {})[option.name] = value


def output_of(ctx: click.Context) -> Output:
    """Return the output that `-o` or `--json` chose; tables if the verb has no such option."""
    output: Output = ctx.meta.get(_OUTPUT) or Output(ctx.meta)
    return output


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on stdout; raises ResultNotWritten."""
    for line in lines:
        if failure := _failure_of(partial(click.echo, line)):
            raise ResultNotWritten(failure[0], "")


def print_error(sentence: str) -> None:
    """Print a sentence on stderr."""
    Screen(stderr=True).print(Text(sentence))


def finish(output: Output, result: Result[Any]) -> None:
    """Print the result, and exit unless the exit code is 0."""
    output.show(result)
    code = exit_code_of(result.outcome)
    if code:
        sys.exit(code)


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, indent=2))


def _failure_of(write: Callable[[], None]) -> list[str]:
    """Why a part of the result could not be written; empty: it was, or its reader has gone."""
    try:
        write()
    except BrokenPipeError:
        raise
    except UnreadableObject as error:
        return [f"{error.where}: {error.what}"]
    except OSError as error:
        return [f"stdout: {error.strerror or error}"]
    return []


def _document_of_error(verb: str, error: TierfoldError | click.UsageError) -> dict[str, Any]:
    from tierfold.jobs.reports.result import document_of_error, document_of_usage_error

    if isinstance(error, click.UsageError):
        return document_of_usage_error(verb, error.format_message())
    return document_of_error(verb, error)
