"""The version of tierfold."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def tierfold_version() -> str:
    """Return the installed distribution's version; a clone that is not installed has none."""
    try:
        return version("tierfold")
    except PackageNotFoundError:
        return "not installed"
