"""Finds misleading names: shadowed modules, vague names, duplicates, missing docstrings."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import PurePosixPath
from typing import Final

from tests.tidy.source_tree import Source

VAGUE: Final = frozenset({"base", "common", "helper", "helpers", "misc", "stuff", "util", "utils"})


def shadows_the_standard_library(source: Source) -> list[str]:
    """The module, if it is called like one of Python, such as `inspect`.

    A script beside it would import it instead.
    """
    if source.module.rpartition(".")[2] not in sys.stdlib_module_names:
        return []
    return [f"{source.path}: named like a module of Python; choose a name of its own"]


def has_a_vague_name(source: Source) -> list[str]:
    """The module, if its name says nothing, such as `utils`."""
    parts = set(source.module.split("."))
    return [f"{source.path}: {name!r} is vague; name the idea" for name in sorted(parts & VAGUE)]


def duplicates(sources: tuple[Source, ...]) -> list[str]:
    """Test files of the same name: pytest imports them by that name alone."""
    names = Counter(PurePosixPath(source.path).name for source in sources)
    return [
        f"{name}: {count} files; give each its own name"
        for name, count in names.items()
        if count > 1 and name not in {"__init__.py", "conftest.py"}
    ]


def lacks_a_first_line(source: Source) -> list[str]:
    """The test file, if the first line of its docstring is empty."""
    docstring = ast.get_docstring(source.tree, clean=False) or ""
    first = docstring.partition("\n")[0].strip()
    return [] if first else [f"{source.path}: no docstring says what the file proves"]


def map_differences(package: Source, modules: set[str]) -> list[str]:
    """Modules that the package's docstring lacks, and lines of it without a module."""
    lines = (ast.get_docstring(package.tree, clean=False) or "").splitlines()
    mapped = {line.split()[0] for line in lines if re.match(r" {4}[a-z]", line)}
    return [
        f"{package.path}: {name} is {what}"
        for what, names in (("not in the map", modules - mapped), ("gone", mapped - modules))
        for name in sorted(names)
    ]


def undocumented(source: Source) -> list[str]:
    """Public modules, classes, functions and methods without a docstring."""
    found = [] if ast.get_docstring(source.tree) else [f"{source.path}: the module"]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    owners: list[ast.Module | ast.ClassDef] = [source.tree]
    for owner in owners:
        for node in owner.body:
            if not isinstance(node, kinds) or node.name.startswith("_"):
                continue
            if not ast.get_docstring(node):
                found.append(f"{source.path}:{node.lineno}: {node.name}")
            if isinstance(node, ast.ClassDef):
                owners.append(node)
    return [f"{place} has no docstring" for place in found]
