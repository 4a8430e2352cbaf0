"""The command line: `tierfold VERB …`, also `python -m tierfold VERB …` and under spark-submit.

A verb imports what it needs when it runs: numpy, Arrow, Delta or Spark would make `--help`, and
verbs without Spark, several times slower.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from tierfold.compaction.model.errors import TierfoldError
from tierfold.jobs.api.keywords import RUNS_SHOWN
from tierfold.jobs.cli.change_commands import (
    forget_verb,
    rebuild_verb,
    restore_verb,
    vacuum_verb,
)
from tierfold.jobs.cli.exit_codes import (
    EXIT_BUG,
    drop_output,
    ensure_streams,
    exit_code_of_error,
    replace_unprintable,
)
from tierfold.jobs.cli.init_command import init_verb
from tierfold.jobs.cli.log_dir_options import log_dir_option, verified_log_dir_option
from tierfold.jobs.cli.options import (
    budget_options,
    catalog_options,
    clock_is_right_option,
    clock_options,
    cluster_options,
    duration_option,
    encryption_key_option,
    engine_options,
    if_held_option,
    metrics_options,
    output_options,
    partition_argument,
    publish_options,
    replay_options,
    settings_options,
    storage_price_option,
    tier_options,
    tier_or_cluster_options,
    version_option,
)
from tierfold.jobs.cli.output import Output, ResultNotWritten, finish, print_error, print_lines
from tierfold.jobs.cli.report_command import report_verb
from tierfold.jobs.cli.table_options import (
    check_estimate,
    check_out,
    segments_option,
    table_options,
)
from tierfold.jobs.cli.upload_command import local_retention_verb, upload_verb
from tierfold.jobs.cli.usage_errors import OWN_PROCESS, Verbs, trace
from tierfold.jobs.context.stopping import Stopped, stoppable
from tierfold.jobs.spark.stderr_filter import chatter_hidden


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def tierfold() -> None:
    """Compact Kafka topics inside their remote tier, outside the brokers.

    TIER is a folder or a URI (s3://, az://, gs://): the parent of `kafka-tiered-storage`, or of
    the topics of Aiven's plugin. A command without it takes $TIERFOLD_TIER, or tier in the
    settings file.

    \b
    Exit codes: 0 done, nothing to do, or left to the next run or a run at work
                1 a bug               · 2 wrong setting or usage
                3 a partition failed  · 4 fenced by another run
                5 done, but the result could not be written
                130 stopped by Ctrl-C · 143 stopped by SIGTERM
    """


@tierfold.command("plan")
@tier_options
@table_options("partition", "offsets", "segments", "bytes", "saves")
@cluster_options
@publish_options
@replay_options
@log_dir_option
@click.option(
    "--estimate",
    is_flag=True,
    help="Also read a small sample of each partition, and say how many bytes would probably go.",
)
@click.option(
    "--explain",
    "partition_name",
    metavar="PARTITION",
    help="Draw one partition, such as orders-0, segment by segment, with reasons.",
)
@click.option(
    "--out",
    metavar="FILE|URI",
    help="Also write a plan file, for approval: `compact --plan FILE` carries out exactly that, or"
    " refuses. It never overwrites a file.",
)
def plan_verb(
    partition_name: str | None, estimate: bool, out: str | None, output: Output, **given: Any
) -> None:
    """Show what `compact` would do to each partition, and why.

    \b
    Examples:
      tierfold plan /mnt/tier --set cleanup.policy=compact --topic 'orders.*'
      tierfold plan /mnt/tier --set cleanup.policy=compact --estimate
      tierfold plan /mnt/tier --set cleanup.policy=compact --explain orders-0
      tierfold plan /mnt/tier --set cleanup.policy=compact --holes-are-holes 'orders-*'
      tierfold plan /mnt/tier --config tierfold.toml --bootstrap-server broker-1:9092
      tierfold plan /mnt/tier --set cleanup.policy=compact --out plan.json
    """
    check_estimate(output, partition_name, has_estimate=estimate)
    check_out(partition_name, out)
    from tierfold.jobs.api.reading import explain, plan

    if partition_name is None:
        finish(output, plan(estimate=estimate, out=out, progress=output.progress, **given))
    else:
        finish(output, explain(partition=partition_name, progress=output.progress, **given))


@tierfold.command("compact")
@tier_options
@table_options("partition", "offsets", "segments", "bytes")
@cluster_options
@publish_options
@replay_options
@log_dir_option
@budget_options
@if_held_option
@engine_options
@metrics_options
@clock_is_right_option
@click.option(
    "--plan",
    metavar="FILE|URI",
    help="Compact exactly what `plan --out FILE` planned. A partition of which anything has changed"
    " since is refused; others are left alone.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done, as `plan` does.")
def compact_verb(output: Output, **given: Any) -> None:
    """Compact every eligible partition.

    With brokers, what is compacted is published to them, if publishing is on: publish = true under
    [cluster], or --publish. If it is not, nothing is changed, and every partition that is due is
    left, with the reason.

    \b
    Examples:
      tierfold compact /mnt/tier --set cleanup.policy=compact --set delete.retention.ms=3600000
      tierfold compact /mnt/tier --set cleanup.policy=compact --engine local
      tierfold compact /mnt/tier --set cleanup.policy=compact --holes-are-holes orders-0
      tierfold compact /mnt/tier --set cleanup.policy=compact --clock-is-right
      tierfold compact /mnt/tier --config tierfold.toml --metrics-file /var/lib/tierfold.prom
      tierfold compact /mnt/tier --plan plan.json
      tierfold compact s3://bucket/tier --config tierfold.toml --log-dir /var/lib/kafka/data
    """
    from tierfold.jobs.api.changing import compact

    finish(output, compact(progress=output.progress, **given))


@tierfold.command("status")
@tier_or_cluster_options
@table_options("partition", "segments", "bytes", "offsets", "dirty", "clean-below", "epoch")
@segments_option
@replay_options
def status_verb(output: Output, **given: Any) -> None:
    """Show each partition's live segments, how dirty they are, and what was replaced.

    With brokers, also what they have of each partition; without TIER, only that.

    \b
    Examples:
      tierfold status /mnt/tier --json
      tierfold status /mnt/tier --bootstrap-server broker-1:9092 --command-config client.properties
      tierfold status --bootstrap-server broker-1:9092 --topic 'orders.*'
    """
    from tierfold.jobs.api.reading import status

    finish(output, status(progress=output.progress, **given))


@tierfold.command("doctor")
@tier_or_cluster_options
@clock_options
@storage_price_option
@click.option(
    "--estimate",
    is_flag=True,
    help="Also read a small sample of each log, and say what compaction would probably save.",
)
def doctor_verb(output: Output, **given: Any) -> None:
    """Say what is wrong with a tier and its cluster: what loses data, leaks or hinders.

    With brokers, TIER is compared with what they have; without TIER, they are asked alone. Nothing
    is changed, and no topic need be compacted. Exit code 3: something loses data or leaks.

    \b
    Examples:
      tierfold doctor /mnt/tier --bootstrap-server broker-1:9092
      tierfold doctor --bootstrap-server broker-1:9092 --topic 'orders.*'
      tierfold doctor /mnt/tier --estimate
      tierfold doctor /mnt/tier --json
    """
    from tierfold.jobs.api.reading import doctor

    finish(output, doctor(progress=output.progress, **given))


@tierfold.command("verify")
@tier_options
@table_options(
    *("partition", "segments", "batches", "records", "read", "index-entries", "keys-compared")
)
@cluster_options
@clock_options
@verified_log_dir_option
@engine_options
@click.option(
    "--second-opinion",
    is_flag=True,
    help="Also find the latest records with a Spark window; reads all logs twice.",
)
@duration_option
@metrics_options
def verify_verb(output: Output, **given: Any) -> None:
    """Read all live segments and check them: CRCs, offsets, indexes, latest values.

    The latest value of a key is the one that the topic's compaction strategy keeps. With
    --bootstrap-server, what brokers name of a tier that they serve is compared with the catalog,
    and a sample is read through them.

    \b
    Examples:
      tierfold verify /mnt/tier --topic orders
      tierfold verify /mnt/tier --topic orders --second-opinion
    """
    from tierfold.jobs.api.verifying import verify

    finish(output, verify(progress=output.progress, **given))


@tierfold.command("history")
@catalog_options
@partition_argument
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Show only the newest N lines.")
@output_options
@clock_options
def history_verb(output: Output, **given: Any) -> None:
    """Show what happened to one partition, and what `restore` can bring back.

    PARTITION is a name such as orders-0, or the partition's folder. `restore --to` takes the
    values of the first two columns. The line "found" is the state before the first run.

    \b
    Example:
      tierfold history /mnt/tier orders-0 --limit 10
    """
    from tierfold.jobs.api.reading import history

    finish(output, history(**given))


@tierfold.command("runs")
@catalog_options
@click.option("--run", metavar="RUN", help="Show all of one run: its name or a prefix of it.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    default=RUNS_SHOWN,
    show_default=True,
    help="Show the newest N runs.",
)
@output_options
@table_options("bytes", "saved", "cost", "read", "took")
@settings_options
def runs_verb(output: Output, **given: Any) -> None:
    """Show what the last runs did: outcomes, bytes, cost, time, failed and slow partitions.

    The exit code is 0 whatever the runs did.

    \b
    Examples:
      tierfold runs /mnt/tier
      tierfold runs /mnt/tier --only failed --limit 100
      tierfold runs /mnt/tier --run 20261122T153000 --sort took
    """
    from tierfold.jobs.api.reading import runs

    output.show(runs(**given))


@tierfold.command("dump")
@click.argument("segment", type=click.Path())
@encryption_key_option
@click.option(
    "--decompressed-batch-max-bytes",
    "batch_bytes_max",
    type=click.IntRange(1, 2**31 - 1),
    metavar="BYTES",
    help="How much a compressed batch may take. Default: 128 MiB, or 256 times its size.",
)
def dump_verb(segment: str, encryption_keys: tuple[str, ...], batch_bytes_max: int | None) -> None:
    """Print the batches and records of a segment's .log as JSON lines.

    A .log of Aiven's plugin is decoded, if its manifest is beside it.

    \b
    Example:
      tierfold dump 00000000000000000000-0hLI51_3SZKS69rydQPI4w.log | jq .baseOffset
    """
    from tierfold.jobs.settings.given_layout import GivenLayout
    from tierfold.jobs.verbs.dump import dump_lines

    keys = GivenLayout.of({}, encryption_keys, {"encryption.key": "--encryption-key"})
    print_lines(dump_lines(segment, keys.options(), batch_bytes_max or 0))


@tierfold.command("config")
@click.argument("topic")
@cluster_options
@settings_options
@output_options
def config_verb(topic: str, output: Output, **given: Any) -> None:
    """Show every setting of TOPIC and where its value comes from; needs no tier.

    With brokers, also what they have for the topic.

    \b
    Examples:
      tierfold config orders --config tierfold.toml
      tierfold config orders --bootstrap-server broker-1:9092 --set cleanup.policy=compact
    """
    from tierfold.jobs.api.topic_settings import config

    output.show(config(topic, **given))


for verb in (
    *(init_verb, restore_verb, forget_verb, vacuum_verb),
    *(rebuild_verb, report_verb, upload_verb, local_retention_verb),
):
    tierfold.add_command(verb)


def main(prog_name: str = "tierfold", first_arguments: Sequence[str] = ()) -> None:
    """Run the console script, and hide Spark's chatter on stderr.

    Expected errors and signals print one sentence, bugs a traceback.
    """
    replace_unprintable()
    arguments = [*first_arguments, *sys.argv[1:]]
    with chatter_hidden():
        try:
            ensure_streams()
            with stoppable():
                tierfold.main(args=arguments, prog_name=prog_name, obj=OWN_PROCESS)
        except Stopped as stopped:
            print_error(f"{prog_name}: {stopped}")
            sys.exit(stopped.exit_code)
        except ResultNotWritten as unwritten:
            drop_output()
            print_error(f"{prog_name}: {unwritten}")
            sys.exit(unwritten.exit_code)
        except TierfoldError as error:
            print_error(f"{prog_name}: {error}")
            sys.exit(exit_code_of_error(error))
        except Exception:  # noqa: BLE001 - a bug: its traceback is printed for a bug report
            click.echo(trace(), err=True)
            sys.exit(EXIT_BUG)
