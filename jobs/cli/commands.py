"""The command line: `tierfold VERB …`, also `python -m tierfold VERB …` and under spark-submit.

Exit codes: 0 done, or nothing to do, or left for the next run; 1 a bug; 2 a wrong setting or usage;
3 a partition failed; 4 fenced: another run took over a partition. 3 goes before 4. 130 stopped by
Ctrl-C, 143 by SIGTERM.

A verb imports what it needs when it runs: numpy, Arrow, Delta or Spark would make `--help`, and
verbs without Spark, several times slower.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    TierfoldError,
    UnreadableObject,
)
from tierfold.jobs.cli.change_commands import forget_verb, restore_verb, vacuum_verb
from tierfold.jobs.cli.exit_codes import (
    EXIT_BUG,
    EXIT_PARTITION_FAILED,
    EXIT_WRONG_SETTING,
    beside_result,
    for_people,
    leave,
    print_what_can_be,
)
from tierfold.jobs.cli.options import (
    JSON_OPTION,
    OWN_PROCESS,
    budget_options,
    catalog_options,
    clock_options,
    engine_options,
    replay_options,
    settings_options,
    tier_options,
    version_option,
)
from tierfold.jobs.cli.usage_errors import Verbs, trace
from tierfold.jobs.context.stopping import Stopped, stoppable
from tierfold.jobs.spark.stderr_filter import chatter_hidden

if TYPE_CHECKING:
    from tierfold.jobs.pipeline.partition_report import PartitionReport


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def tierfold() -> None:
    """Compact Kafka topics inside their remote tier, outside the brokers.

    TIER is the folder that holds `kafka-tiered-storage`, as a path or a file:// URI.

    \b
    Exit codes: 0 done or nothing to do · 1 a bug · 2 wrong setting or usage
                3 a partition failed    · 4 fenced by another run
                130 stopped by Ctrl-C   · 143 stopped by SIGTERM
    """


@tierfold.command("plan")
@tier_options
@replay_options
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
    from tierfold.jobs.cli.arguments import asked_of_tier, settings_of, tell_people
    from tierfold.jobs.pipeline.partition_report import max_compaction_delay_secs
    from tierfold.jobs.reports.explained_plan import print_explained
    from tierfold.jobs.reports.verb_tables import document
    from tierfold.jobs.settings.remarks import remarks_on_plan
    from tierfold.jobs.verbs.plan import explain, plan

    settings = settings_of(given)
    asked = asked_of_tier(given)
    remarks = remarks_on_plan(settings, asked.context, asked.scope)
    tell_people(remarks, given)
    if partition_name is None:
        reports = plan(asked.context, settings, asked.scope)
        _told(reports, "plan", given["as_json"], **remarks.as_json())
        return
    found = explain(asked.context, settings, asked.scope, partition_name)
    if given["as_json"]:
        delay_secs = max_compaction_delay_secs((found.report,))
        of_all = remarks.as_json()
        click.echo(document((found.as_json(),), max_compaction_delay_secs=delay_secs, **of_all))
    else:
        print_explained(for_people(), found)
    leave((found.report,))


@tierfold.command("compact")
@tier_options
@replay_options
@budget_options
@engine_options
@click.option("--dry-run", is_flag=True, help="Only say what would be done, as `plan` does.")
def compact_verb(**given: Any) -> None:
    """Compact every eligible partition.

    \b
    Examples:
      tierfold compact /mnt/tier --set cleanup.policy=compact --set delete.retention.ms=3600000
      tierfold compact /mnt/tier --set cleanup.policy=compact --engine local
    """
    if given["dry_run"]:
        _plan_with_budget(given)
    else:
        _compact(given)


def _plan_with_budget(given: dict[str, Any]) -> None:
    from tierfold.jobs.cli.arguments import (
        asked_of_tier,
        budget_of,
        local_max_of,
        settings_of,
        tell_people,
    )
    from tierfold.jobs.settings.remarks import remarks_on_plan
    from tierfold.jobs.verbs.plan import plan

    settings = settings_of(given)
    asked = asked_of_tier(given)
    remarks = remarks_on_plan(settings, asked.context, asked.scope)
    tell_people(remarks, given)
    local_max = local_max_of(given)
    reports = plan(asked.context, settings, asked.scope, budget_of(given), local_max)
    _told(reports, "dry run: nothing is changed", given["as_json"], **remarks.as_json())


def _compact(given: dict[str, Any]) -> None:
    from tierfold.jobs.cli.arguments import (
        asked_of_tier,
        budget_of,
        engine_of,
        settings_of,
        tell_people,
    )
    from tierfold.jobs.settings.remarks import Remarks, remarks_on_tier
    from tierfold.jobs.verbs.compact import broker_warnings, compact

    settings = settings_of(given)
    asked = asked_of_tier(given)
    remarks = remarks_on_tier(settings, asked.context)
    tell_people(remarks, given)
    # Progress is not a result, so it always goes to stderr.
    stderr = beside_result(as_json=given["as_json"])
    budget, engine = budget_of(given), engine_of(given)
    reports = compact(asked.context, settings, asked.scope, stderr, budget, engine)
    of_brokers = Remarks(warnings=broker_warnings(settings, reports))
    tell_people(of_brokers, given)
    remarks = replace(remarks, warnings=(*remarks.warnings, *of_brokers.warnings))
    of_all: dict[str, str | list[str]] = {"run": asked.context.run, **remarks.as_json()}
    _told(reports, f"run {asked.context.run}", given["as_json"], **of_all)


@tierfold.command("status")
@tier_options
@replay_options
def status_verb(**given: Any) -> None:
    """Show what lives in a tier, how dirty it is, and what was replaced.

    \b
    Example:
      tierfold status /mnt/tier --json
    """
    from tierfold.jobs.cli.arguments import asked_of_tier, settings_of, tell_people
    from tierfold.jobs.reports.verb_tables import document, print_status
    from tierfold.jobs.settings.remarks import remarks_on_tier
    from tierfold.jobs.verbs.status import status

    settings = settings_of(given)
    asked = asked_of_tier(given)
    remarks = remarks_on_tier(settings, asked.context)
    tell_people(remarks, given)
    found = status(asked.context, settings, asked.scope)
    if given["as_json"]:
        click.echo(document((partition.as_json() for partition in found), **remarks.as_json()))
    else:
        print_status(for_people(), found)
    if any(partition.refusal for partition in found):
        sys.exit(EXIT_PARTITION_FAILED)


@tierfold.command("verify")
@tier_options
@clock_options
@engine_options
@click.option(
    "--second-opinion",
    is_flag=True,
    help="Have Spark's own window find the latest records, too; reads all logs twice.",
)
def verify_verb(second_opinion: bool, **given: Any) -> None:
    """Read all live segments again and prove them: CRCs, cover, indexes, latest values.

    The latest value of a key is the one that the topic's compaction strategy keeps.

    \b
    Examples:
      tierfold verify /mnt/tier --topic orders
      tierfold verify /mnt/tier --topic orders --second-opinion
    """
    from tierfold.jobs.cli.arguments import asked_of_tier, engine_of, settings_of, tell_people
    from tierfold.jobs.reports.verb_tables import document
    from tierfold.jobs.reports.verify_tables import print_verified
    from tierfold.jobs.settings.remarks import remarks_on_tier
    from tierfold.jobs.verbs.verify import verify

    if second_opinion and given["engine"] == "local":
        raise click.UsageError("--second-opinion is Spark's: leave out --engine local.")
    settings = settings_of(given)
    asked = asked_of_tier(given)
    remarks = remarks_on_tier(settings, asked.context)
    tell_people(remarks, given)
    stderr = beside_result(as_json=given["as_json"])
    found = verify(
        asked.context,
        settings,
        asked.scope,
        stderr,
        second_opinion=second_opinion,
        engine=engine_of(given),
    )
    if given["as_json"]:
        click.echo(document((partition.as_json() for partition in found), **remarks.as_json()))
    else:
        print_verified(for_people(), found)
    if any(partition.corruptions for partition in found):
        sys.exit(EXIT_PARTITION_FAILED)


@tierfold.command("history")
@catalog_options
@click.argument("partition_name", metavar="PARTITION")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the newest N lines.")
@JSON_OPTION
@clock_options
def history_verb(partition_name: str, limit: int | None, **given: Any) -> None:
    """Show what happened to one partition, and what `restore` can bring back.

    PARTITION is a name such as orders-0, or the partition's folder. What is in the first two
    columns, `restore --to` takes; the line "found" is how the first run found the partition.

    \b
    Example:
      tierfold history /mnt/tier orders-0 --limit 10
    """
    from tierfold.jobs.cli.arguments import asked_of_tier, settings_of
    from tierfold.jobs.reports.history_tables import print_history
    from tierfold.jobs.reports.verb_tables import document
    from tierfold.jobs.verbs.history import history

    settings_of(given)
    found = history(asked_of_tier(given).context, partition_name, limit)
    if given["as_json"]:
        click.echo(document((found.as_json(),)))
    else:
        print_history(for_people(), found)


@tierfold.command("dump")
@click.argument("segment", type=click.Path())
def dump_verb(segment: str) -> None:
    """Print the batches and records of a segment's .log as JSON lines.

    \b
    Example:
      tierfold dump 00000000000000000000-0hLI51_3SZKS69rydQPI4w.log | jq .baseOffset
    """
    from tierfold.jobs.verbs.dump import dump_lines

    for line in dump_lines(segment):
        click.echo(line)


@tierfold.command("config")
@click.argument("topic")
@settings_options
@JSON_OPTION
def config_verb(topic: str, **given: Any) -> None:
    """Show every setting as TOPIC has it, and who said so; reads no tier.

    \b
    Example:
      tierfold config orders --config tierfold.toml
    """
    from tierfold.jobs.cli.arguments import settings_of, tell_people
    from tierfold.jobs.reports.verb_tables import print_settings
    from tierfold.jobs.settings.remarks import remarks_on_topic
    from tierfold.jobs.verbs.config import settings_of_topic

    settings = settings_of(given)
    found = settings_of_topic(settings, topic)
    remarks = remarks_on_topic(settings, topic)
    tell_people(remarks, given)
    if given["as_json"]:
        settled = {"topic": topic, "settings": [setting.as_json() for setting in found]}
        click.echo(json.dumps(settled | remarks.as_json(), indent=2))
    else:
        print_settings(for_people(), topic, found)


for changing in (restore_verb, forget_verb, vacuum_verb):
    tierfold.add_command(changing)


def _told(
    reports: list[PartitionReport], title: str, as_json: bool, **of_all: str | list[str]
) -> None:
    """Print the reports and exit with their exit code."""
    from tierfold.jobs.pipeline.partition_report import max_compaction_delay_secs
    from tierfold.jobs.reports.verb_tables import document, print_reports

    if as_json:
        click.echo(
            document(
                (report.as_json() for report in reports),
                max_compaction_delay_secs=max_compaction_delay_secs(reports),
                **of_all,
            )
        )
    else:
        print_reports(for_people(), reports, title)
    leave(reports)


def main(prog_name: str = "tierfold", first_arguments: Sequence[str] = ()) -> None:
    """Run the console script, with Spark's chatter on stderr hidden."""
    print_what_can_be()
    with chatter_hidden():
        _main(prog_name, first_arguments)


def _main(prog_name: str, first_arguments: Sequence[str]) -> None:
    """Run the verb; expected errors and signals print one sentence, bugs a traceback."""
    try:
        with stoppable():
            tierfold.main(
                args=[*first_arguments, *sys.argv[1:]], prog_name=prog_name, obj=OWN_PROCESS
            )
    except Stopped as stopped:
        click.echo(f"{prog_name}: {stopped}", err=True)
        sys.exit(stopped.exit_code)
    except TierfoldError as error:
        click.echo(f"{prog_name}: {error}", err=True)
        sys.exit(_exit_code(error))
    except Exception:  # noqa: BLE001 - a bug: its traceback is printed for a bug report
        click.echo(trace(), err=True)
        sys.exit(EXIT_BUG)


def _exit_code(error: TierfoldError) -> int:
    """The exit code says what to fix: a setting, the data, or tierfold itself."""
    match error:
        case BadSettings():
            return EXIT_WRONG_SETTING
        case CorruptLog() | UnreadableObject():
            return EXIT_PARTITION_FAILED
        case _:
            return EXIT_BUG
