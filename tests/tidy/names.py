"""Finds misleading names: shadowed modules, vague names, duplicates."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import PurePosixPath
from typing import Final

from tests.tidy.source_tree import Source

VAGUE: Final = frozenset({"base", "common", "helper", "helpers", "misc", "stuff", "util", "utils"})


def stem(source: Source) -> str:
    """The module's own name: a package's folder, else the file without its suffix."""
    return source.module.rpartition(".")[2]


def shadows_the_standard_library(source: Source) -> list[str]:
    """A module called `inspect` breaks whoever runs a script beside it."""
    if stem(source) not in sys.stdlib_module_names:
        return []
    return [f"{source.path}: named like a module of Python itself; say what is particular to it"]


def is_named_for_nothing(source: Source) -> list[str]:
    """What is in `utils` nobody finds; a name says one idea."""
    parts = set(source.module.split("."))
    return [
        f"{source.path}: {name!r} says nothing; name the idea" for name in sorted(parts & VAGUE)
    ]


def twins(sources: tuple[Source, ...]) -> list[str]:
    """pytest imports test files by their last name alone, so that two of one name collide."""
    names = [PurePosixPath(source.path).name for source in sources]
    counted = Counter(name for name in names if name not in {"__init__.py", "conftest.py"})
    twice = {name: count for name, count in counted.items() if count > 1}
    return [f"{name}: {count} files; give each its own name" for name, count in twice.items()]


def says_nothing(source: Source) -> list[str]:
    """The first line of a test file's docstring is what the file proves."""
    said = ast.get_docstring(source.tree, clean=False) or ""
    return [] if said.split("\n")[0].strip() else [f"{source.path}: what does it prove?"]


def map_faults(package: Source, modules: set[str]) -> list[str]:
    """A package's docstring is its map: one line per module, none missing and none too many."""
    lines = (ast.get_docstring(package.tree, clean=False) or "").splitlines()
    mapped = {line.split()[0] for line in lines if re.match(r" {4}[a-z]", line)}
    return [
        f"{package.path}: {name} is {what}"
        for what, names in (("not in the map", modules - mapped), ("gone", mapped - modules))
        for name in sorted(names)
    ]


def undocumented(source: Source) -> list[str]:
    """Every public module, class, function and method says what it is for."""
    found = [] if ast.get_docstring(source.tree) else [f"{source.path}: the module says nothing"]
    return found + _undocumented_within(source, source.tree)


def _undocumented_within(source: Source, owner: ast.Module | ast.ClassDef) -> list[str]:
    found: list[str] = []
    for node in owner.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if node.name.startswith("_"):
            continue
        if not ast.get_docstring(node):
            found.append(f"{source.path}:{node.lineno}: {node.name} says nothing")
        if isinstance(node, ast.ClassDef):
            found += _undocumented_within(source, node)
    return found
