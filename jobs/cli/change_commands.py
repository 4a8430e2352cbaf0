"""The other verbs that change the catalog, beside `compact`: restore, forget, vacuum."""

from __future__ import annotations

from typing import Any

import click

from tierfold.jobs.cli.exit_codes import beside_result, for_people, leave
from tierfold.jobs.cli.options import (
    JSON_OPTION,
    catalog_options,
    clock_options,
    tier_options,
)
from tierfold.jobs.cli.sizes_and_durations import DURATION_MS


@click.command("restore")
@catalog_options
@click.argument("partition_name", metavar="PARTITION")
@click.option(
    "--to",
    required=True,
    metavar="TIME|RUN",
    help="ISO 8601 (UTC unless it says otherwise) or epoch milliseconds: as it was then. A run, or"
    " the beginning of its name: as that run left it.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would live again, and what would not.")
@JSON_OPTION
@clock_options
def restore_verb(partition_name: str, to: str, dry_run: bool, **given: Any) -> None:
    """Bring one partition back to what it was, while the segments are still there.

    What brokers uploaded since stays. The segments that come back are read and checked first; those
    that leave are retired, so that a restore can be undone by a restore.

    To undo a run, name the time of the line below it in `tierfold history`; to undo the very
    first run, that of the line "found".

    \b
    Examples:
      tierfold restore /mnt/tier orders-0 --to 2026-11-21T15:30:46.123Z --dry-run
      tierfold restore /mnt/tier orders-0 --to 20261121T153046-hVb2Qx0A
    """
    from tierfold.jobs.cli.arguments import asked_of_tier, settings_of
    from tierfold.jobs.reports.history_tables import print_restored
    from tierfold.jobs.reports.verb_tables import document
    from tierfold.jobs.verbs.restore import restore

    settings_of(given)
    context = asked_of_tier(given).context
    stderr = beside_result(as_json=given["as_json"])
    found = restore(context, partition_name, to, stderr, is_dry_run=dry_run)
    if given["as_json"]:
        click.echo(document((found.as_json(),)))
    else:
        print_restored(for_people(), found)
    leave((found.report,))


@click.command("forget")
@catalog_options
@click.argument("partition_name", metavar="PARTITION")
@click.option("--dry-run", is_flag=True, help="Only say what would be taken, and what vanishes.")
@JSON_OPTION
@clock_options
def forget_verb(partition_name: str, dry_run: bool, **given: Any) -> None:
    """Take back what the catalog says of a partition whose log was cut off.

    After an unclean leader election brokers go on with a log that lacks what the tier has, and
    every verb refuses the partition. This accepts the loss: the next `compact` takes the new
    history, as for a new partition. No object is deleted; `vacuum --diverged` deletes what is no
    part of the new history.

    It is refused while segments that tierfold wrote, retired ones or orphans are in the tier, and
    says what to do first. It cannot be undone: look at --dry-run.

    \b
    Examples:
      tierfold forget /mnt/tier orders-0 --dry-run
      tierfold forget /mnt/tier orders-0
    """
    from tierfold.jobs.cli.arguments import asked_of_tier, settings_of
    from tierfold.jobs.reports.history_tables import print_forgot
    from tierfold.jobs.reports.verb_tables import document
    from tierfold.jobs.verbs.forget import forget

    settings_of(given)
    context = asked_of_tier(given).context
    stderr = beside_result(as_json=given["as_json"])
    found = forget(context, partition_name, stderr, is_dry_run=dry_run)
    if given["as_json"]:
        click.echo(document((found.as_json(),)))
    else:
        print_forgot(for_people(), found)
    leave((found.report,))


@click.command("vacuum")
@tier_options
@clock_options
@click.option(
    "--grace-period",
    "grace_ms",
    type=DURATION_MS,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="How long a retired segment stays: what has read the catalog may still read it, and"
    " `restore` can bring it back.",
)
@click.option(
    "--orphan-age",
    "orphan_age_ms",
    type=DURATION_MS,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="How long what no run has committed stays, and how long a silent run keeps its claim:"
    " longer than your longest run.",
)
@click.option(
    "--diverged",
    "takes_set_apart",
    is_flag=True,
    help="Delete what is set apart, too: segments of a history that an unclean leader election cut"
    " off, once they are --orphan-age old. Only with tier.binding=detached.",
)
@click.option("--dry-run", is_flag=True, help="Only list what would be deleted, and its bytes.")
def vacuum_verb(dry_run: bool, **given: Any) -> None:
    """Delete replaced, expired and orphaned segments.

    Expired are whole segments of topics whose cleanup.policy names delete, by retention.ms and
    retention.bytes: they are retired, the log start moves, and their objects go a grace period
    later. Unless tier.binding=detached says that no broker serves the tier, only what tierfold
    itself wrote is deleted. Files of the catalog that were superseded thirty days ago go, too,
    whatever --topic says.

    \b
    Examples:
      tierfold vacuum /mnt/tier --set tier.binding=detached --grace-period 12h --dry-run
      tierfold vacuum /mnt/tier --set tier.binding=detached --diverged --topic orders
    """
    from tierfold.compaction.deletion.deletion_plan import VacuumLimits
    from tierfold.jobs.cli.arguments import asked_of_tier, settings_of, tell_people
    from tierfold.jobs.reports.vacuum_tables import print_catalog_cleaned, print_vacuum
    from tierfold.jobs.reports.verb_tables import document
    from tierfold.jobs.settings.remarks import remarks_on_tier
    from tierfold.jobs.verbs.vacuum import catalog_cleaned, vacuum

    settings = settings_of(given)
    asked = asked_of_tier(given)
    times = VacuumLimits(
        now_ms=asked.context.now_ms,
        grace_ms=given["grace_ms"],
        orphan_age_ms=given["orphan_age_ms"],
        takes_set_apart=given["takes_set_apart"],
    )
    remarks = remarks_on_tier(settings, asked.context)
    tell_people(remarks, given)
    stderr = beside_result(as_json=given["as_json"])
    found = vacuum(asked.context, settings, asked.scope, times, stderr, is_dry_run=dry_run)
    if not given["as_json"]:
        title = "dry run: nothing is changed" if dry_run else f"run {asked.context.run}"
        print_vacuum(for_people(), found, title)
    catalog_files = catalog_cleaned(asked.context, stderr, is_dry_run=dry_run)
    if given["as_json"]:
        entries = (report.as_json() for report in found)
        run = {} if dry_run else {"run": asked.context.run}
        click.echo(document(entries, catalog_files=catalog_files, **run, **remarks.as_json()))
    else:
        print_catalog_cleaned(for_people(), catalog_files, is_dry_run=dry_run)
    leave(found)
