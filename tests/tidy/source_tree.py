"""The source tree that the tidy checks read: its files, read and parsed once.

A check is a pure function from a source (or a text) to a list of violations. So a test can show
that each check finds a violation in a few made-up lines.
"""

from __future__ import annotations

import ast
import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("jobs", "storage", "compaction", "conf")
PRODUCT: Final = ("tierfold", *FOLDERS)
"""The folders whose files are installed."""
TESTS: Final = ("tests", "scripts")
"""The folders of the tests and the scripts."""
TEXT_SUFFIXES: Final = frozenset(
    {".py", ".md", ".toml", ".cfg", ".properties", ".java", ".xml", ".ipynb"}
)
NOT_OURS: Final = frozenset({"LICENSE", "broker.properties"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One Python file: its path below the root, its text, its syntax tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        """The top-level folder."""
        return self.path.partition("/")[0]

    @property
    def module(self) -> str:
        """The name it is imported by."""
        name = self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return f"tierfold.{name}" if self.folder in FOLDERS else name


def source_of(text: str, path: str = "compaction/made_up.py") -> Source:
    """Parse a source."""
    return Source(path=path, text=text, tree=ast.parse(text))


def imported(source: Source) -> list[tuple[str, int]]:
    """Every imported name, dotted, with its line."""
    names: list[tuple[str, int]] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            names += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return names


def attributes(source: Source) -> list[tuple[str, int]]:
    """Every attribute chain with its line."""
    nodes = [node for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)]
    return [(_dotted(node), node.lineno) for node in nodes]


def calls(source: Source) -> list[tuple[str, ast.Call]]:
    """Every call with the name that is called."""
    nodes = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    return [(_dotted(call.func), call) for call in nodes]


def _dotted(node: ast.expr) -> str:
    """`a.b.c` of an attribute chain, empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def sources(*folders: str) -> tuple[Source, ...]:
    """All Python files below these folders of the repository.

    Parsing them takes seconds, so call this in a test, not while pytest collects the tests.
    """
    return tuple(source for folder in folders for source in _below(folder))


@functools.cache
def _below(folder: str) -> tuple[Source, ...]:
    return tuple(
        source_of(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
        for path in sorted((ROOT / folder).rglob("*.py"))
    )


def product() -> tuple[Source, ...]:
    """The files that are installed."""
    return sources(*PRODUCT)


def packages() -> tuple[Source, ...]:
    """The packages that have a map: those of the folders with code."""
    return tuple(
        source
        for source in product()
        if source.path.endswith("/__init__.py")
        and source.folder in FOLDERS
        and source.folder != "conf"
    )


def modules_in(package: Source) -> set[str]:
    """Names of a package's modules and packages, without launchers."""
    folder = (ROOT / package.path).parent
    below = [path.parent for path in folder.glob("*/__init__.py")]
    files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    return {path.stem for path in (*files, *below) if not path.stem.endswith("_job")}


def tests() -> tuple[Source, ...]:
    """The tests and the scripts."""
    return sources(*TESTS)


@functools.cache
def notebooks() -> tuple[Source, ...]:
    """Each notebook as one file of Python: its code cells, one after the other."""
    return tuple(
        source_of(code_of(path.read_text(encoding="utf-8")), path.relative_to(ROOT).as_posix())
        for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    )


def code_of(notebook: str) -> str:
    """The code cells of a notebook's JSON, as Python."""
    cells = json.loads(notebook)["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


@functools.cache
def texts() -> tuple[tuple[str, str], ...]:
    """Path and text of every written page: code, docs, settings, scripts."""
    at_root = [path for path in ROOT.iterdir() if path.is_file()]
    folders = (*FOLDERS, "tests", "docs", "notebooks", "scripts", ".ci")
    below = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    written = [
        path
        for path in sorted(at_root + below)
        if path.name not in NOT_OURS
        and (path.suffix in TEXT_SUFFIXES or (not path.suffix and path.name[0] != "."))
    ]
    return tuple(
        (path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in written
    )
