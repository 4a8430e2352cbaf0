"""The checkpoints of a log directory: an offset per partition.

Rule: Kafka `OffsetCheckpointFile`. Text, one item a line: version 0, the number of entries, then
`<topic> <partition> <offset>` per entry. A broker replaces the file as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.units import OFFSET_MAX
from tierfold.storage.kafka.topic_names import TOPIC_PATTERN

OffsetsByName: TypeAlias = Mapping[tuple[str, int], int]
"""The offset of each partition, by topic and number."""

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"

_ENTRY: Final = re.compile(rf"({TOPIC_PATTERN}) ([0-9]{{1,10}}) ([0-9]{{1,19}})")


def read_offset_checkpoint(file: Path) -> OffsetsByName:
    """The offsets in a checkpoint; none if there is no such file, or an empty one.

    A broker begins with an empty one. Raises CorruptLog and OSError.
    """
    try:
        text = file.read_bytes().decode("ascii", errors="replace")
    except FileNotFoundError:
        return {}
    if not text:
        return {}
    lines = text.splitlines()
    entries = [_ENTRY.fullmatch(line) for line in lines[2:]]
    if lines[:2] != ["0", str(len(entries))]:
        raise _corrupt(f"it begins with {lines[:2]}, and has {len(entries)} entries", file)
    found: dict[tuple[str, int], int] = {}
    for line, entry in zip(lines[2:], entries, strict=True):
        if entry is None or int(entry[3]) > OFFSET_MAX:
            raise _corrupt(f"the entry {line!r} is not `topic partition offset`", file)
        found[entry[1], int(entry[2])] = int(entry[3])
    return found


def _corrupt(what: str, file: Path) -> CorruptLog:
    return CorruptLog(
        f"the checkpoint is damaged: {what}",
        where=str(file),
        remedy="Its broker writes it again every minute while it runs, and as it stops. Of a copy,"
        " copy the file again.",
    )
