"""The command-line options that benchmarks share."""

from __future__ import annotations

from pathlib import Path

import click

from tests.jobs.commands import ROOT

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=ROOT / "build" / "bench",
    help="Where logs, tiers and results.jsonl are kept.",
)
only_option = click.option("--only", multiple=True, help="Only these logs, by name.")
