"""The options of verbs that print a table of partitions: what of it is printed, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from tierfold.jobs.cli.options import Verb, together
from tierfold.jobs.cli.output import FORMATS, Output, format_option, view_option


def table_options(*columns: str) -> Callable[[Verb], Verb]:
    """What a verb prints of its table of partitions; `columns`: those by which it can be sorted."""
    return together(
        click.option(
            "-o",
            "--output",
            "format_name",
            type=click.Choice(FORMATS),
            expose_value=False,
            # As --json.
            is_eager=True,
            callback=format_option,
            help="What to print. wide: all rows of the table, not folded. csv: the table with plain"
            " numbers, under the names that json has. json: as --json. Default: table.",
        ),
        click.option(
            "--only",
            multiple=True,
            metavar="OUTCOME|REASON",
            expose_value=False,
            callback=view_option,
            help="Print only partitions with this outcome, such as refused, this code of a refusal,"
            " or these words in the reason. Totals, the exit code and --document are of all."
            " Repeatable.",
        ),
        click.option(
            "--sort",
            type=click.Choice(columns),
            expose_value=False,
            callback=view_option,
            help="Print partitions by this column of the table, the largest number first. Default:"
            " what needs a person first; in json by topic and number.",
        ),
    )


segments_option: Final = click.option(
    "--segments",
    "has_segments",
    is_flag=True,
    expose_value=False,
    callback=view_option,
    help="List in the JSON document each partition's segments, too.",
)


def check_estimate(output: Output, partition_name: str | None, *, has_estimate: bool) -> None:
    """Check `--estimate` of `plan` against its other options; raises UsageError."""
    if has_estimate and partition_name is not None:
        raise click.UsageError(
            "--estimate is of all partitions in scope, --explain draws one: give one of them."
            f" --topic and --partition limit the scope to {partition_name}."
        )
    if output.view.sort == "saves" and not has_estimate:
        raise click.UsageError("--sort saves needs --estimate.")


def check_out(partition_name: str | None, out: str | None) -> None:
    """Check `--out` of `plan` against its other options; raises UsageError."""
    if out is not None and partition_name is not None:
        raise click.UsageError(
            "--out plans all partitions in scope, --explain draws one: give one of them."
        )
