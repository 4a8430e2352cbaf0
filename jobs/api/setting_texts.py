"""Settings that are given as values, as the texts of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def as_texts(values: Mapping[str, object] | Sequence[str]) -> list[str]:
    """Return pairs as texts `NAME=VALUE`, as the command line takes them; also of one text."""
    if isinstance(values, str):
        return [values]
    if not isinstance(values, Mapping):
        return [*values]
    return [f"{name}={_text(value)}" for name, value in values.items()]


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | Path() | int() | float():
            return str(value)
        case Sequence():
            return ",".join(map(str, value))
        case _:
            return repr(value)
