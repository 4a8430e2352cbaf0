"""The command line: `tierfold VERB …`, also `python -m jobs VERB …` and under spark-submit.

Exit codes: 0 done, or nothing to do, or left by a budget; 1 a bug; 2 a wrong setting or usage; 3 a
partition failed; 4 fenced: another run holds or took over a partition. Where both happened, 3 is
told.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.console import Console

from compaction.chunks import Budget
from compaction.errors import BadSettings, CorruptLog, TierfoldError, UnreadableObject
from jobs.compact_job import compact
from jobs.complaints import Verbs, trace
from jobs.dump_job import dump_lines
from jobs.explain import print_explained
from jobs.outcome_reports import (
    FAILED,
    FENCED,
    LOST_RACE,
    REFUSED,
    UNKNOWN,
    PartitionReport,
    max_compaction_delay_secs,
)
from jobs.plan_job import explain, plan
from jobs.quantities import DURATION_MS, SIZE_BYTES
from jobs.report import (
    document,
    print_reports,
    print_settings,
    print_status,
    print_verified,
)
from jobs.settings import Settings, resolve
from jobs.status_job import status
from jobs.survey import Scope
from jobs.verify_job import verify
from jobs.versions import tierfold_version
from jobs.wiring import Wiring, wired
from storage.topic_names import is_topic

EXIT_BUG: Final = 1
EXIT_WRONG_SETTING: Final = 2
EXIT_PARTITION_FAILED: Final = 3
EXIT_FENCED: Final = 4

WIDTH_WITHOUT_TERMINAL: Final = 120
"""Columns of a table that goes to a file or a pipe."""

INT64: Final = click.IntRange(0, 2**63 - 1)
"""A time or an offset as Kafka stores it: what is larger fits in no array and in no table."""

CONFIG_VARIABLE: Final = "TIERFOLD_CONFIG"

JSON_OPTION: Final = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout."
)

_Verb = TypeVar("_Verb", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOfTier:
    """What a verb about a tier is told."""

    live: Wiring
    scope: Scope


def _settings_options(verb: _Verb) -> _Verb:
    """--config and --set: every verb takes them."""
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
    return _with(options, verb)


def _replay_options(verb: _Verb) -> _Verb:
    """--now, --first-dirty, settings: a verb that reads a tier replays another's run with them."""
    options = (
        click.option("--now", "now_ms", type=INT64, metavar="MS", help="Instead of the clock."),
        click.option(
            "--first-dirty",
            type=INT64,
            metavar="OFFSET",
            help="Where the dirty region begins; 0 cleans all again.",
        ),
    )
    return _with(options, _settings_options(verb))


def _tier_options(verb: _Verb) -> _Verb:
    """The tier, its catalog, and which partitions."""
    options = (
        click.argument("tier"),
        click.option("--catalog", metavar="URI", help="Instead of TIER/_tierfold."),
        click.option(
            "--topic", "topics", multiple=True, metavar="GLOB", help="Only these. Repeatable."
        ),
        click.option(
            "--partition", "partitions", multiple=True, metavar="GLOB", help="Only these numbers."
        ),
        JSON_OPTION,
    )
    return _with(options, verb)


def _with(options: Sequence[Callable[[_Verb], _Verb]], verb: _Verb) -> _Verb:
    """The verb with these options, shown in their order."""
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), verb)


def _settings(given: dict[str, Any]) -> Settings:
    """What was said of settings; asked for first, so that nothing is read where it is wrong."""
    return resolve(given["overrides"], given["config"])


def _budget_options(verb: _Verb) -> _Verb:
    """What a run may take; what is left goes on with the next run."""
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
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), verb)


def _asked_of_tier(given: dict[str, Any]) -> AskedOfTier:
    scope = Scope(
        topics=given["topics"] or ("*",),
        partitions=given["partitions"] or ("*",),
        first_dirty=given["first_dirty"],
    )
    return AskedOfTier(live=wired(given["tier"], given["catalog"], given["now_ms"]), scope=scope)


def _console(as_json: bool) -> Console:
    """Where people read: stdout, or stderr where stdout is a document."""
    stream = sys.stderr if as_json else sys.stdout
    width = None if stream.isatty() else WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, width=width, highlight=False)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tierfold_version(), prog_name="tierfold")
def tierfold() -> None:
    """Compact Kafka topics inside their remote tier, outside the brokers.

    TIER is the folder that holds `kafka-tiered-storage`, as a path or a file:// URI.

    \b
    Exit codes: 0 done or nothing to do · 1 a bug · 2 wrong setting or usage
                3 a partition failed    · 4 fenced by another run
    """


@tierfold.command("plan")
@_tier_options
@_replay_options
@click.option(
    "--explain",
    "partition_name",
    metavar="PARTITION",
    help="Draw one partition, such as orders-0, segment by segment, with reasons.",
)
def plan_verb(partition_name: str | None, **given: Any) -> None:
    """Show what `compact` would do to each partition, and why not more.

    \b
    Examples:
      tierfold plan /mnt/tier --set cleanup.policy=compact --topic 'orders.*'
      tierfold plan /mnt/tier --set cleanup.policy=compact --explain orders-0
    """
    settings = _settings(given)
    asked = _asked_of_tier(given)
    if partition_name is None:
        _told(plan(asked.live, settings, asked.scope), "plan", given["as_json"])
        return
    found = explain(asked.live, settings, asked.scope, partition_name)
    if given["as_json"]:
        delay_secs = max_compaction_delay_secs((found.report,))
        click.echo(document((found.as_json(),), max_compaction_delay_secs=delay_secs))
    else:
        print_explained(_console(as_json=False), found)
    _leave((found.report,))


@tierfold.command("compact")
@_tier_options
@_replay_options
@_budget_options
@click.option("--dry-run", is_flag=True, help="Only say what would be done, as `plan` does.")
def compact_verb(**given: Any) -> None:
    """Compact every eligible partition.

    \b
    Example:
      tierfold compact /mnt/tier --set cleanup.policy=compact --set delete.retention.ms=3600000
    """
    settings = _settings(given)
    asked = _asked_of_tier(given)
    budget = Budget(
        max_partitions=given["max_partitions"],
        max_bytes=given["max_bytes"],
        max_duration_ms=given["max_duration_ms"],
    )
    if given["dry_run"]:
        reports = plan(asked.live, settings, asked.scope, budget)
        title = "dry run: nothing is changed"
    else:
        # Progress is no result: it goes to stderr, always.
        reports = compact(asked.live, settings, asked.scope, Console(stderr=True), budget)
        title = f"run {asked.live.run}"
    _told(reports, title, given["as_json"])


@tierfold.command("status")
@_tier_options
@_replay_options
def status_verb(**given: Any) -> None:
    """Show what lives in a tier, how dirty it is, and what was replaced.

    \b
    Example:
      tierfold status /mnt/tier --json
    """
    settings = _settings(given)
    asked = _asked_of_tier(given)
    found = status(asked.live, settings, asked.scope)
    if given["as_json"]:
        click.echo(document(each.as_json() for each in found))
    else:
        print_status(_console(as_json=False), found)
    if any(each.problem for each in found):
        sys.exit(EXIT_PARTITION_FAILED)


@tierfold.command("verify")
@_tier_options
@_replay_options
def verify_verb(**given: Any) -> None:
    """Read all live segments again and prove them: CRCs, cover, indexes, latest values.

    \b
    Example:
      tierfold verify /mnt/tier --topic orders
    """
    settings = _settings(given)
    asked = _asked_of_tier(given)
    found = verify(asked.live, settings, asked.scope, Console(stderr=True))
    if given["as_json"]:
        click.echo(document(each.as_json() for each in found))
    else:
        print_verified(_console(as_json=False), found)
    if any(each.faults for each in found):
        sys.exit(EXIT_PARTITION_FAILED)


@tierfold.command("dump")
@click.argument("segment", type=click.Path())
@_replay_options
def dump_verb(segment: str, **given: Any) -> None:
    """Print the batches and records of a segment's .log as JSON lines.

    \b
    Example:
      tierfold dump 00000000000000000000-0hLI51_3SZKS69rydQPI4w.log | jq .baseOffset
    """
    _settings(given)
    for line in dump_lines(segment):
        click.echo(line)


@tierfold.command("config")
@click.argument("topic")
@_settings_options
@JSON_OPTION
def config_verb(topic: str, **given: Any) -> None:
    """Show every setting as TOPIC has it, and who said so; reads no tier.

    \b
    Example:
      tierfold config orders --config tierfold.toml
    """
    settings = _settings(given)
    if not is_topic(topic):
        raise BadSettings(
            f"{topic!r} is no topic's name",
            where="tierfold config",
            remedy="Name one topic: letters, digits, dots, dashes and underscores.",
        )
    found = settings.effective(topic)
    if given["as_json"]:
        settled = {"topic": topic, "settings": [each.as_json() for each in found]}
        click.echo(json.dumps(settled, indent=2))
    else:
        print_settings(_console(as_json=False), topic, found)


def _told(reports: list[PartitionReport], title: str, as_json: bool) -> None:
    """Print the reports and leave with the exit code they call for."""
    if as_json:
        click.echo(
            document(
                (each.as_json() for each in reports),
                max_compaction_delay_secs=max_compaction_delay_secs(reports),
            )
        )
    else:
        print_reports(_console(as_json=False), reports, title)
    _leave(reports)


def _leave(reports: Sequence[PartitionReport]) -> None:
    """Exit with the code that the reports call for; where that is 0, go on."""
    outcomes = {each.outcome for each in reports}
    if outcomes & {FAILED, REFUSED, UNKNOWN}:
        sys.exit(EXIT_PARTITION_FAILED)
    if outcomes & {FENCED, LOST_RACE}:
        sys.exit(EXIT_FENCED)


def main(prog_name: str = "tierfold", first_arguments: Sequence[str] = ()) -> None:
    """The console script; errors that a person must act on are one sentence, not a trace."""
    try:
        tierfold.main(
            args=[*first_arguments, *sys.argv[1:]], prog_name=prog_name, standalone_mode=True
        )
    except TierfoldError as error:
        click.echo(f"{prog_name}: {error}", err=True)
        sys.exit(_exit_code(error))
    except Exception:  # noqa: BLE001 - a bug: its trace is told, fit to be reported
        click.echo(trace(), err=True)
        sys.exit(EXIT_BUG)


def _exit_code(error: TierfoldError) -> int:
    """By who must act: on a setting, on data, or on tierfold itself."""
    match error:
        case BadSettings():
            return EXIT_WRONG_SETTING
        case CorruptLog() | UnreadableObject():
            return EXIT_PARTITION_FAILED
        case _:
            return EXIT_BUG
