"""Checks that README, changelog and setup.cfg agree with the code they describe."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable, Mapping
from typing import Final

# A distribution is installed under one name and imported under another.
IMPORTED_AS: Final = {
    "delta-spark": "delta",
    "google-crc32c": "google_crc32c",
    "import-linter": "importlinter",
    "pytest-xdist": "xdist",
}
# Part of another distribution's own interface, and pinned by it to the one version that fits.
BROUGHT_BY: Final = {"llvmlite": "numba", "py4j": "pyspark"}


def _read(setup: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(setup)
    return parser


def version(setup: str) -> str:
    """The version that is installed."""
    return _read(setup)["metadata"]["version"]


def entry_points(setup: str) -> set[str]:
    """Modules that hold a console script."""
    lines = _read(setup)["options.entry_points"]["console_scripts"].split("\n")
    return {line.partition("=")[2].partition(":")[0].strip() for line in lines if line}


def requirements(setup: str, section: str, option: str) -> list[str]:
    """Names of the distributions that an option lists, without their versions."""
    lines = _read(setup)[section][option].split("\n")
    return [re.split(r"[<>=!~\[ ]", line)[0] for line in lines if line]


# Imported by nobody here, and still needed: PySpark refuses `mapInArrow` without it.
ASKED_FOR: Final = frozenset({"pandas"})


def unused_requirements(names: Iterable[str], imports: set[str]) -> list[str]:
    """What is installed for nothing."""
    return [
        f"setup.cfg: {name} is required and never imported; drop it"
        for name in names
        if IMPORTED_AS.get(name, name) not in imports | ASKED_FOR
    ]


def unlisted_imports(names: Iterable[str], imports: set[str]) -> list[str]:
    """What works only because something else happens to bring it."""
    listed = {IMPORTED_AS.get(name, name) for name in names}
    listed |= {name for name, bringer in BROUGHT_BY.items() if bringer in listed}
    return [f"setup.cfg: {name} is imported and not required" for name in sorted(imports - listed)]


def table_rows(page: str) -> dict[str, str]:
    """Rows of a page's tables by the code word that their first cell holds."""
    return {
        found[1]: found[0]
        for line in page.splitlines()
        if (found := re.match(r"\| `([^`]+)` \|.*", line))
    }


def missing_rows(names: Iterable[str], page: str) -> list[str]:
    """Names that have no row of their own in any table of the page."""
    rows = table_rows(page)
    return [f"README.md: no table row begins with `{name}`" for name in names if name not in rows]


def links(page: str) -> list[str]:
    """Targets of a page's links that lie in the repository, without their anchors."""
    targets = re.findall(r"\]\(([^)\s]+)\)", page)
    return [
        target.partition("#")[0]
        for target in targets
        if not target.startswith(("#", "http://", "https://", "mailto:"))
    ]


def python_blocks(page: str) -> list[str]:
    """Code that a reader will copy."""
    return re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def rows_that_say_otherwise(said: Mapping[str, tuple[str, ...]], page: str) -> list[str]:
    """Rows that lack one of the cells that the code has for them."""
    rows = table_rows(page)
    return [
        f"README.md: the row of `{name}` does not say {cell}"
        for name, cells in said.items()
        for cell in cells
        if f" {cell} |" not in rows.get(name, "")
    ]
