"""Resolves the options of a verb: settings, tier, scope, clock, budget, engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import click

from tierfold.compaction.planning.chunks import Budget
from tierfold.jobs.cli.options import OWN_PROCESS
from tierfold.jobs.cli.output import Output
from tierfold.jobs.cli.without_pandas import run_arrow_without_pandas
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines.engine_choice import Engine, in_process, on_spark
from tierfold.jobs.settings.given_layout import OPTIONS, GivenLayout
from tierfold.jobs.settings.remarks import remarks_on_tier
from tierfold.jobs.settings.resolution import Settings, resolve


class Arguments(NamedTuple):
    """The first arguments of a verb about a tier, in their order."""

    context: RunContext
    settings: Settings
    scope: Scope


def settings_of(given: dict[str, Any]) -> Settings:
    """Resolve the settings."""
    return resolve(given["overrides"], given["config"])


def opened(given: dict[str, Any]) -> Arguments:
    """Resolve the settings, then open the tier; raises BadSettings if there is no tier."""
    settings = settings_of(given)  # First, so that nothing is read if they are wrong.
    if click.get_current_context().find_root().obj is OWN_PROCESS:
        run_arrow_without_pandas()
    scope = Scope(
        topics=given.get("topics") or ("*",),
        partitions=given.get("partitions") or ("*",),
        first_dirty=given.get("first_dirty"),
    )
    context = run_context(
        given["tier"],
        given["catalog"],
        given["now_ms"],
        settings.store,
        layout_of(given).over(settings.layout).options(),
    )
    return Arguments(replace(context, layout_words=_layout_words(given)), settings, scope)


def layout_of(given: dict[str, Any]) -> GivenLayout:
    """Return what the options say of the tier's layout; raises BadSettings."""
    names = {"layout": "layout", "key.prefix": "key_prefix", "rsm.config": "rsm_config"}
    texts = {name: given[option] for name, option in names.items() if given[option] is not None}
    where = {name: f"--{name.replace('.', '-')}" for name in OPTIONS}
    return GivenLayout.of(texts, given["encryption_keys"], where)


def _layout_words(given: dict[str, Any]) -> tuple[str, ...]:
    """Return the options of the layout as they were given, to repeat them in a message."""
    names = ("layout", "key_prefix", "rsm_config")
    single = [(name, given[name]) for name in names if given[name] is not None]
    keys = [("encryption_key", key) for key in given["encryption_keys"]]
    return tuple(
        word for name, value in (*single, *keys) for word in (f"--{name.replace('_', '-')}", value)
    )


def opened_with_remarks(
    given: dict[str, Any], output: Output, *, has_advice: bool = False
) -> Arguments:
    """As `opened`, and report probable mistakes; `has_advice`: also on the topics' settings."""
    arguments = opened(given)
    context, settings, scope = arguments
    output.remark(remarks_on_tier(settings, context, scope if has_advice else None))
    return arguments


def budget_of(given: dict[str, Any]) -> Budget:
    """Return the limits of the run."""
    names = ("max_partitions", "max_bytes", "max_duration_ms")
    return Budget(**{name: given[name] for name in names})


def local_max_of(given: dict[str, Any]) -> int | None:
    """Return how many bytes the run may read; None: Spark runs it, without a limit."""
    local_max_bytes: int = given["local_max_bytes"]
    return None if given["engine"] == "spark" else local_max_bytes


def engine_of(given: dict[str, Any]) -> Engine:
    """Return the chosen engine; it starts once there is something to do."""
    local_max_bytes = local_max_of(given)
    return on_spark if local_max_bytes is None else in_process(local_max_bytes)
