"""Prints what a verb reports: tables for people, or one JSON document for programs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from tierfold.compaction.model.errors import TierfoldError
from tierfold.jobs.cli.exit_codes import exit_code_of, leave_broken_pipe
from tierfold.jobs.context.stopping import under_spark_submit

if TYPE_CHECKING:
    from tierfold.jobs.context.run_context import RunContext
    from tierfold.jobs.reports.result import Result
    from tierfold.jobs.settings.remarks import Remarks

WIDTH_WITHOUT_TERMINAL: Final = 120
"""Columns of a table that is written to a file or a pipe."""

_OUTPUT: Final = "jobs.output"
"""The key of the verb's output in click's context."""


class Output:
    """Where the remarks and the result of a verb go: tables on stdout, remarks on stderr."""

    def __init__(self) -> None:
        self.progress = Console(stderr=True)
        """For progress and warnings of a run; it never writes to stdout."""

    def remark(self, remarks: Remarks) -> None:
        """Report probable mistakes in the settings."""
        remarks.print_to(Console(stderr=True))

    def show(self, result: Result) -> None:
        """Print the result on stdout."""
        width = None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
        result.print_tables(_StdoutConsole(file=sys.stdout, width=width, highlight=False))

    def show_error(self, error: TierfoldError) -> None:
        """Report on stdout an error that stopped the verb; tables do not, as stderr has it."""


class Document(Output):
    """One JSON document on stdout; remarks are part of it."""

    def __init__(self) -> None:
        super().__init__()
        # spark-submit merges stderr into stdout, where only the document may appear.
        self.progress = Console(stderr=True, quiet=under_spark_submit())
        self._remarks: dict[str, list[str]] = {}

    def remark(self, remarks: Remarks) -> None:
        """See `Output`."""
        for kind, sentences in asdict(remarks).items():
            self._remarks.setdefault(kind, []).extend(sentences)

    def show(self, result: Result) -> None:
        """See `Output`."""
        _print_json(result.document() | self._remarks)

    def show_error(self, error: TierfoldError) -> None:
        """See `Output`."""
        _print_json({"partitions": [], "error": str(error)})


class _StdoutConsole(Console):
    """A console whose reader may close the pipe early, as `head` does."""

    def on_broken_pipe(self) -> None:
        """See `rich.console.Console`: exit like a process that SIGPIPE ended."""
        leave_broken_pipe()


def output_option(ctx: click.Context, _: click.Parameter, value: bool) -> Output:  # noqa: FBT001
    """The callback of `--json`: return the output, and keep it for an error that stops the verb."""
    output = Document() if value else Output()
    ctx.meta[_OUTPUT] = output
    return output


def output_of(ctx: click.Context) -> Output:
    """Return the output that `--json` chose; tables if the verb has no such option."""
    output: Output = ctx.meta.get(_OUTPUT) or Output()
    return output


def finish(output: Output, result: Result, context: RunContext | None = None) -> None:
    """Print the result, and exit unless the exit code is 0; `context`: of a verb on a tier."""
    if context is not None:
        from tierfold.jobs.reports.request_report import with_requests

        result = with_requests(result, context)
    output.show(result)
    code = exit_code_of(result.outcomes)
    if code:
        sys.exit(code)


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, indent=2))
