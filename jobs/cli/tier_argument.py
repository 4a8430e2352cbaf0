"""The argument TIER: as it is given, else of the environment, else of the settings file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import click

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.api.keywords import CONFIG_VARIABLE, TIER_VARIABLE

DEFAULT: Final = f"${TIER_VARIABLE}, then tier in the settings file."
"""Where a tier is looked for that is not given."""

_SOURCE: Final = "jobs.tier"
"""The key in click's context of what named the tier; missing: the command line."""


class TierArgument(click.Argument):
    """TIER, which may be left out if `TIERFOLD_TIER` or the settings file names it."""

    def __init__(self, names: Sequence[str], *, is_needed: bool = True) -> None:
        super().__init__(names, required=False)
        self.is_needed = is_needed


def find_tier(command: click.Command, ctx: click.Context) -> None:
    """Set the tier of a verb that has one; raises UsageError and BadSettings.

    Where PARTITION follows TIER, a single argument is the partition.
    """
    argument = next((one for one in command.params if isinstance(one, TierArgument)), None)
    if argument is None or ctx.resilient_parsing:
        return
    params = ctx.params
    if "partition" in params and params["partition"] is None:
        params["partition"], params["tier"] = params["tier"], None
        if params["partition"] is None:
            raise click.UsageError("Missing argument 'PARTITION'.", ctx)
    if params["tier"] is None:
        params["tier"], ctx.meta[_SOURCE] = _named(params)
    if params["tier"] is None and argument.is_needed:
        raise click.UsageError(
            f"Missing argument 'TIER'. Give it, or name it in {TIER_VARIABLE}, or as tier in the"
            " settings file.",
            ctx,
        )


def with_source(ctx: click.Context, error: BadSettings) -> BadSettings:
    """Return an error about the tier with what named it, if that was not the command line."""
    source, tier = ctx.meta.get(_SOURCE), ctx.params.get("tier")
    if not source or not tier or tier not in error.where:
        return error
    return BadSettings(error.what, where=f"{error.where} (from {source})", remedy=error.remedy)


def _named(params: dict[str, Any]) -> tuple[str | None, str]:
    """The tier and what names it; None: nothing does."""
    if tier := os.environ.get(TIER_VARIABLE):
        return tier, TIER_VARIABLE
    config = params.get("config") or ("config" in params and os.environ.get(CONFIG_VARIABLE))
    if not config:
        return None, ""
    from pathlib import Path

    from tierfold.jobs.settings.layers import read_config

    return read_config(Path(config)).tier or None, f"tier in {config}"
