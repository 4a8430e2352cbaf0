"""Rights that are missing, in one error with the commands that grant them together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from tierfold.compaction.model.errors import MissingRight
from tierfold.compaction.model.rights import Resource, Right

_NAMED: Final = 5
"""How many topics a sentence names; it counts the others, and the command has all."""


def lacking(rights: Iterable[Right], server: str) -> MissingRight:
    """The error of these rights, at least one; `server`: the broker that commands name."""
    distinct = tuple(dict.fromkeys(rights))
    grants = _grants(distinct)
    named = "; ".join(_named(operations, places) for operations, places in grants.items())
    commands = " and ".join(
        f"`{_command(operations, places, server)}`" for operations, places in grants.items()
    )
    is_one = len(distinct) == 1
    return MissingRight(
        f"the right {named} is missing" if is_one else f"these rights are missing: {named}",
        where=f"broker {server}",
        remedy=f"Grant {'it' if is_one else 'them'} with {commands}, where NAME is the user that"
        " the brokers know tierfold by, and with an administrator's --command-config.",
        rights=distinct,
    )


_Place = tuple[Resource, str]


def _grants(rights: Iterable[Right]) -> dict[tuple[str, ...], list[_Place]]:
    """By operations, the resources that lack exactly these: kafka-acls.sh grants each on all."""
    lacks: dict[_Place, list[str]] = defaultdict(list)
    for right in rights:
        lacks[right.resource, right.name].append(right.operation)
    grants: dict[tuple[str, ...], list[_Place]] = defaultdict(list)
    for place, operations in lacks.items():
        grants[tuple(operations)].append(place)
    return grants


def _named(operations: Iterable[str], places: list[_Place]) -> str:
    topics = sorted(name for resource, name in places if resource is Resource.TOPIC)
    more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    named = [Resource.CLUSTER.value[0]] * any(one is Resource.CLUSTER for one, _ in places)
    if topics:
        noun = Resource.TOPIC.value[0] + ("s" if len(topics) > 1 else "")
        named.append(f"{noun} {', '.join(topics[:_NAMED])}{more}")
    return f"{' and '.join(operations)} on {' and '.join(named)}"


def _command(operations: Iterable[str], places: list[_Place], server: str) -> str:
    """The command that grants the operations on each place; NAME stands for the user."""
    granted = " ".join(f"--operation {operation}" for operation in operations)
    where = " ".join(
        f"{resource.value[1]} {name}".rstrip()
        for resource, name in sorted(places, key=lambda place: (place[0].name, place[1]))
    )
    return (
        f"kafka-acls.sh --bootstrap-server {server} --add --allow-principal User:NAME"
        f" {granted} {where}"
    )
