"""Divides the partitions of a plan into groups, one per mapped task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

Group: TypeAlias = "dict[str, list[dict[str, Any]]]"

_DUE: Final = "planned"
_LEFT_ALONE: Final = frozenset({"refused", "failed", "unknown"})
_NAMES: Final = ("topic", "partition", "topic_id")


def partition_groups(plan: Mapping[str, Any] | None, groups: int) -> list[Group]:
    """Return at most `groups` groups of similar bytes; `plan`: the document of `tierfold plan`.

    `due` has a group's partitions for `compact`; `every` also has those with nothing to do, for
    `verify` and `vacuum`. Partitions that a person must look at are in neither. Without a document
    there is no group.
    """
    entries = [] if plan is None else plan["partitions"]
    taken = [entry for entry in entries if entry["outcome"] not in _LEFT_ALONE]
    divided: list[list[Mapping[str, Any]]] = [[] for _ in range(min(groups, len(taken)))]
    # Largest first, each into the group that has least so far.
    for entry in sorted(taken, key=lambda entry: (-_due_bytes(entry), _named(entry))):
        min(divided, key=_load).append(entry)
    return [
        {"due": _names(entry for entry in group if _is_due(entry)), "every": _names(group)}
        for group in divided
    ]


def _is_due(entry: Mapping[str, Any]) -> bool:
    return bool(entry["outcome"] == _DUE)


def _due_bytes(entry: Mapping[str, Any]) -> int:
    return int(entry["bytes_in"]) if _is_due(entry) else 0


def _load(group: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """The bytes to compact in a group, then its number of partitions."""
    return sum(map(_due_bytes, group)), len(group)


def _named(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry[name] for name in _NAMES)


def _names(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: entry[name] for name in _NAMES} for entry in entries]
