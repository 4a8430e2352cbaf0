"""The verbs that change the catalog, apart from `compact`: restore, forget, vacuum, rebuild."""

from __future__ import annotations

from typing import Any

import click

from tierfold.jobs.cli.confirmation import confirm_short_ages
from tierfold.jobs.cli.options import (
    canary_after_option,
    canary_option,
    catalog_options,
    clock_is_right_option,
    clock_options,
    cluster_options,
    duration_option,
    holes_option,
    if_held_option,
    metrics_options,
    output_options,
    partition_argument,
    publish_option,
    publish_options,
    tier_options,
)
from tierfold.jobs.cli.output import Output, finish
from tierfold.jobs.cli.sizes_and_durations import DURATION_MS
from tierfold.jobs.cli.table_options import table_options
from tierfold.jobs.cli.usage_errors import Verb


@click.command("restore", cls=Verb)
@catalog_options
@cluster_options
@partition_argument
@click.option(
    "--to",
    required=True,
    metavar="TIME|RUN",
    help="A time, in ISO 8601 (UTC without an offset) or epoch milliseconds: the state at that"
    " time. Or a run's name, or a prefix of it: the state after that run.",
)
@click.option(
    "--copy",
    is_flag=True,
    help="Copy what comes back under new ids, within the store: no replaced segment is live again."
    " What brokers serve is always copied.",
)
@publish_options
@if_held_option
@click.option("--dry-run", is_flag=True, help="Only show which segments would come back or go.")
@output_options
@clock_options
@clock_is_right_option
def restore_verb(output: Output, **given: Any) -> None:
    """Bring back an earlier state of one partition, as long as its segments still exist.

    Segments that brokers have uploaded since then stay. Segments that come back are read and
    checked first. Segments that leave are retired, so another restore can undo this one;
    where brokers serve the partition, compact it again instead.

    To undo a run, name the time of the line below it in `tierfold history`. To undo the very
    first run, name the time of the line "found".

    With --copy the earlier state comes back as copies, which are compared with their sources before
    the commit. The replaced segments stay replaced.

    With brokers, it also shows what they have, and refuses what does not fit. A partition that they
    serve by the catalog is only restored with --publish, or with publish = true under [cluster]: it
    first completes what is open, then copies the earlier state and publishes the copies, tombstones
    before the values that they hide. Consumers read again what was there; those that have read past
    it do not. --dry-run shows which offsets.

    \b
    Examples:
      tierfold restore /mnt/tier orders-0 --to 2026-11-21T15:30:46.123Z --dry-run
      tierfold restore /mnt/tier orders-0 --to 20261121T153046-hVb2Qx0A
      tierfold restore /mnt/tier orders-0 --to 20261121T153046-hVb2Qx0A --copy
      tierfold restore /mnt/tier orders-0 --to 20261121T153046-hVb2Qx0A --publish
    """
    from tierfold.jobs.api.changing import restore

    finish(output, restore(progress=output.progress, **given))


@click.command("forget", cls=Verb)
@catalog_options
@cluster_options
@partition_argument
@publish_option
@canary_after_option
@if_held_option
@click.option("--dry-run", is_flag=True, help="Only show what would be read and what would vanish.")
@click.option(
    "--leave-alone",
    multiple=True,
    metavar="ID[,...]",
    help="Only note in the catalog that these segments, which brokers never had, are no part of the"
    " log: they are never read and never deleted. Repeatable.",
)
@holes_option
@output_options
@clock_options
@clock_is_right_option
def forget_verb(output: Output, **given: Any) -> None:
    """Accept that a log was truncated, or take over what brokers have.

    After an unclean leader election the brokers continue with a log that lacks some records of the
    tier, and every verb refuses the partition. `forget` empties the partition's row in the catalog.
    The next `compact` then reads the new log, as for a new partition. No object is deleted; `vacuum
    --diverged` deletes the segments that are not part of the new log.

    While the tier holds segments that tierfold wrote, retired segments or orphans, `forget`
    refuses and prints what to do first. It cannot be undone, so check --dry-run.

    With brokers, it takes over what they have: what consumers read becomes live, and what was
    replaced stays replaced. That is the way out if the catalog was lost or set back, or if brokers
    have segments of another catalog.

    It is the way out, too, if an unclean leader election cut off what was compacted and published.
    The segments from before those passes then come back as copies, as with `restore`, and are
    published: with --publish, or with publish = true under [cluster].

    With --leave-alone, it notes which segments, that brokers never had, are left alone, and forgets
    nothing. Segments that appear later are not included.

    \b
    Examples:
      tierfold forget /mnt/tier orders-0 --dry-run
      tierfold forget /mnt/tier orders-0
      tierfold forget /mnt/tier orders-0 --bootstrap-server broker-1:9092
      tierfold forget /mnt/tier orders-0 --bootstrap-server broker:9092 --publish
      tierfold forget /mnt/tier orders-0 --leave-alone aNGVCKfUQrmBnKPzPOaWnA
    """
    from tierfold.jobs.api.changing import forget

    finish(output, forget(**given))


@click.command("rebuild", cls=Verb)
@tier_options
@cluster_options
@publish_option
@clock_options
@if_held_option
@clock_is_right_option
@click.option("--dry-run", is_flag=True, help="Only show what was lost and what would be sent.")
def rebuild_verb(output: Output, **given: Any) -> None:
    """Name again what the brokers' metadata topic lost, before they forget it.

    If __remote_log_metadata was truncated, or deleted and created again, brokers go on from memory
    until they restart. Do not restart one: run `rebuild` first. It shows what is lost and whether
    consumers still read it, and changes nothing without --publish. With it, brokers are sent again
    what is live: the row's segments and all that was uploaded since, or without a catalog what the
    tier's listing and manifests show.

    It sends nothing that would let brokers delete: it refuses once they moved the log start, and
    while they copy to the tier without knowing what they have. It then says what to do first.

    \b
    Examples:
      tierfold rebuild /mnt/tier --bootstrap-server broker-1:9092
      tierfold rebuild /mnt/tier --bootstrap-server broker-1:9092 --publish
    """
    from tierfold.jobs.api.rebuilding import rebuild

    finish(output, rebuild(progress=output.progress, **given))


@click.command("vacuum", cls=Verb)
@tier_options
@table_options("partition", "expiring", "objects", "bytes", "log-start")
@cluster_options
@publish_option
@canary_option(
    "What to read of a partition, as a consumer does, before what was replaced is deleted, where"
    " brokers' local copies should be gone: around the borders of replaced segments, or all of it."
    " off: nothing, so a broker that does not follow is not found."
)
@clock_options
@click.option(
    "--grace-period",
    "grace_ms",
    type=DURATION_MS,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="How long to keep a retired segment: readers that opened the catalog earlier can still"
    " read it, and `restore` can bring it back.",
)
@click.option(
    "--orphan-age",
    "orphan_age_ms",
    type=DURATION_MS,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="How long to keep what no run has committed: longer than your longest run.",
)
@click.option(
    "--diverged",
    "diverged",
    is_flag=True,
    help="Also delete segments that are set apart, because an unclean leader election truncated"
    " their log, once they are --orphan-age old. Only with tier.binding=detached.",
)
@duration_option
@metrics_options
@if_held_option
@clock_is_right_option
@click.option(
    "--yes",
    "is_confirmed",
    is_flag=True,
    help="Do not ask, in a terminal, whether a grace period below an hour or an orphan age below a"
    " day is meant.",
)
@click.option("--dry-run", is_flag=True, help="Only list what would be deleted, and its bytes.")
def vacuum_verb(output: Output, *, is_confirmed: bool, **given: Any) -> None:
    """Delete replaced, expired and orphaned segments.

    A segment expires by retention.ms or retention.bytes if the topic's cleanup.policy contains
    delete. Expired segments are retired, and the log start moves; their objects are deleted a grace
    period later. Without tier.binding=detached, brokers may still serve the tier, and only segments
    that tierfold wrote are deleted. With brokers, only what they never had, or forgot. With
    --publish, also what they list for deletion since `compact` published its replacement, uploads
    included, a grace period after they listed it; brokers are then sent that it is gone. Of a topic
    that was deleted, what tierfold wrote, an --orphan-age after its brokers' last event. Catalog
    files that were superseded thirty days ago are deleted too, whatever --topic is, and so are key
    indexes of segments that are gone.

    With tier.binding=moved, the catalog and the tier note where it stands now. Nothing is deleted
    of a partition before that is noted.

    \b
    Examples:
      tierfold vacuum /mnt/tier --set tier.binding=detached --grace-period 12h --dry-run
      tierfold vacuum /mnt/tier --set tier.binding=detached --diverged --topic orders
      tierfold vacuum /mnt/tier --set tier.binding=detached --grace-period 10m --yes
      tierfold vacuum /mnt/tier --bootstrap-server broker-1:9092 --publish
    """
    from tierfold.jobs.api.changing import vacuum

    if not is_confirmed and not given["dry_run"]:
        confirm_short_ages(given)
    finish(output, vacuum(progress=output.progress, **given))
