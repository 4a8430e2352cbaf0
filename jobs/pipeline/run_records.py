"""Records a run: one row per partition and chunk in the catalog's `runs` table.

A partition that was not tried gets a row too, so that repeated refusals are visible.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from tierfold.compaction.model.errors import TierfoldError
from tierfold.jobs.context.request_prices import cost_usd
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.versions import tierfold_version
from tierfold.jobs.pipeline.partition_report import PartitionReport
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import RunRow
from tierfold.storage.clock import now_ms

_log: Final = logging.getLogger(__name__)


def keep_record(
    context: RunContext,
    chunks: Sequence[tuple[int, PartitionReport]],
    started_at_ms: int,
    command: str,
) -> None:
    """Append the outcome of each tried chunk; chunks are numbered from 0.

    If that fails, a warning is logged; the run and its report go on.
    """
    try:
        record_run(context, chunks, started_at_ms, command)
    except TierfoldError as error:
        _log.warning("This run could not be recorded: %s", error)


def record_run(
    context: RunContext,
    chunks: Sequence[tuple[int, PartitionReport]],
    started_at_ms: int,
    command: str,
) -> None:
    """Append the outcome of each chunk; raises TierfoldError.

    A run that claimed nothing creates no catalog: if the catalog was lost, a new folder in its
    place would block the restore of a backup.
    """
    if not context.catalog.exists():
        return
    requests = context.requests
    cost = cost_usd(requests, context.scheme, context.stored.shares)
    of_the_run: dict[str, Any] = {
        "run": context.run,
        "command": command,
        "started_at_ms": started_at_ms,
        "finished_at_ms": now_ms(),
        "now_ms": context.now_ms,
        "tierfold_version": tierfold_version(),
        "requests": {} if cost is None else asdict(requests),
        "cost_usd": None if cost is None else float(cost),
        "stage_seconds": context.seconds.so_far(),
    }
    rows = [RunRow(chunk=chunk, **_of_the_chunk(report), **of_the_run) for chunk, report in chunks]
    RunsTable(context.catalog_uri, context.catalog_options).append(rows)


def _of_the_chunk(report: PartitionReport) -> dict[str, Any]:
    """The columns that differ from chunk to chunk."""
    ratio = report.ratio
    return {
        "topic": report.key.topic,
        "partition": report.key.partition,
        "topic_id": report.key.topic_id,
        "outcome": report.outcome,
        "reason": report.reason,
        "epoch": report.epoch,
        "first_dirty": report.first_dirty or 0,
        "next_offset": report.next_offset or 0,
        "bytes_in": report.bytes_in,
        "bytes_out": report.bytes_out,
        "segments_in": report.segments_in,
        "segments_out": report.segments_out,
        "counts": asdict(report.counts),
        "verified": asdict(report.parts_verified),
        "bytes_read": report.bytes_read,
        "bytes_written": report.bytes_written,
        "dirty_ratio": None if ratio is None else float(ratio.precedence[1]),
        "delay_ms": None if ratio is None else ratio.delay_ms,
    }
