"""Sizes and durations as people write them on the command line: `10GiB`, `90m`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import click

_WRITTEN: Final = re.compile(r"([0-9]{1,15}) ?([a-zA-Z]*)")


class Quantity(click.ParamType[int]):
    """A whole number and a unit; the value is the number of the smallest unit."""

    def __init__(self, name: str, units: Mapping[str, int], example: str) -> None:
        self.name = name
        self._units = units
        self._example = example

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Parse `value`; malformed text is a usage error."""
        if isinstance(value, int):
            return value
        found = _WRITTEN.fullmatch(value.strip())
        if found is None or found[2] not in self._units:
            units = ", ".join(unit for unit in self._units if unit)
            self.fail(
                f"{value!r} is not a {self.name}: give a whole number and one of {units},"
                f" such as {self._example}.",
                param,
                ctx,
            )
        return int(found[1]) * self._units[found[2]]


SIZE_BYTES: Final = Quantity(
    "size",
    {"": 1, "B": 1}
    | {f"{prefix}B": 1000**power for power, prefix in enumerate(("k", "M", "G", "T"), start=1)}
    | {f"{prefix}iB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T"), start=1)},
    "10GiB",
)
"""Bytes; the unit is optional."""

DURATION_MS: Final = Quantity(
    "duration", {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}, "90m"
)
"""Milliseconds; the unit is required, because 24 seconds is not a grace period of 24 hours."""
