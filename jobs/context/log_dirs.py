"""Log directories of brokers that a run was named (`--log-dir`), which a machine may lack."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.uploading.local_log import bytes_from
from tierfold.storage.log_dirs.log_directory import LogDirectory


def log_dirs_of(given: Sequence[str | Path] | str | Path | None) -> tuple[str, ...]:
    """The absolute paths: an executor works in another folder. None: there are none."""
    named = [given] if isinstance(given, str | Path) else given or ()
    return tuple(str(Path(one).absolute()) for one in named)


def is_log_dir(path: str) -> bool:
    """Whether this machine has a log directory there that can be read."""
    try:
        LogDirectory(Path(path)).check()
    except TierfoldError:
        return False
    return True


def local_bytes(log_dirs: Sequence[str], key: PartitionKey, next_offset: int) -> int:
    """Bytes of the partition's log that the tier lacks; 0: no log directory here tells.

    `next_offset`: the first offset that the tier lacks.
    """
    for directory in (LogDirectory(Path(one)) for one in log_dirs):
        with suppress(OSError, TierfoldError):
            if directory.topic_id(key) == key.topic_id:
                return bytes_from(directory.log_sizes(key), next_offset)
    return 0
