"""What the model expects of a partition: how far it reaches, and why it may be refused.

    said_by     what a row says of the log: nothing any more, after `tierfold forget`
    refusals    all reasons to refuse the partition
    reached_by  how far what can be taken goes
    stalled     what has waited for too long
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.faults.random_verbs.verbs_model import Held, Log, Partition

Entry: TypeAlias = dict[str, Any]
"""A row of the catalog, or an entry of `status --json`."""

STALL_MS: Final = 24 * 3_600_000


def said_by(row: Entry | None) -> Entry | None:
    """The row; None: there is none, or somebody took back all that it said."""
    return row if row is not None and (row["segments"] or row["lineage"]) else None


def unknown_to(row: Entry | None, held: Mapping[str, Held]) -> list[Held]:
    """The uploads that the row does not name."""
    named = {each["segment_id"] for each in (*(row or {}).get("segments", ()), *retired_of(row))}
    return [each for name, each in held.items() if name not in named]


def epoch_of(row: Entry | None) -> int:
    """The newest leader epoch that the row knows; −1: none."""
    return max((each["epoch"] for each in (row or {}).get("lineage", ())), default=-1)


def end_of(segments: Sequence[Entry]) -> int:
    """The last live offset; −1: nothing lives."""
    return int(segments[-1]["end_offset"]) if segments else -1


def retired_of(row: Entry | None) -> list[Entry]:
    """The retired segments, each with when that was."""
    return [
        {**each["segment"], **{k: v for k, v in each.items() if k != "segment"}}
        for each in (row or {}).get("retired", ())
    ]


def gives(partition: Partition, row: Entry | None, held: Held) -> bool:
    """The row's segments give every record that an upload holds, or a newer one of its key."""
    if row is None or not row["segments"] or held.is_torn:
        return False
    is_within = held.end_offset <= end_of(row["segments"])
    return is_within and partition.logs[epoch_of(row)].holds(held.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a partition may be refused."""

    what: str
    is_hard: bool = True
    """It must be: what would be served, or taken, is not the log."""
    is_cut_off: bool = False
    """An unclean election did it, and `tierfold forget` accepts the loss."""


def refusals(
    partition: Partition, row: Entry | None, unknown: Sequence[Held]
) -> Iterator[Reason]:
    """All reasons to refuse a partition that nobody has harmed."""
    log = log_in_view(partition, row, unknown)
    if said_by(row) is not None:
        if shared_end(partition, row, log) < end_of(row["segments"]):
            what = f"epoch {log.epoch} has other records at live offsets"
            yield Reason(what=what, is_cut_off=True)
        elif any(path in partition.moved_away for path in live_logs(partition, row)):
            yield Reason(what="somebody moved a live segment away")
        return
    if any(not segment.is_complete for segment in unknown):
        yield Reason(what="an upload is incomplete on first sight")
    reached = reached_by(partition, None, unknown, log)
    complete = [segment for segment in unknown if segment.is_complete]
    if any(segment.end_offset > reached and log.holds(segment.batches) for segment in complete):
        yield Reason(what="offsets are missing on first sight")
    start = min((h.upload.start_offset for h in complete if log.holds(h.batches)), default=0)
    given_up = () if row is None else row["forgotten"]
    for each in complete:
        is_alone = each.upload.start_offset < start or each.end_offset > reached
        is_new = each.upload.segment_id not in given_up
        if is_new and is_alone and not log.holds(each.batches):
            what = "what another history alone holds is there on first sight"
            yield Reason(what=what, is_cut_off=True)


def stalled(
    partition: Partition, row: Entry | None, entry: Entry, held: Mapping[str, Held], now_ms: int
) -> list[str]:
    """Uploads that have waited for more than a day for what is missing below them."""
    unknown = [segment for segment in unknown_to(row, held) if segment.has_log]
    log = log_in_view(partition, row, unknown)
    end = end_of(entry["segments"])
    return [
        f"{segment.upload.stem} ({segment.upload.start_offset} to {segment.end_offset})"
        for segment in unknown
        if now_ms - segment.modified_ms >= STALL_MS
        and log.holds(segment.batches)
        and max(segment.end_offset, segment.upload.start_offset if segment.is_torn else -1) > end
    ]


def log_in_view(partition: Partition, row: Entry | None, unknown: Sequence[Held]) -> Log:
    """The log of the highest epoch that a checkpoint, the row or a batch tells of.

    A batch tells only that its epoch begins there or below, so what the log held below counts.
    """
    told = [segment.told_epoch for segment in unknown]
    log = partition.logs[max(epoch_of(row), *told, 0)]
    for batch in sorted(
        (b for segment in unknown for b in segment.telling), key=lambda b: b.base_offset
    ):
        if batch.epoch > log.epoch:
            own = partition.logs[batch.epoch].batches
            below = [each for each in log.batches if each.last_offset < batch.base_offset]
            log = log.handed_on(batch.epoch, batch.base_offset)
            log.batches = below + [each for each in own if each.base_offset >= batch.base_offset]
    return log


def reached_by(
    partition: Partition, row: Entry | None, unknown: Sequence[Held], log: Log
) -> int:
    """How far complete uploads of this log reach, from what lives of it on, without a gap."""
    own = [segment for segment in unknown if segment.is_complete and log.holds(segment.batches)]
    if said_by(row) is None:
        reached = min((segment.upload.start_offset for segment in own), default=0) - 1
    else:
        reached = shared_end(partition, row, log)
    for each in sorted(own, key=lambda one: one.upload.start_offset):
        if each.upload.start_offset <= reached + 1:
            reached = max(reached, each.end_offset)
    return reached


def shared_end(partition: Partition, row: Entry, log: Log) -> int:
    """The end of the last live segment up to which the live log is this one."""
    lives = partition.logs[epoch_of(row)]
    ends = [segment["end_offset"] for segment in row["segments"]]
    shared = [end for end in ends if log.agrees_with(lives, end + 1)]
    return shared[-1] if shared else int(row["log_start_offset"]) - 1


def live_logs(partition: Partition, row: Entry) -> list[Path]:
    """Of the live segments, in offset order."""
    return [log_path(partition, segment) for segment in row["segments"]]


def log_path(partition: Partition, segment: Entry) -> Path:
    """Of a segment that the row names."""
    own_start = segment["start_offset"] - (segment["skipped_offsets"] or 0)
    return partition.folder / f"{own_start:020d}-{segment['segment_id']}.log"
