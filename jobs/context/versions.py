"""Which tierfold this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def tierfold_version() -> str:
    """The installed distribution's version; a clone that nobody installed has none."""
    try:
        return version("tierfold")
    except PackageNotFoundError:
        return "not installed"
