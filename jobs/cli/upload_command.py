"""The verbs on a broker's log directory: `upload`, `local-retention`."""

from __future__ import annotations

from typing import Any

import click

from tierfold.jobs.cli.options import (
    clock_is_right_option,
    clock_options,
    if_held_option,
    tier_options,
)
from tierfold.jobs.cli.output import Output, finish
from tierfold.jobs.cli.table_options import table_options
from tierfold.jobs.cli.usage_errors import Verb


@click.command("upload", cls=Verb)
@click.argument("log_dir", metavar="LOGDIR")
@tier_options
@table_options("partition", "outcome", "rolled", "uploaded", "bytes")
@clock_options
@if_held_option
@clock_is_right_option
@click.option("--dry-run", is_flag=True, help="Only show what would be uploaded, and why not.")
def upload_verb(output: Output, **given: Any) -> None:
    """Upload the rolled segments of a broker's log directory into a tier.

    LOGDIR is one of the folders in a broker's log.dirs, or a copy or snapshot of one. The broker
    may be running. Nothing of LOGDIR is written, renamed or deleted. An empty TIER is begun, in the
    layout that --layout names.

    A rolled segment is uploaded if it is flushed, on all replicas in sync and of no open
    transaction, once remote.copy.lag.ms or remote.copy.lag.bytes allows it. Every checksum is
    compared first. The same bytes get the same id, so nothing is uploaded twice. A topic that
    brokers tier themselves is refused.

    \b
    Examples:
      tierfold upload /var/lib/kafka/data /mnt/archive --topic orders --dry-run
      tierfold upload /var/lib/kafka/data s3://bucket/archive --layout aiven
      tierfold upload /mnt/snapshot /mnt/archive --set remote.copy.lag.ms=86400000
    """
    from tierfold.jobs.api.uploading import upload

    finish(output, upload(progress=output.progress, **given))


@click.command("local-retention", cls=Verb)
@click.argument("log_dir", metavar="LOGDIR")
@tier_options
@table_options("partition", "rolled", "bytes", "may-go", "frees")
@clock_options
def local_retention_verb(output: Output, **given: Any) -> None:
    """Say which segments of a broker's log directory may go under local retention.

    LOGDIR is as of `upload`. It only reports: nothing of LOGDIR or TIER is changed.

    A rolled segment may go once local.retention.ms has passed since its newest record, or once
    local.retention.bytes of log are behind it; both are by default the topic's whole retention. It
    must be in the tier, and each segment waits for those below it. With the policy compact alone it
    also stays until it is compacted there, unless local.retention.compacted.only=false.

    \b
    Examples:
      tierfold local-retention /var/lib/kafka/data /mnt/archive --config tierfold.toml
      tierfold local-retention /mnt/snapshot /mnt/archive --set local.retention.ms=3600000 --json
    """
    from tierfold.jobs.api.uploading import local_retention

    finish(output, local_retention(progress=output.progress, **given))
