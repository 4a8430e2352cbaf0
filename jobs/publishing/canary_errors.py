"""What a canary that found something means, where, and what to do."""

from __future__ import annotations

from typing import Final

from tierfold.compaction.model.errors import CorruptLog, TierfoldError
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.verification.canary import CannotRead, Differs, NotServed, Stale
from tierfold.jobs.context.run_context import RunContext

CODE: Final = "canary"


def canary_error(
    context: RunContext,
    row: PartitionState,
    found: Differs | NotServed | Stale | CannotRead,
    server: str,
) -> TierfoldError:
    """The error of a canary's result; `server`: the broker that commands name."""
    match found:
        case Differs(offset=offset, difference=difference):
            return CorruptLog(
                f"consumers do not get what the tier has at offset {offset}: {difference}",
                where=str(row.key),
                remedy="Publish nothing more for this cluster. "
                f"`{_restore(context, row, offset, server)}` brings back what consumers read"
                " before.",
                code=CODE,
            )
        case NotServed(offset=offset, error=error):
            return CorruptLog(
                f"brokers answer {error} to consumers at offset {offset}",
                where=str(row.key),
                remedy="Check that they read from this place (their rsm.config), and their logs."
                f" If they read from another one, copy the objects of segment"
                f" {_segment_at(row, offset)} there: consumers then go on. Otherwise"
                f" `{_restore(context, row, offset, server)}` brings back what they read before.",
                code=CODE,
            )
        case Stale(offset=offset):
            return CorruptLog(
                f"brokers still give the record at offset {offset}, which was dropped, although"
                " their local copies should be gone",
                where=str(row.key),
                remedy="Nothing of this partition is deleted. Check that local.retention.ms is as"
                " long as its brokers say, and in their logs whether one no longer follows"
                " __remote_log_metadata; restart that one.",
                code=CODE,
            )
        case CannotRead(error=error):
            return error


def _segment_at(row: PartitionState, offset: int) -> str:
    """The id of the live segment with that offset."""
    at = (one.segment_id for one in row.segments if one.start_offset <= offset <= one.end_offset)
    return next(at, "none")


def _restore(context: RunContext, row: PartitionState, offset: int, server: str) -> str:
    """The command that restores the state before what is at the offset was replaced."""
    replaced_ms = [
        entry.retired_at_ms
        for entry in row.retired
        if entry.segment.start_offset <= offset <= entry.segment.end_offset
    ]
    before_ms = max(replaced_ms, default=row.committed_at_ms) - 1
    return (
        f"tierfold restore {context.place(row.key)} --to {before_ms} --bootstrap-server {server}"
    )
