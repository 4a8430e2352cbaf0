"""The names that a broker's server.properties may hold, whether or not they have an effect here.

They are in `conf/broker_names.txt`; a prefix ends in `*` and covers names of listeners and plugins.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

_FILE: Final = "broker_names.txt"


@cache
def broker_names() -> frozenset[str]:
    """Return all names; prefixes keep their `*`."""
    text = resources.files("tierfold.conf").joinpath(_FILE).read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))


def is_of_brokers(name: str) -> bool:
    """Return whether a broker knows the name."""
    known = broker_names()
    prefixes = (partition.removesuffix("*") for partition in known if partition.endswith("*"))
    return name in known or any(
        name.startswith(prefix) and name != prefix for prefix in prefixes
    )
