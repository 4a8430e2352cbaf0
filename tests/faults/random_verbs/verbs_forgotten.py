"""Which rows `tierfold forget` may empty, and which uploads of a cut-off log must be kept.

    forget_faults    a row was emptied: was the log cut off, what is in the way, what is given up
    needed_faults    an upload is gone that a restore, or the current leader's log, needs
    is_set_apart     an upload is outside the current histories, and none of it is missed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.faults.random_verbs.verbs_expected import (
    Entry,
    effective_row,
    epoch_of,
    log_in_view,
    reached_by,
    refusals,
    retired_of,
    shared_end,
    unknown_to,
)
from tests.faults.random_verbs.verbs_model import REQUIRED, Held, Partition


def is_emptied(before: Entry | None, row: Entry) -> bool:
    """Whether a row was emptied, or other losses are accepted than before."""
    given_up = [] if before is None else before["forgotten"]
    if effective_row(row) is not None:
        return False
    return effective_row(before) is not None or row["forgotten"] != given_up


def forget_faults(
    partition: Partition, before: Entry | None, row: Entry, held: Mapping[str, Held]
) -> Iterator[str]:
    """Yield what is wrong with an emptied row; `held` is the tier before that."""
    if not is_cut_off(partition, before, held):
        yield "its row is forgotten, and no leader has cut its log off"
    for path in sorted(partition.folder.glob("0*")):
        is_ours = path.name[21:43] not in partition.uploads
        if is_ours and path.suffix[1:] in REQUIRED:
            yield f"its row is forgotten, and {path.name} is there, which tierfold wrote"
    log = log_in_view(partition, None, list(held.values()))
    for name in row["forgotten"]:
        if name in held and log.holds(held[name].batches):
            yield f"{held[name].upload.stem} is given up, and is the current leader's"
    if row["cleaner_offsets"] or row["retired"]:
        yield "its row is forgotten, but still has cleaner offsets or retired segments"


def is_cut_off(partition: Partition, row: Entry | None, held: Mapping[str, Held]) -> bool:
    """Whether the tier shows a leader whose log lacks batches of the row or of another log."""
    return any(refusal.is_cut_off for refusal in refusals(partition, row, unknown_to(row, held)))


def needed_faults(
    partition: Partition, row: Entry | None, held: Mapping[str, Held], upload: Held
) -> Iterator[str]:
    """Yield why a deleted upload was still needed, by the row before the deletion."""
    if row is None or not is_cut_off(partition, row, held):
        return
    by_id = {segment["segment_id"]: segment for segment in retired_of(row)}
    retired = by_id.get(upload.upload.segment_id)
    if retired is None:
        log = log_in_view(partition, row, unknown_to(row, held))
        if log.holds(upload.batches) and upload.end_offset > shared_end(partition, row, log):
            yield f"{upload.upload.stem} is gone, and is the current leader's"
    elif retired["deletion_started_at_ms"] is None and any(
        segment["written_by_run"] for segment in row["segments"]
    ):
        yield f"{upload.upload.stem} is gone, and a restore needs it"


def is_set_apart(
    partition: Partition, row: Entry | None, held: Mapping[str, Held], upload: Held
) -> bool:
    """Whether an upload is of no current history, and batches it shares with one are elsewhere."""
    unknown = unknown_to(row, held)
    log = log_in_view(partition, row, unknown)
    is_refused = row is not None and is_cut_off(partition, row, held)
    lives = partition.logs[epoch_of(row)] if is_refused and effective_row(row) is not None else log
    shared = [batch.last_offset for batch in upload.batches if log.holds((batch,))]
    reached = reached_by(partition, row, unknown, log)
    is_of_none = not log.holds(upload.batches) and not lives.holds(upload.batches)
    return is_of_none and not upload.is_torn and max(shared, default=-1) <= reached
