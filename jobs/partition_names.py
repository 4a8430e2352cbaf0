"""Which partition a person means: `orders-0`, or its folder, which names the topic's id too."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from compaction.errors import BadSettings
from compaction.segments import PartitionKey


def named(among: Iterable[PartitionKey], name: str, *, where: str) -> PartitionKey:
    """The one of the partitions that has that name.

    Raises BadSettings where it is none, or several; `where` is what the name was given to.
    """
    keys = list(among)
    found = [key for key in keys if name in {str(key), _folder(key)}]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadSettings(
            f"{name!r} is a partition of {len(found)} topics, the name was used again",
            where=where,
            remedy=f"Choose one by its id: {', '.join(map(_folder, found))}.",
        )
    near = get_close_matches(name, [str(key) for key in keys], n=1)
    raise BadSettings(
        f"{name!r} is no partition in scope",
        where=where,
        remedy=f"Did you mean {near[0]}?" if near else "`tierfold status TIER` names them all.",
    )


def _folder(key: PartitionKey) -> str:
    return f"{key}-{key.topic_id}"
