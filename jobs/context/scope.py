"""Selects partitions by patterns, by a list, or one partition by its name.

A name is `orders-0`, or the partition's folder, which also contains the topic's id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.plan_files import Approval


class Listed(NamedTuple):
    """A partition in a list, as `jobs.context.partition_lists` reads it."""

    topic: str
    partition: int
    topic_id: str = ""
    """Empty: the topic of that name, whatever its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The partitions that a verb works on."""

    topics: tuple[str, ...] = ("*",)
    """Shell patterns; a topic must match one of them."""
    partitions: tuple[str, ...] = ("*",)
    """Shell patterns for the partition's number."""
    listed: frozenset[Listed] | None = None
    """Only these, if the patterns match them, too; None: there is no list."""
    first_dirty: int | None = None
    """The start of the dirty region, instead of the cleaner offset."""
    approval: Approval | None = None
    """The plan that is carried out: only its partitions, of which the tier may lack some."""

    @property
    def approved_keys(self) -> frozenset[PartitionKey]:
        """The partitions of the plan that are in the list, if there is one."""
        keys = frozenset(() if self.approval is None else self.approval.partitions)
        listed = self.listed
        return keys if listed is None else frozenset(k for k in keys if listed & {*_entries_of(k)})

    def chosen(self, among: Iterable[PartitionKey]) -> list[PartitionKey]:
        """Return the partitions in scope, in their order.

        A pattern may match nothing. Raises BadSettings for a name without wildcards that matches
        nothing, which is probably mistyped, and for a list with other partitions, which is probably
        of another tier.
        """
        keys = list(among)
        if self.approval is not None:
            approved = self.approved_keys
            return [key for key in keys if key in approved]
        if self.listed is not None:
            keys = _listed(keys, self.listed)
            if not keys:
                return []
        _refuse_unknown("topic", self.topics, {key.topic for key in keys})
        keys = [key for key in keys if _matches(key.topic, self.topics)]
        if keys:
            _refuse_unknown("partition", self.partitions, {str(key.partition) for key in keys})
        return [key for key in keys if _matches(str(key.partition), self.partitions)]


EVERYTHING: Final = Scope()

_UNKNOWN: Final = {
    "topic": "no topic has that name",
    "partition": "no partition of the chosen topics has that number",
    "holes-are-holes": "no partition has that name",
}


def _listed(keys: Iterable[PartitionKey], listed: frozenset[Listed]) -> list[PartitionKey]:
    """Return the partitions in the list; raises BadSettings if the tier lacks one of them."""
    found = [(key, one) for key in keys for one in _entries_of(key) if one in listed]
    missing = listed - {one for _, one in found}
    if missing:
        first = min(missing)
        with_id = f" with the id {first.topic_id}" if first.topic_id else ""
        raise BadSettings(
            f"the tier has no partition {first.topic}-{first.partition}{with_id}",
            where="the list of partitions",
            remedy="It may be the list of another tier, or the topic was deleted: run `tierfold"
            " plan --json` again.",
        )
    return list(dict.fromkeys(key for key, _ in found))


def _entries_of(key: PartitionKey) -> tuple[Listed, Listed]:
    """The entries that name this partition."""
    return Listed(key.topic, key.partition, key.topic_id), Listed(key.topic, key.partition)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _refuse_unknown(what: str, patterns: Iterable[str], names: set[str]) -> None:
    for pattern in patterns:
        if pattern not in names and set(pattern).isdisjoint("*?["):
            raise BadSettings(
                _UNKNOWN[what],
                where=f"{what} {pattern}",
                remedy=nearest(pattern, names),
            )


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a sentence with the closest name, or where to find all names."""
    found = get_close_matches(name, names, n=1)
    return f"Did you mean {found[0]}?" if found else "`tierfold status TIER` lists all partitions."


def named(among: Iterable[PartitionKey], name: str, *, where: str) -> PartitionKey:
    """Return the partition with that name.

    Raises BadSettings if none or several have it; `where` is the argument that held the name.
    """
    keys = list(among)
    found = [key for key in keys if name in {str(key), _folder(key)}]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadSettings(
            f"{name!r} is a partition of {len(found)} topics that had this name",
            where=where,
            remedy=f"Choose one by its id: {', '.join(map(_folder, found))}.",
        )
    raise BadSettings(
        f"no partition has the name {name!r}",
        where=where,
        remedy=nearest(name, map(str, keys)),
    )


def are_holes_declared(patterns: Iterable[str], key: PartitionKey) -> bool:
    """Whether one of the patterns of `--holes-are-holes` names the partition."""
    return _matches(str(key), patterns) or _matches(_folder(key), patterns)


def check_hole_patterns(patterns: Iterable[str], among: Iterable[PartitionKey]) -> None:
    """Raise BadSettings for a name of `--holes-are-holes` without wildcards that no partition has.

    A mistyped name would leave the partition refused, and one of another tier says nothing.
    """
    names = {name for key in among for name in (str(key), _folder(key))}
    _refuse_unknown("holes-are-holes", patterns, names)


def _folder(key: PartitionKey) -> str:
    return f"{key}-{key.topic_id}"
