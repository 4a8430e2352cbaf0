"""Every name that a broker's server.properties may contain, with or without an effect here.

`conf/broker_names.txt` lists them. A prefix ends in `*` and covers names of listeners and plugins.
"""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def broker_names() -> frozenset[str]:
    """Return all names; prefixes keep their `*`."""
    text = resources.files("tierfold.conf").joinpath("broker_names.txt").read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))


def is_of_brokers(name: str) -> bool:
    """Whether a broker knows the name."""
    known = broker_names()
    prefixes = (pattern.removesuffix("*") for pattern in known if pattern.endswith("*"))
    return name in known or any(name.startswith(prefix) and name != prefix for prefix in prefixes)
