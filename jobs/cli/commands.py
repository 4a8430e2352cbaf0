"""The command line: `tierfold VERB …`, also `python -m tierfold VERB …` and under spark-submit.

A verb imports what it needs when it runs: numpy, Arrow, Delta or Spark would make `--help`, and
verbs without Spark, several times slower.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from tierfold.compaction.model.errors import BadSettings, TierfoldError
from tierfold.jobs.cli.change_commands import forget_verb, restore_verb, vacuum_verb
from tierfold.jobs.cli.exit_codes import EXIT_BUG, exit_code_of_error, replace_unprintable
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
from tierfold.jobs.cli.output import Output, finish
from tierfold.jobs.cli.usage_errors import Verbs, trace
from tierfold.jobs.context.stopping import Stopped, stoppable
from tierfold.jobs.spark.stderr_filter import chatter_hidden


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def tierfold() -> None:
    """Compact Kafka topics inside their remote tier, outside the brokers.

    TIER is a folder or a URI (s3://, az://, gs://): what holds `kafka-tiered-storage`, or the
    topics of Aiven's plugin.

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
def plan_verb(partition_name: str | None, output: Output, **given: Any) -> None:
    """Show what `compact` would do to each partition, and why.

    \b
    Examples:
      tierfold plan /mnt/tier --set cleanup.policy=compact --topic 'orders.*'
      tierfold plan /mnt/tier --set cleanup.policy=compact --explain orders-0
    """
    from tierfold.jobs.cli.arguments import opened_with_remarks
    from tierfold.jobs.reports.explained_plan import explained_result
    from tierfold.jobs.reports.plan_report import plan_result
    from tierfold.jobs.verbs.plan import explain, plan

    tier = opened_with_remarks(given, output, has_advice=True)
    if partition_name is None:
        finish(output, plan_result(plan(*tier), "plan"), tier.context)
    else:
        finish(output, explained_result(explain(*tier, partition_name)), tier.context)


@tierfold.command("compact")
@tier_options
@replay_options
@budget_options
@engine_options
@click.option("--dry-run", is_flag=True, help="Only show what would be done, as `plan` does.")
def compact_verb(dry_run: bool, output: Output, **given: Any) -> None:
    """Compact every eligible partition.

    \b
    Examples:
      tierfold compact /mnt/tier --set cleanup.policy=compact --set delete.retention.ms=3600000
      tierfold compact /mnt/tier --set cleanup.policy=compact --engine local
    """
    from tierfold.jobs.cli.arguments import budget_of, engine_of, local_max_of, opened_with_remarks
    from tierfold.jobs.reports.plan_report import plan_result
    from tierfold.jobs.settings.remarks import Remarks
    from tierfold.jobs.verbs.compact import broker_warnings, compact
    from tierfold.jobs.verbs.plan import plan

    tier = opened_with_remarks(given, output, has_advice=dry_run)
    run, budget = tier.context.run, budget_of(given)
    if dry_run:
        plans = plan(*tier, budget, local_max_of(given))
        finish(output, plan_result(plans, "dry run: nothing is changed"), tier.context)
    else:
        reports = compact(*tier, output.progress, budget, engine_of(given))
        output.remark(Remarks(warnings=broker_warnings(tier.settings, reports)))
        finish(output, plan_result(reports, f"run {run}", run=run), tier.context)


@tierfold.command("status")
@tier_options
@replay_options
def status_verb(output: Output, **given: Any) -> None:
    """Show each partition's live segments, how dirty they are, and what was replaced.

    \b
    Example:
      tierfold status /mnt/tier --json
    """
    from tierfold.jobs.cli.arguments import opened_with_remarks
    from tierfold.jobs.reports.status_report import status_result
    from tierfold.jobs.verbs.status import status

    tier = opened_with_remarks(given, output)
    finish(output, status_result(status(*tier)), tier.context)


@tierfold.command("verify")
@tier_options
@clock_options
@engine_options
@click.option(
    "--second-opinion",
    is_flag=True,
    help="Also find the latest records with a Spark window; reads all logs twice.",
)
def verify_verb(second_opinion: bool, output: Output, **given: Any) -> None:
    """Read all live segments and check them: CRCs, offsets, indexes, latest values.

    The latest value of a key is the one that the topic's compaction strategy keeps.

    \b
    Examples:
      tierfold verify /mnt/tier --topic orders
      tierfold verify /mnt/tier --topic orders --second-opinion
    """
    from tierfold.jobs.cli.arguments import engine_of, opened_with_remarks
    from tierfold.jobs.reports.verify_report import verify_result
    from tierfold.jobs.verbs.verify import verify

    if second_opinion and given["engine"] == "local":
        raise click.UsageError("--second-opinion needs Spark: leave out --engine local.")
    tier, engine = opened_with_remarks(given, output), engine_of(given)
    found = verify(*tier, output.progress, second_opinion=second_opinion, engine=engine)
    finish(output, verify_result(found), tier.context)


@tierfold.command("history")
@catalog_options
@click.argument("partition_name", metavar="PARTITION")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Show only the newest N lines.")
@JSON_OPTION
@clock_options
def history_verb(partition_name: str, limit: int | None, output: Output, **given: Any) -> None:
    """Show what happened to one partition, and what `restore` can bring back.

    PARTITION is a name such as orders-0, or the partition's folder. `restore --to` takes the
    values of the first two columns. The line "found" is the state before the first run.

    \b
    Example:
      tierfold history /mnt/tier orders-0 --limit 10
    """
    from tierfold.jobs.cli.arguments import opened
    from tierfold.jobs.reports.history_report import history_result
    from tierfold.jobs.verbs.history import history

    context = opened(given).context
    finish(output, history_result(history(context, partition_name, limit)), context)


@tierfold.command("dump")
@click.argument("segment", type=click.Path())
def dump_verb(segment: str) -> None:
    """Print the batches and records of a segment's .log as JSON lines.

    SEGMENT is a file with plain batches. A .log that Aiven's plugin compressed or encrypted is
    refused if its manifest is beside it.

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
def config_verb(topic: str, output: Output, **given: Any) -> None:
    """Show every setting of TOPIC and where its value comes from; reads no tier.

    \b
    Example:
      tierfold config orders --config tierfold.toml
    """
    from tierfold.jobs.cli.arguments import settings_of
    from tierfold.jobs.reports.status_report import config_result
    from tierfold.jobs.settings.remarks import remarks_on_topic
    from tierfold.storage.kafka.topic_names import is_topic

    settings = settings_of(given)
    if not is_topic(topic):
        raise BadSettings(
            f"{topic!r} is not a valid topic name",
            where="TOPIC",
            remedy="A topic name has only letters, digits, dots, dashes and underscores.",
        )
    found = settings.effective(topic)
    output.remark(remarks_on_topic(settings, topic))
    finish(output, config_result(topic, found))


for changing in (restore_verb, forget_verb, vacuum_verb):
    tierfold.add_command(changing)


def main(prog_name: str = "tierfold", first_arguments: Sequence[str] = ()) -> None:
    """Run the console script, and hide Spark's chatter on stderr.

    Expected errors and signals print one sentence, bugs a traceback.
    """
    replace_unprintable()
    arguments = [*first_arguments, *sys.argv[1:]]
    with chatter_hidden():
        try:
            with stoppable():
                tierfold.main(args=arguments, prog_name=prog_name, obj=OWN_PROCESS)
        except Stopped as stopped:
            click.echo(f"{prog_name}: {stopped}", err=True)
            sys.exit(stopped.exit_code)
        except TierfoldError as error:
            click.echo(f"{prog_name}: {error}", err=True)
            sys.exit(exit_code_of_error(error))
        except Exception:  # noqa: BLE001 - a bug: its traceback is printed for a bug report
            click.echo(trace(), err=True)
            sys.exit(EXIT_BUG)
