"""Reports usage errors, bugs and errors that stop a whole verb, without repeating secrets."""

from __future__ import annotations

import io
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import click

from tierfold.compaction.model.errors import BadSettings, TierfoldError
from tierfold.compaction.model.redaction import printable, redacted, without_secrets
from tierfold.jobs.cli.exit_codes import leave_broken_pipe
from tierfold.jobs.cli.help_pages import HelpContext
from tierfold.jobs.cli.log_lines import logged_on_stderr
from tierfold.jobs.cli.output import output_of, print_error
from tierfold.jobs.cli.tier_argument import DEFAULT, TierArgument, find_tier, with_source
from tierfold.jobs.cli.without_mllib import start_spark_without_mllib

_EXTRA_ARGUMENTS: Final = re.compile(r"(unexpected extra arguments?) \(.*\)", re.DOTALL)
"""Extra arguments that click quotes, for example after `--set NAME VALUE` without `=`."""

_HINTS: Final = {"to": "`tierfold history` lists times and runs."}
"""By option, what is printed if it is missing."""

_NOT_REPEATED: Final = (
    r"\1, not shown here in case of a secret. Write a setting as --set NAME=VALUE,"
    " without spaces around the sign"
)


OWN_PROCESS: Final = object()
"""The context's object if the process runs nothing but the command."""


class Verb(click.Command):
    """A verb; if the process runs nothing else, Arrow and Spark do without what starts slowly."""

    context_class = HelpContext

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command`; a tier that is not given is looked for elsewhere."""
        rest = super().parse_args(ctx, args)
        find_tier(self, ctx)
        return rest

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Command`; this says where a tier is looked for that is not given."""
        if any(isinstance(one, TierArgument) for one in self.params):
            with formatter.section("Default of TIER"):
                formatter.write_text(DEFAULT)
        super().format_epilog(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click
        """See `click.Command`."""
        if ctx.find_root().obj is OWN_PROCESS and "tier" in ctx.params:
            from tierfold.jobs.cli.without_pandas import run_arrow_without_pandas

            run_arrow_without_pandas()
            start_spark_without_mllib()
        try:
            return super().invoke(ctx)
        except BadSettings as error:
            raise with_source(ctx, error) from error.__cause__


class Verbs(click.Group):
    """A group of verbs whose usage errors do not repeat secrets from the command line."""

    command_class = Verb
    context_class = HelpContext

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group`; this prints the first sentence of each verb's help uncut."""
        verbs = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.get_short_help_str(limit=200)) for name, verb in verbs])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:  # noqa: ANN401 - as click
        """See `click.Group`."""
        with _without_secrets():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click
        """See `click.Group`; a verb's own arguments are parsed here."""
        with logged_on_stderr(ctx):
            try:
                with _without_secrets():
                    return super().invoke(ctx)
            except BrokenPipeError:
                leave_broken_pipe()
            except (TierfoldError, click.UsageError) as error:
                output_of(ctx).show_error(ctx.invoked_subcommand or "", error)
                raise


@contextmanager
def _without_secrets() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # Its message is the help.
    except click.ClickException as error:
        if isinstance(error, click.MissingParameter) and error.param is not None:
            hint = _HINTS.get(error.param.name or "", error.message)
            error.message = hint  # type: ignore[misc]  # click shows it behind its own sentence
        message = redacted(_EXTRA_ARGUMENTS.sub(_NOT_REPEATED, error.message))
        error.message = message  # type: ignore[misc]  # click shows it with usage and hints
        error.show = partial(_show, error)  # type: ignore[method-assign]  # click breaks no line
        raise


def _show(error: click.ClickException) -> None:
    """Print what click would print, broken as every other line is."""
    said = io.StringIO()
    type(error).show(error, said)
    print_error(said.getvalue().rstrip("\n"))


def trace() -> str:
    """Return the traceback of the current exception, without secrets, for a bug report."""
    return "\n".join(map(printable, without_secrets(traceback.format_exc()).splitlines()))
