"""The verb `report`: one page for people, and its pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tierfold.jobs.cli.options import (
    catalog_options,
    clock_options,
    cluster_options,
    level_options,
    scope_options,
    storage_price_option,
)
from tierfold.jobs.cli.output import output_of, print_lines
from tierfold.jobs.cli.usage_errors import Verb


@click.command("report", cls=Verb)
@catalog_options
@click.option(
    "-o",
    "--output",
    "page_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the page there, such as report.html; a file of that name is replaced.",
)
@click.option(
    "--svg",
    "svg_folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write each picture there, as an SVG file of its own.",
)
@click.option(
    "--run-document",
    "run_documents",
    multiple=True,
    metavar="FILE|URI",
    help="A document of `compact`: how many reads its key indexes spared. Repeatable.",
)
@storage_price_option
@scope_options
@cluster_options
@clock_options
@level_options
@click.pass_context
def report_verb(
    context: click.Context, /, page_path: Path | None, svg_folder: Path | None, **given: Any
) -> None:
    """Write one HTML page: what runs did, saved and cost, and what needs a person.

    The page loads nothing, so it can be mailed or kept. It needs the packages of the extra
    `report`: pip install 'tierfold[report]'.

    \b
    Examples:
      tierfold report /mnt/tier -o report.html
      tierfold report /mnt/tier --config tierfold.toml --svg pictures
    """
    if page_path is None and svg_folder is None:
        raise click.UsageError("Name what to write: -o FILE, --svg FOLDER, or both.")
    from tierfold.jobs.api.reporting import report, written

    output = output_of(context)
    found = report(progress=output.progress, **given)
    output.progress.stop()
    print_lines(written(found, page_path, svg_folder))
