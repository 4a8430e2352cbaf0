"""The record of a run: one row per partition and chunk in the catalog's `runs` table.

A partition of which nothing was tried has one row, too: what is refused night after night shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from tierfold.compaction.model.errors import TierfoldError
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.versions import tierfold_version
from tierfold.jobs.pipeline.partition_report import NOT_BEGUN, PartitionReport
from tierfold.storage.catalog.runs_table import RunRow, RunsTable
from tierfold.storage.clock import now_ms


def keep_record(
    context: RunContext,
    chunks: Sequence[tuple[int, PartitionReport]],
    started_at_ms: int,
    command: str,
    console: Console,
) -> None:
    """Append what became of each chunk, numbered from 0, that was tried.

    The record is no part of the run: where it cannot be kept, `console` says so, and the outcomes
    are told as well.
    """
    try:
        record_run(context, chunks, started_at_ms, command)
    except TierfoldError as error:
        console.print(Text(f"The run's record could not be kept: {error}", style="yellow"))


def record_run(
    context: RunContext,
    chunks: Sequence[tuple[int, PartitionReport]],
    started_at_ms: int,
    command: str,
) -> None:
    """Append what became of each chunk; raises TierfoldError.

    What began nothing makes no catalog: where one is missing, a new folder in its place would be
    in the way of the backup that is brought back.
    """
    if all(chunk.outcome in NOT_BEGUN for _, chunk in chunks) and not context.catalog.exists():
        return
    finished_at_ms = now_ms()
    RunsTable(context.catalog_uri).append(
        [
            RunRow(
                run=context.run,
                topic=each.key.topic,
                partition=each.key.partition,
                topic_id=each.key.topic_id,
                chunk=chunk,
                command=command,
                outcome=each.outcome,
                reason=each.reason,
                epoch=each.epoch,
                first_dirty=each.first_dirty or 0,
                next_offset=each.next_offset or 0,
                started_at_ms=started_at_ms,
                finished_at_ms=finished_at_ms,
                bytes_in=each.bytes_in,
                bytes_out=each.bytes_out,
                segments_in=each.segments_in,
                segments_out=each.segments_out,
                counts=asdict(each.counts),
                now_ms=context.now_ms,
                tierfold_version=tierfold_version(),
            )
            for chunk, each in chunks
        ]
    )
