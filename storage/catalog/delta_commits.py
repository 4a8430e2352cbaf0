"""Reads one commit file of a Delta table, and checks that it is whole after a power cut.

Each line is an action. The first one names the operation and how many files it adds and removes, so
a file that ends before its last action is detected, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.catalog.table_files import TableFiles

REPAIR: Final = (
    "See `After a power cut` in docs/operations.md: a newest commit that was never reported is"
    " removed, anything else is restored from a backup of the catalog."
)

DATA_FILE: Final = re.compile(r"(?:[a-z_]+=[A-Za-z0-9_-]+/)?part-[A-Za-z0-9._-]+\.parquet")
"""How delta-rs names data files, in the folder of the table or of a Delta partition. It would read
a URL, and a name with `..` in any encoding, outside the table."""

EMPTY_COMMIT: Final = "the commit file is empty"

_COUNTED: Final = {"add": "num_added_files", "remove": "num_removed_files"}
"""The metric that counts an action."""

Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeltaCommit:
    """A commit and the files it adds."""

    version: int
    added: tuple[str, ...]
    """Its new data files, relative to the table's folder."""


def read_commit(files: TableFiles, name: str) -> DeltaCommit:
    """The commit in a file named by its version; raises OSError and CorruptLog."""
    data = files.read(name)
    corruption = commit_violation(data)
    if corruption:
        raise CorruptLog(corruption, where=files.where(name), remedy=REPAIR)
    added = [action["add"]["path"] for action in _actions(data) if "add" in action]
    return DeltaCommit(version=int(PurePosixPath(name).stem), added=tuple(added))


def name_violation(name: str) -> str:
    """Why a data file of that name, as the log has it, is not read; empty: it is."""
    return "" if DATA_FILE.fullmatch(name) else f"it names no data file of the table: {name!r}"


def commit_violation(data: bytes) -> str:
    """Why a commit file is not read: not whole, or it leads elsewhere; empty: it is."""
    if not data:
        return EMPTY_COMMIT
    try:
        actions = _actions(data)
        missing = _missing(actions)
    except (TypeError, ValueError, RecursionError):
        return f"the commit file is cut short or is not a commit: it has {len(data)} bytes"
    if missing:
        return f"the commit file is cut short: {', '.join(missing)}"
    return next(filter(None, map(_added_violation, actions)), "")


def _added_violation(action: Action) -> str:
    """Why the file that an action adds is not read; delta-rs opens a deletion vector anywhere."""
    if "add" not in action:
        return ""
    if action["add"].get("deletionVector") is not None:
        return "it names a deletion vector, and tierfold's tables have none"
    return name_violation(action["add"]["path"])


def _actions(data: bytes) -> list[Action]:
    """The actions, one to a line; raises ValueError and TypeError: another shape."""
    actions = [json.loads(line) for line in data.splitlines() if line.strip()]
    for action in actions:
        if not isinstance(action, dict):
            raise TypeError("an action is an object")
        added = action.get("add", {"path": ""})
        if not isinstance(added, dict) or not isinstance(added.get("path"), str):
            raise TypeError("an added file has a path")
    return actions


def _missing(actions: Sequence[Action]) -> list[str]:
    """A clause for each kind of action that is missing, by the counts in the first action.

    Raises TypeError if that has another shape than Delta's.
    """
    info = actions[0].get("commitInfo", {}) if actions else {}
    metrics = info.get("operationMetrics", {}) if isinstance(info, dict) else None
    if not isinstance(metrics, dict):
        raise TypeError("the metrics of a commit are an object")
    found = [name for action in actions for name in action]
    missing = []
    for action, metric in _COUNTED.items():
        promised = metrics.get(metric)
        if isinstance(promised, int) and promised != found.count(action):
            missing.append(f"{found.count(action)} of {promised} `{action}` actions are there")
    return missing
