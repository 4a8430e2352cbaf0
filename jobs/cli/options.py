"""The options that verbs share: settings, tier, scope, clock, budget.

This module imports little, so that `--help` is quick.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tierfold.jobs.api.keywords import CONFIG_VARIABLE
from tierfold.jobs.cli.log_lines import level_option
from tierfold.jobs.cli.output import document_option, json_option
from tierfold.jobs.cli.sizes_and_durations import DURATION_MS, SIZE_BYTES
from tierfold.jobs.cli.tier_argument import TierArgument
from tierfold.jobs.context.timestamps import timestamp_ms_of

_INT64_MAX: Final = 2**63 - 1
"""The largest time or offset in Kafka."""

_NOW_MIN_MS: Final = 10**12
"""September 2001, before Kafka: a smaller number is probably in seconds. It would date new
retirements to 1970, and the next `vacuum` would delete them without a grace period."""

_DIGITS_MAX: Final = 100
"""Python refuses to parse numbers of thousands of digits."""

_FORM: Final = "Write it as 2026-11-21T15:30:46Z, or in epoch milliseconds."

Verb = TypeVar("Verb", bound=Callable[..., Any])


class _Timestamp(click.ParamType[int]):
    """A time as `restore --to` takes it, within plausible bounds."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the time in epoch milliseconds."""
        time_ms = timestamp_ms_of(value, where="--now")
        if time_ms is None and value.isdecimal() and len(value) < _DIGITS_MAX:
            time_ms = int(value)
        if time_ms is None:
            self.fail(f"{value!r} is not a time. {_FORM}", param, ctx)
        if not _NOW_MIN_MS <= time_ms <= _INT64_MAX:
            bounds = f"{_NOW_MIN_MS} to {_INT64_MAX}"
            self.fail(f"{value} is not in the range {bounds}. {_FORM}", param, ctx)
        return time_ms


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value and not ctx.resilient_parsing:
        from tierfold.compaction.model.kafka_versions import KAFKA_VERSIONS
        from tierfold.jobs.context.versions import pages_folder, tierfold_version

        click.echo(f"tierfold, version {tierfold_version()}")
        click.echo(f"compared with the cleaners of Kafka {' and '.join(KAFKA_VERSIONS)}")
        click.echo(f"messages name pages of {pages_folder()}")
        ctx.exit()


def together(*options: Callable[[Any], Any]) -> Callable[[Verb], Verb]:
    """Return a decorator that adds these options to a verb, shown in their order."""
    return lambda verb: functools.reduce(
        lambda wrapped, option: option(wrapped), reversed(options), verb
    )


version_option: Final = click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version, and where the pages are, and exit.",
)

level_options: Final = together(
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=level_option,
        help="Also print each step on stderr.",
    ),
    click.option(
        "-q",
        "--quiet",
        is_flag=True,
        expose_value=False,
        callback=level_option,
        help="Print no warnings, notes or progress on stderr.",
    ),
)

output_options: Final = together(
    click.option(
        "--json",
        "output",
        is_flag=True,
        # First, as --document: so a usage error of another option is a document, too.
        is_eager=True,
        callback=json_option,
        help="Print one JSON document on stdout.",
    ),
    click.option(
        "--document",
        metavar="FILE|URI",
        is_eager=True,
        expose_value=False,
        callback=document_option,
        help="Also write the JSON document there, whatever the outcome; never overwrite a file.",
    ),
    level_options,
)


_NOW_OPTION: Final = click.option(
    "--now",
    "now_ms",
    type=_Timestamp(),
    metavar="TIME",
    help="Decide as of this time: ISO 8601 (UTC without an offset) or epoch milliseconds.",
)

settings_options: Final = together(
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"Settings of brokers and topics, in TOML. Default: ${CONFIG_VARIABLE}.",
    ),
    click.option(
        "--policy-from",
        type=click.Path(path_type=Path),
        metavar="FILE|FOLDER",
        help="Settings of topics, from annotations such as tierfold.io/cleanup.policy of Strimzi's"
        " KafkaTopic resources, in YAML.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting, by Kafka's name for it. Repeatable.",
    ),
)

clock_options: Final = together(_NOW_OPTION, settings_options)
"""With these, a verb repeats the decisions of another run."""

clock_is_right_option: Final = click.option(
    "--clock-is-right",
    is_flag=True,
    help="Write although this machine's clock is more than ten minutes behind the newest commit or"
    " the store's clock, because those are wrong.",
)
"""A person's answer to a run that stopped."""

replay_options: Final = together(
    _NOW_OPTION,
    click.option(
        "--first-dirty",
        type=click.IntRange(0, _INT64_MAX),
        metavar="OFFSET",
        help="Where the dirty region begins; 0 cleans the whole log again.",
    ),
    settings_options,
)
"""With these, a verb that reads a tier replays a run."""

encryption_key_option: Final = click.option(
    "--encryption-key",
    "encryption_keys",
    multiple=True,
    metavar="ID=FILE",
    help="A key pair of an encrypted tier: PEM or JSON Web Key. Repeatable; the first encrypts.",
)

layout_options: Final = together(
    click.option(
        "--layout",
        type=click.Choice(["aiven", "local"]),
        help="aiven: Aiven's tiered storage plugin; local: LocalTieredStorage. Default:"
        " inferred from the folders' names in TIER.",
    ),
    click.option(
        "--key-prefix",
        metavar="PREFIX",
        help="Aiven's key.prefix, as brokers have it; no slash is added.",
    ),
    encryption_key_option,
    click.option(
        "--rsm-config",
        metavar="FILE",
        help="The broker's properties file with Aiven's plugin, such as server.properties.",
    ),
)
"""How a tier is laid out; the objects tell most of it."""

_CATALOG_AND_LAYOUT: Final = together(
    click.option(
        "--catalog",
        metavar="URI",
        help="The catalog. Default: _tierfold in TIER, after the key prefix.",
    ),
    layout_options,
)
catalog_options: Final = together(
    click.argument("tier", cls=TierArgument), _CATALOG_AND_LAYOUT
)

cluster_options: Final = together(
    click.option(
        "--bootstrap-server",
        metavar="HOST:PORT[,...]",
        help="Ask the brokers of this cluster, too.",
    ),
    click.option(
        "--command-config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A properties file with a client's security settings, as Kafka's own tools take it.",
    ),
)
"""A cluster whose brokers serve the tier; docs/kafka.md."""

publish_option: Final = click.option(
    "--publish/--no-publish",
    "publish",
    default=None,
    help="Publish to the brokers that are named, or do not: of what they serve, a run that does not"
    " publish changes nothing. Default: publish under [cluster]; for rebuild: do not.",
)
"""Whether brokers learn of what the verb does."""


def canary_option(text: str) -> Callable[[Verb], Verb]:
    """How much a canary reads; `text`: the help, which says when."""
    return click.option(
        "--canary",
        type=click.Choice(["off", "borders", "all"]),
        default="borders",
        show_default=True,
        help=text,
    )


canary_after_option: Final = canary_option(
    "What to read of a partition, as a consumer does, once it is published: around the borders of"
    " replaced segments, or all of it. off: you answer for it that these brokers read this tier."
)
"""What a canary reads of what was published."""

publish_options: Final = together(
    publish_option,
    canary_after_option,
    click.option(
        "--readers-begin-again",
        is_flag=True,
        help="Publish also a tier from which tombstones went before. Readers that are on their way"
        " from the start to the end may keep deleted keys: they will begin again. The catalog"
        " records it.",
    ),
)
"""Whether brokers learn of what is compacted, and what a person answers for."""

holes_option: Final = click.option(
    "--holes-are-holes",
    "holes_are_holes",
    multiple=True,
    metavar="PARTITION|PATTERN",
    help="In these partitions, such as orders-0 or 'orders-*', gaps between segments are holes that"
    " a broker's cleaner left, and no segment is missing. Repeatable.",
)
"""A person's decision, which the catalog's row keeps once the partition is claimed."""

scope_options: Final = together(
    click.option(
        "--topic", "topics", multiple=True, metavar="GLOB", help="Only these topics. Repeatable."
    ),
    click.option(
        "--partition",
        "partitions",
        multiple=True,
        metavar="GLOB",
        help="Only these partition numbers. Repeatable.",
    ),
    click.option(
        "--partitions-from",
        metavar="FILE|URI",
        help="Only the partitions listed here: the planned, compacted or sound ones in a document"
        " of plan, compact or verify; or a JSON list of topics and partitions. - is stdin.",
    ),
    holes_option,
)
"""Which partitions, and where no segment is missing."""

_TIER_OR_NONE: Final = click.argument("tier", cls=TierArgument, is_needed=False)
init_options: Final = together(_TIER_OR_NONE, _CATALOG_AND_LAYOUT)
partition_argument: Final = click.argument("partition", metavar="PARTITION", required=False)
"""After TIER; `find_tier` sees to it that it is given."""
tier_options: Final = together(catalog_options, scope_options, output_options)
tier_or_cluster_options: Final = together(
    _TIER_OR_NONE,
    _CATALOG_AND_LAYOUT,
    scope_options,
    output_options,
    cluster_options,
)
"""Of a verb that can do without a tier if brokers are named."""

storage_price_option: Final = click.option(
    "--storage-price",
    type=click.FloatRange(0),
    metavar="USD",
    help="Per GiB and month. Default: list price of the store; of a folder, of S3 Standard.",
)

duration_option: Final = click.option(
    "--max-duration",
    "max_duration_ms",
    type=DURATION_MS,
    metavar="TIME",
    help="Begin nothing new after this long, such as 90m; the next run continues.",
)

if_held_option: Final = click.option(
    "--if-held",
    "if_held",
    type=click.Choice(["skip", "wait", "take-over"]),
    default="skip",
    show_default=True,
    help="What to do with a partition that a run at work holds. skip: leave it to that run, which"
    " is no failure (restore and forget refuse). wait: until that run is done, or silent for ten"
    " minutes. take-over: claim it, and discard what that run is doing to it.",
)

metrics_options: Final = together(
    click.option(
        "--metrics-file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write the run's metrics there, as a textfile for Prometheus' node_exporter.",
    ),
    click.option(
        "--pushgateway",
        metavar="URL",
        help="Push the run's metrics to Prometheus' Pushgateway, such as http://gateway:9091.",
    ),
)
"""Where metrics go; docs/metrics.md. OpenTelemetry is asked for by its own variables."""

budget_options: Final = together(
    click.option(
        "--max-partitions",
        type=click.IntRange(1),
        metavar="N",
        help="Compact only the first N partitions that are due.",
    ),
    click.option(
        "--max-bytes",
        type=SIZE_BYTES,
        metavar="SIZE",
        help="Read at most this much of the log, such as 10GiB, but at least one segment.",
    ),
    duration_option,
)
"""The limits of a run; the next run continues with the rest."""

engine_options: Final = together(
    click.option(
        "--engine",
        type=click.Choice(["spark", "local"]),
        default="spark",
        show_default=True,
        help="What reads and writes segments. local: this process, without Spark or Java; for"
        " small tiers.",
    ),
    click.option(
        "--local-max",
        "local_max_bytes",
        type=SIZE_BYTES,
        default="2GiB",
        show_default=True,
        metavar="SIZE",
        help="Maximum bytes of logs that --engine local compacts or verifies.",
    ),
)
