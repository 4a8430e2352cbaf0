"""What `tierfold forget` may take back, and what nobody may delete of a log that was cut off.

    forget_faults    a row was emptied: was the log cut off, what is in the way, what is given up
    needed_faults    an upload is gone that the way out, or the current leader's log, needs
    is_set_apart     an upload is of no log that counts, and none of it is missed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.faults.random_verbs.verbs_expected import (
    Entry,
    epoch_of,
    log_in_view,
    reached_by,
    refusals,
    retired_of,
    said_by,
    shared_end,
    unknown_to,
)
from tests.faults.random_verbs.verbs_model import REQUIRED, Held, Partition


def is_emptied(before: Entry | None, row: Entry) -> bool:
    """A row says nothing any more, or other losses are accepted than before."""
    given_up = [] if before is None else before["forgotten"]
    return said_by(row) is None and (said_by(before) is not None or row["forgotten"] != given_up)


def forget_faults(
    partition: Partition, before: Entry | None, row: Entry, held: Mapping[str, Held]
) -> Iterator[str]:
    """What is wrong with a row that was emptied; `held` is what was in the tier before that."""
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
        yield "its row is forgotten, and says what was clean, or is retired"


def is_cut_off(partition: Partition, row: Entry | None, held: Mapping[str, Held]) -> bool:
    """The tier tells of a leader whose log lacks something that the row, or another log, has."""
    return any(refusal.is_cut_off for refusal in refusals(partition, row, unknown_to(row, held)))


def needed_faults(
    partition: Partition, row: Entry | None, held: Mapping[str, Held], each: Held
) -> Iterator[str]:
    """Why an upload may not go that was there, beside this row, before it went."""
    if row is None or not is_cut_off(partition, row, held):
        return
    retired = {one["segment_id"]: one for one in retired_of(row)}.get(each.upload.segment_id)
    if retired is None:
        log = log_in_view(partition, row, unknown_to(row, held))
        if log.holds(each.batches) and each.end_offset > shared_end(partition, row, log):
            yield f"{each.upload.stem} is gone, and is the current leader's"
    elif retired["deletion_started_at_ms"] is None and any(
        segment["written_by_run"] for segment in row["segments"]
    ):
        yield f"{each.upload.stem} is gone, and is what a restore would go back to"


def is_set_apart(
    partition: Partition, row: Entry | None, held: Mapping[str, Held], each: Held
) -> bool:
    """An upload is part of no log that counts, and what it shares with one is elsewhere, too."""
    unknown = unknown_to(row, held)
    log = log_in_view(partition, row, unknown)
    is_refused = row is not None and is_cut_off(partition, row, held)
    lives = partition.logs[epoch_of(row)] if is_refused and said_by(row) is not None else log
    shared = [one.last_offset for one in each.batches if log.holds((one,))]
    reached = reached_by(partition, row, unknown, log)
    is_of_none = not log.holds(each.batches) and not lives.holds(each.batches)
    return is_of_none and not each.is_torn and max(shared, default=-1) <= reached
