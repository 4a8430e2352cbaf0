"""Resolves the options of a verb: settings, tier, scope, clock, budget, engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console

from tierfold.compaction.planning.chunks import Budget
from tierfold.jobs.cli.options import OWN_PROCESS
from tierfold.jobs.cli.without_pandas import run_arrow_without_pandas
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines.engine_choice import Engine, in_process, on_spark
from tierfold.jobs.settings.remarks import Remarks
from tierfold.jobs.settings.resolution import Settings, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOfTier:
    """The arguments of a verb about a tier."""

    context: RunContext
    scope: Scope


def settings_of(given: dict[str, Any]) -> Settings:
    """Resolve the settings; call this first, so that nothing is read if they are wrong."""
    return resolve(given["overrides"], given["config"])


def tell_people(remarks: Remarks, given: dict[str, Any]) -> None:
    """Print remarks to stderr at once; with --json they are in the document instead."""
    if not given["as_json"]:
        remarks.print_to(Console(stderr=True))


def asked_of_tier(given: dict[str, Any]) -> AskedOfTier:
    """Open the tier and return it with the scope; raises BadSettings if there is no tier."""
    if click.get_current_context().find_root().obj is OWN_PROCESS:
        run_arrow_without_pandas()
    scope = Scope(
        topics=given.get("topics") or ("*",),
        partitions=given.get("partitions") or ("*",),
        first_dirty=given.get("first_dirty"),
    )
    return AskedOfTier(
        context=run_context(given["tier"], given["catalog"], given["now_ms"]), scope=scope
    )


def budget_of(given: dict[str, Any]) -> Budget:
    """Return the limits of the run."""
    return Budget(
        max_partitions=given["max_partitions"],
        max_bytes=given["max_bytes"],
        max_duration_ms=given["max_duration_ms"],
    )


def local_max_of(given: dict[str, Any]) -> int | None:
    """Return how many bytes the run may read; None: Spark runs it, without a limit."""
    local_max_bytes: int = given["local_max_bytes"]
    return None if given["engine"] == "spark" else local_max_bytes


def engine_of(given: dict[str, Any]) -> Engine:
    """Return the chosen engine; it starts once there is something to do."""
    local_max_bytes = local_max_of(given)
    return on_spark if local_max_bytes is None else in_process(local_max_bytes)
