"""The leader epoch checkpoint: all leader epochs from the log's start to the segment's end.

Rule: Kafka `LeaderEpochCheckpointFile` and `CheckpointFile`. Text, one item a line: version 0, the
number of entries, then `<epoch> <start offset>` per entry; both ascend.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tierfold.compaction.model.errors import CorruptLog, from_backup, of_unknown_version
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.compaction.model.units import LEADER_EPOCH_MAX, OFFSET_MAX
from tierfold.storage.tiers.object_store import Bytes

_VERSION: Final = "0"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_ENTRY: Final = re.compile(r"([0-9]{1,10})[ \t]+([0-9]{1,19})")


def read_leader_epoch_checkpoint(data: Bytes, where: str) -> tuple[LeaderEpoch, ...]:
    """The epochs in a whole checkpoint; raises CorruptLog."""
    # As in Java: Python's `splitlines` would also split at other control characters.
    lines = _LINE_END.split(bytes(data).decode("ascii", errors="replace"))
    if lines[0] != _VERSION and _NUMBER.fullmatch(lines[0]):
        raise CorruptLog(
            f"the leader epoch checkpoint has version {lines[0]}, and tierfold knows only"
            f" {_VERSION}",
            where=where,
            remedy=of_unknown_version("it"),
        )
    if len(lines) < 2 or lines[0] != _VERSION or not _NUMBER.fullmatch(lines[1]):
        raise _corrupt(f"it begins with {lines[:2]}, not with version 0 and a count", where)
    rows = [line for line in lines[2:] if line.strip(" \t")]
    if len(rows) != int(lines[1]):
        raise _corrupt(f"it announces {lines[1]} entries and holds {len(rows)}", where)
    found: list[LeaderEpoch] = []
    for number, row in enumerate(rows):
        fields = _ENTRY.fullmatch(row)
        if fields is None:
            raise _corrupt(f"entry {number} reads {row!r}, not `epoch offset`", where)
        entry = LeaderEpoch(epoch=int(fields[1]), start_offset=int(fields[2]))
        before = found[-1] if found else LeaderEpoch(epoch=-1, start_offset=-1)
        if entry.epoch <= before.epoch or entry.start_offset <= before.start_offset:
            raise _corrupt(f"entry {number} ({row}) is not above the one before", where)
        if entry.epoch > LEADER_EPOCH_MAX or entry.start_offset > OFFSET_MAX:
            raise _corrupt(f"entry {number} ({row}) is larger than Kafka allows", where)
        found.append(entry)
    return tuple(found)


def write_leader_epoch_checkpoint(lineage: Sequence[LeaderEpoch]) -> bytes:
    """The bytes of a checkpoint, as Kafka writes them."""
    lines = [_VERSION, str(len(lineage))]
    lines += [f"{entry.epoch} {entry.start_offset}" for entry in lineage]
    return ("\n".join(lines) + "\n").encode("ascii")


def _corrupt(what: str, where: str) -> CorruptLog:
    return CorruptLog(
        f"the leader epoch checkpoint is damaged: {what}", where=where, remedy=from_backup("it")
    )
