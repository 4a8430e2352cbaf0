"""The options that verbs share: settings, tier, scope, clock, budget.

`arguments` resolves them. This module imports little, so that `--help` is quick.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tierfold.jobs.cli.output import output_option
from tierfold.jobs.cli.sizes_and_durations import DURATION_MS, SIZE_BYTES
from tierfold.jobs.context.timestamps import timestamp_ms_of

INT64: Final = click.IntRange(0, 2**63 - 1)
"""A time or an offset as Kafka stores it; larger numbers fit into no array or table."""

CONFIG_VARIABLE: Final = "TIERFOLD_CONFIG"

OWN_PROCESS: Final = object()
"""The context's object where the command is all that its process runs."""

JSON_OPTION: Final = click.option(
    "--json",
    "output",
    is_flag=True,
    callback=output_option,
    help="Print one JSON document on stdout.",
)


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value and not ctx.resilient_parsing:
        from tierfold.jobs.context.versions import tierfold_version

        click.echo(f"tierfold, version {tierfold_version()}")
        ctx.exit()


version_option: Final = click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)

_NOW_MIN_MS: Final = 10**12
"""September 2001, before Kafka: smaller numbers are seconds. A time in seconds would date new
retirements half a century back, and the next `vacuum` would delete them without a grace period."""

_NOW_MAX_MS: Final = 2**63 - 1

_DIGITS_MAX: Final = 100
"""Python refuses to parse numbers of thousands of digits."""


class _Timestamp(click.ParamType[int]):
    """A time as `restore --to` takes it, within plausible bounds."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Epoch milliseconds."""
        time_ms = timestamp_ms_of(value, where="--now")
        if time_ms is None and value.isdecimal() and len(value) < _DIGITS_MAX:
            time_ms = int(value)
        if time_ms is None:
            form = "Write it as 2026-11-21T15:30:46Z, or in epoch milliseconds."
            self.fail(f"{value!r} is no time. {form}", param, ctx)
        if not _NOW_MIN_MS <= time_ms <= _NOW_MAX_MS:
            self.fail(f"{value} is not in the range {_NOW_MIN_MS}<=x<={_NOW_MAX_MS}.", param, ctx)
        return time_ms


_NOW_OPTION: Final = click.option(
    "--now",
    "now_ms",
    type=_Timestamp(),
    metavar="TIME",
    help="Instead of the clock: ISO 8601 (UTC unless it says otherwise) or epoch milliseconds.",
)

_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def settings_options(verb: _Verb) -> _Verb:
    """--config and --set, which every verb takes."""
    options = (
        click.option(
            "--config",
            type=click.Path(path_type=Path),
            envvar=CONFIG_VARIABLE,
            metavar="FILE",
            help=f"Settings of brokers and topics, in TOML. Else ${CONFIG_VARIABLE}.",
        ),
        click.option(
            "--set",
            "overrides",
            multiple=True,
            metavar="NAME=VALUE",
            help="A setting, by Kafka's name for it. Repeatable.",
        ),
    )
    return with_options(options, verb)


def clock_options(verb: _Verb) -> _Verb:
    """--now and settings: with them a verb repeats the decisions of another run."""
    return with_options((_NOW_OPTION,), settings_options(verb))


def replay_options(verb: _Verb) -> _Verb:
    """--now, --first-dirty and settings: with them a verb that reads a tier replays a run."""
    first_dirty = click.option(
        "--first-dirty",
        type=INT64,
        metavar="OFFSET",
        help="Where the dirty region begins; 0 cleans all again.",
    )
    return with_options((_NOW_OPTION, first_dirty), settings_options(verb))


def catalog_options(verb: _Verb) -> _Verb:
    """The tier and its catalog."""
    options = (
        click.argument("tier"),
        click.option("--catalog", metavar="URI", help="Instead of TIER/_tierfold."),
    )
    return with_options(options, verb)


def tier_options(verb: _Verb) -> _Verb:
    """The tier, its catalog, and which partitions."""
    options = (
        click.option(
            "--topic", "topics", multiple=True, metavar="GLOB", help="Only these. Repeatable."
        ),
        click.option(
            "--partition", "partitions", multiple=True, metavar="GLOB", help="Only these numbers."
        ),
        JSON_OPTION,
    )
    return catalog_options(with_options(options, verb))


def budget_options(verb: _Verb) -> _Verb:
    """The limits of a run; the next run goes on with the rest."""
    options = (
        click.option(
            "--max-partitions",
            type=click.IntRange(1),
            metavar="N",
            help="Only the first N of those that are due.",
        ),
        click.option(
            "--max-bytes",
            type=SIZE_BYTES,
            metavar="SIZE",
            help="Read so much of the log at most, such as 10GiB, and at least one segment.",
        ),
        click.option(
            "--max-duration",
            "max_duration_ms",
            type=DURATION_MS,
            metavar="TIME",
            help="Begin no chunk after that long, such as 90m.",
        ),
    )
    return with_options(options, verb)


def engine_options(verb: _Verb) -> _Verb:
    """Which engine reads and writes the segments."""
    options = (
        click.option(
            "--engine",
            type=click.Choice(["spark", "local"]),
            default="spark",
            show_default=True,
            help="local: no Spark and no Java, in this process; for small tiers.",
        ),
        click.option(
            "--local-max",
            "local_max_bytes",
            type=SIZE_BYTES,
            default="2GiB",
            show_default=True,
            metavar="SIZE",
            help="The most bytes of logs to compact or verify that --engine local takes.",
        ),
    )
    return with_options(options, verb)


def with_options(options: Sequence[Callable[[_Verb], _Verb]], verb: _Verb) -> _Verb:
    """Return the verb with these options, shown in their order."""
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), verb)
