"""Asks in a terminal before `vacuum` deletes what may still be needed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.cli.output import print_error


def confirm_short_ages(given: Mapping[str, Any]) -> None:
    """Ask whether short ages of a `vacuum` are meant; without a terminal, they are.

    `given`: the keywords of `vacuum`. Raises BadSettings unless the answer is yes.
    """
    from tierfold.compaction.deletion.short_ages import short_ages
    from tierfold.jobs.api.opening import limits_of

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    short = short_ages(limits_of(given, now_ms=0))
    if not short:
        return
    for age in short:
        print_error(age.sentence)
    try:
        is_meant = click.confirm("Delete anyway?", err=True)
    except click.Abort:
        is_meant = False
    if not is_meant:
        raise BadSettings(
            "the answer was not yes",
            where=" and ".join(age.option for age in short),
            remedy="Nothing was deleted. Give a longer time, or --yes.",
        )
