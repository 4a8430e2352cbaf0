"""The version of tierfold, and where its pages are."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def tierfold_version() -> str:
    """Return the installed distribution's version; a clone that is not installed has none."""
    try:
        return version("tierfold")
    except PackageNotFoundError:
        return "not installed"


def pages_folder() -> Path:
    """Return the folder of the pages that messages name as docs/…, which the wheel has, too."""
    return Path(__file__).parents[2] / "docs"
