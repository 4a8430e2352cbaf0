"""What a canary that found something means, where, and what to do."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tierfold.compaction.commits.history import entries
from tierfold.compaction.commits.restore import RestorePlan, restore_plan_of
from tierfold.compaction.model.errors import CorruptLog, TierfoldError
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.verification.canary import (
    CannotRead,
    Difference,
    Differs,
    NotServed,
    Stale,
)
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.timestamps import timestamp_text

CODE: Final = "canary"

_KEPT: Final = "Do not run `vacuum` until then: what consumers read before is still in the tier."


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
                remedy=_remedy(context, row, found, server),
                code=CODE,
            )
        case NotServed(offset=offset, error=error):
            return CorruptLog(
                f"brokers answer {error} to consumers at offset {offset}",
                where=str(row.key),
                remedy="Check that they read from this place (their rsm.config), and their logs."
                f" If they read from another one, copy the objects of segment"
                f" {_segment_at(row, offset)} there: consumers then go on. {_KEPT}",
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


def _remedy(context: RunContext, row: PartitionState, found: Differs, server: str) -> str:
    """What repairs a difference, and until when what was replaced must stay."""
    if found.difference is Difference.OUT_OF_RANGE:
        again = f"tierfold compact {context.tier_uri} --topic {row.key.topic} --publish"
        repair = f"`{again} --bootstrap-server {server}` repairs it: it finds what is not served."
        return f"{repair} {_KEPT}"
    repair = (
        "Publish nothing more for this cluster, and find out if its brokers read from another"
        " place than this one (their rsm.config), or if another tool wrote there."
    )
    before = _before(context, row, found.offset)
    restore = (
        f"If they read from this one, `tierfold restore {context.place(row.key)} --to {before}"
        f" --publish --bootstrap-server {server}` brings back what was there before."
    )
    return f"{repair} {restore} {_KEPT}" if before else f"{repair} {_KEPT}"


def _before(context: RunContext, row: PartitionState, offset: int) -> str:
    """When the newest state was committed that has nothing of the run that wrote the offset.

    Empty: a broker wrote it, or that state cannot be restored. A time, not a run: the first state
    of a partition is often that of the claim of the same run.
    """
    segment = _live_at(row, offset)
    if segment is None or not segment.written_by_run:
        return ""
    with suppress(TierfoldError):
        for entry in entries(context.catalog.history(row.key)):
            state = entry.state
            if all(one.written_by_run != segment.written_by_run for one in state.segments):
                is_restorable = isinstance(restore_plan_of(state, row), RestorePlan)
                return timestamp_text(state.committed_at_ms) if is_restorable else ""
    return ""


def _segment_at(row: PartitionState, offset: int) -> str:
    """The id of the live segment with that offset."""
    segment = _live_at(row, offset)
    return "none" if segment is None else segment.segment_id


def _live_at(row: PartitionState, offset: int) -> Segment | None:
    at = (one for one in row.segments if one.start_offset <= offset <= one.end_offset)
    return next(at, None)
