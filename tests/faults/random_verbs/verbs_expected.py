"""What the model expects of a partition.

    effective_row       the row, or None after `tierfold forget`
    refusals            all reasons to refuse the partition
    reached_by          the last offset that complete uploads reach
    stalled             uploads that have waited for a day
    forget_violations   what is wrong with an emptied row: its log was not truncated, for example
    needed_violations   why a deleted upload was needed: by a restore, or by the current leader
    is_set_apart        whether an upload is outside the current histories, which lack none of it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.faults.random_verbs.verbs_model import REQUIRED, Held, Log, Partition

Entry: TypeAlias = dict[str, Any]
"""A row of the catalog, or an entry of `status --json`."""

STALL_MS: Final = 24 * 3_600_000


def effective_row(row: Entry | None) -> Entry | None:
    """Return the row; None: there is none, or `tierfold forget` has emptied it."""
    return row if row is not None and (row["segments"] or row["lineage"]) else None


def unknown_to(row: Entry | None, held: Mapping[str, Held]) -> list[Held]:
    """Return the uploads that the row does not name."""
    live = (row or {}).get("segments", ())
    named = {segment["segment_id"] for segment in (*live, *retired_of(row))}
    return [upload for name, upload in held.items() if name not in named]


def epoch_of(row: Entry | None) -> int:
    """Return the row's newest leader epoch; −1: it has none."""
    return max((entry["epoch"] for entry in (row or {}).get("lineage", ())), default=-1)


def end_of(segments: Sequence[Entry]) -> int:
    """Return the last live offset; −1: there are no live segments."""
    return int(segments[-1]["end_offset"]) if segments else -1


def retired_of(row: Entry | None) -> list[Entry]:
    """Return the retired segments, each with its times of retirement and deletion."""
    return [
        {**entry["segment"], **{k: v for k, v in entry.items() if k != "segment"}}
        for entry in (row or {}).get("retired", ())
    ]


def retired_entry(row: Entry | None, upload: Held) -> Entry | None:
    """Return the retired segment that this upload is; None: the row has not retired it."""
    ids = {segment["segment_id"]: segment for segment in retired_of(row)}
    return ids.get(upload.upload.segment_id)


def gives(partition: Partition, row: Entry | None, held: Held) -> bool:
    """Whether the row's segments give each record of an upload, or a newer one of its key."""
    if row is None or not row["segments"] or held.is_torn:
        return False
    is_within = held.end_offset <= end_of(row["segments"])
    return is_within and partition.logs[epoch_of(row)].holds(held.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a partition may be refused."""

    what: str
    is_hard: bool = True
    """It must be refused; otherwise tierfold would serve records that are not in the log."""
    is_truncated: bool = False
    """An unclean election truncated the log; `tierfold forget` accepts the loss."""


def refusals(
    partition: Partition, row: Entry | None, unknown: Sequence[Held]
) -> Iterator[Reason]:
    """Yield all reasons to refuse a partition that has no damaged objects."""
    log = log_in_view(partition, row, unknown)
    if effective_row(row) is not None:
        if shared_end(partition, row, log) < end_of(row["segments"]):
            what = f"epoch {log.epoch} has other records at live offsets"
            yield Reason(what=what, is_truncated=True)
        elif any(path in partition.moved_away for path in live_logs(partition, row)):
            yield Reason(what="a live segment was moved away")
        return
    if any(not segment.is_complete for segment in unknown):
        yield Reason(what="an upload is incomplete without a row")
    reached = reached_by(partition, None, unknown, log)
    complete = [segment for segment in unknown if segment.is_complete]
    if any(segment.end_offset > reached and log.holds(segment.batches) for segment in complete):
        yield Reason(what="offsets are missing without a row")
    start = min((h.upload.start_offset for h in complete if log.holds(h.batches)), default=0)
    given_up = () if row is None else row["forgotten"]
    for segment in complete:
        is_alone = segment.upload.start_offset < start or segment.end_offset > reached
        is_new = segment.upload.segment_id not in given_up
        if is_new and is_alone and not log.holds(segment.batches):
            what = "only another history holds some offsets, without a row"
            yield Reason(what=what, is_truncated=True)


def stalled(
    partition: Partition, row: Entry | None, entry: Entry, held: Mapping[str, Held], now_ms: int
) -> list[str]:
    """Return the uploads that have waited for a day for missing offsets below them."""
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
    """Return the log of the highest epoch that the row, a checkpoint or a batch shows.

    A batch shows only that its epoch begins at or below it, so the older log below it still counts.
    """
    epochs = [segment.checkpoint_epoch for segment in unknown]
    log = partition.logs[max(epoch_of(row), *epochs, 0)]
    for batch in sorted(
        (b for segment in unknown for b in segment.epoch_batches), key=lambda b: b.base_offset
    ):
        if batch.epoch > log.epoch:
            own = partition.logs[batch.epoch].batches
            start = batch.base_offset
            below = [older for older in log.batches if older.last_offset < start]
            log = log.successor(batch.epoch, start)
            log.batches = below + [newer for newer in own if newer.base_offset >= start]
    return log


def reached_by(
    partition: Partition, row: Entry | None, unknown: Sequence[Held], log: Log
) -> int:
    """Return the last offset that complete uploads beyond the live end reach without a gap."""
    own = [segment for segment in unknown if segment.is_complete and log.holds(segment.batches)]
    if effective_row(row) is None:
        reached = min((segment.upload.start_offset for segment in own), default=0) - 1
    else:
        reached = shared_end(partition, row, log)
    for segment in sorted(own, key=lambda segment: segment.upload.start_offset):
        if segment.upload.start_offset <= reached + 1:
            reached = max(reached, segment.end_offset)
    return reached


def shared_end(partition: Partition, row: Entry, log: Log) -> int:
    """Return the end offset of the last live segment up to which the row's log equals this one."""
    live_log = partition.logs[epoch_of(row)]
    ends = [segment["end_offset"] for segment in row["segments"]]
    shared = [end for end in ends if log.agrees_with(live_log, end + 1)]
    return shared[-1] if shared else int(row["log_start_offset"]) - 1


def live_logs(partition: Partition, row: Entry) -> list[Path]:
    """Return the logs of the live segments, in offset order."""
    return [log_path(partition, segment) for segment in row["segments"]]


def log_path(partition: Partition, segment: Entry) -> Path:
    """Return the path of the `.log` of a segment in the row."""
    own_start = segment["start_offset"] - (segment["skipped_offsets"] or 0)
    return partition.folder / f"{own_start:020d}-{segment['segment_id']}.log"


def is_emptied(before: Entry | None, row: Entry) -> bool:
    """Whether a step emptied the row or accepted another loss."""
    given_up = [] if before is None else before["forgotten"]
    if effective_row(row) is not None:
        return False
    return effective_row(before) is not None or row["forgotten"] != given_up


def forget_violations(
    partition: Partition, before: Entry | None, row: Entry, held: Mapping[str, Held]
) -> Iterator[str]:
    """Yield what is wrong with an emptied row; `held` is what the tier held before."""
    if not is_truncated(partition, before, held):
        yield "its row is forgotten, but no leader has truncated its log"
    for path in sorted(partition.folder.glob("0*")):
        is_ours = path.name[21:43] not in partition.uploads
        if is_ours and path.suffix[1:] in REQUIRED:
            yield f"its row is forgotten, but {path.name}, which tierfold wrote, is still there"
    log = log_in_view(partition, None, list(held.values()))
    for name in row["forgotten"]:
        if name in held and log.holds(held[name].batches):
            yield f"{held[name].upload.stem} is given up, but is part of the current leader's log"
    if row["cleaner_offsets"] or row["retired"]:
        yield "its row is forgotten, but still has cleaner offsets or retired segments"


def is_truncated(partition: Partition, row: Entry | None, held: Mapping[str, Held]) -> bool:
    """Whether the tier shows a leader whose log lacks batches of the row or of another history."""
    return any(refusal.is_truncated for refusal in refusals(partition, row, unknown_to(row, held)))


def needed_violations(
    partition: Partition, row: Entry | None, held: Mapping[str, Held], upload: Held
) -> Iterator[str]:
    """Yield why a deleted upload was needed; `row` is the one before the deletion."""
    if row is None or not is_truncated(partition, row, held):
        return
    retired = retired_entry(row, upload)
    if retired is None:
        log = log_in_view(partition, row, unknown_to(row, held))
        if log.holds(upload.batches) and upload.end_offset > shared_end(partition, row, log):
            yield f"{upload.upload.stem} is gone, but is part of the current leader's log"
    elif retired["deletion_started_at_ms"] is None and any(
        segment["written_by_run"] for segment in row["segments"]
    ):
        yield f"{upload.upload.stem} is gone, but a restore needs it"


def is_set_apart(
    partition: Partition, row: Entry | None, held: Mapping[str, Held], upload: Held
) -> bool:
    """Whether an upload is of no current history, and others have the batches that it shares."""
    unknown = unknown_to(row, held)
    log = log_in_view(partition, row, unknown)
    is_refused = row is not None and is_truncated(partition, row, held)
    has_own_log = is_refused and effective_row(row) is not None
    live_log = partition.logs[epoch_of(row)] if has_own_log else log
    shared = [batch.last_offset for batch in upload.batches if log.holds((batch,))]
    reached = reached_by(partition, row, unknown, log)
    is_of_none = not log.holds(upload.batches) and not live_log.holds(upload.batches)
    return is_of_none and not upload.is_torn and max(shared, default=-1) <= reached
