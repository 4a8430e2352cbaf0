"""The verb `init`: writes a first settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.cli.options import cluster_options, init_options
from tierfold.jobs.cli.output import print_lines
from tierfold.jobs.cli.usage_errors import Verb


@click.command("init", cls=Verb)
@init_options
@cluster_options
@click.option(
    "-o",
    "--out",
    default="tierfold.toml",
    show_default=True,
    metavar="FILE",
    help="Where to write the settings; - is stdout. It never overwrites a file.",
)
def init_verb(out: str, **given: Any) -> None:
    """Write a first settings file from what a tier or a cluster has.

    It names the topics, with their sizes and, of a tier, what compaction would remove of each one's
    largest partition, by a small sample. Policies are comments: uncomment what is to be compacted.
    Nothing of the tier is changed.

    \b
    Examples:
      tierfold init /mnt/tier
      tierfold init /mnt/tier --bootstrap-server broker-1:9092 -o -
      tierfold init --bootstrap-server broker-1:9092
    """
    _check_new(out)
    from tierfold.jobs.api.beginning import init

    _write(out, init(**given))


def _check_new(place: str) -> None:
    """Raise BadSettings if a file of that name is there; `-` is stdout."""
    if place != "-" and Path(place).exists():
        raise BadSettings(
            "there is such a file, and nothing is ever overwritten",
            where=f"--out {place}",
            remedy="Choose another name, or print the settings with -o -.",
        )


def _write(place: str, text: str) -> None:
    """Write a new file, or to stdout if its name is `-`; raises BadSettings."""
    if place == "-":
        print_lines(text.splitlines())
        return
    try:
        with Path(place).open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise BadSettings(
            f"the settings cannot be written: {error.strerror}",
            where=f"--out {place}",
            remedy="Choose another name, or print the settings with -o -.",
        ) from error
    click.echo(f"{place} is written. Uncomment the policy of each topic that is to be compacted.")
