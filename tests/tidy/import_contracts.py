"""Import contracts: absolute imports, a pure folder, and no module without a user."""

from __future__ import annotations

import ast
import sys
from typing import Final

from tests.tidy.source_tree import FOLDERS, Source, attributes, calls, imported

PURE: Final = frozenset(
    {
        "__future__",
        "base64",
        "bisect",
        "collections",
        "dataclasses",
        "enum",
        "fractions",
        "functools",
        "hashlib",  # digests of bytes that it is given
        "heapq",
        "itertools",
        "llvmlite",  # numba's intrinsics are written with it
        "math",
        "numba",
        "numpy",
        "operator",
        "re",
        "struct",
        "typing",
    }
)
"""All that `compaction` may import; other modules are refused, new ones included."""

TOUCHING_CALLS: Final = frozenset({"open", "input", "print", "exec", "eval", "__import__"})
TOUCHING_ARRAYS: Final = frozenset(
    {
        f"{numpy}.{name}"
        for numpy in ("np", "numpy")
        for name in ("fromfile", "memmap", "load", "save", "savez", "loadtxt", "savetxt", "random")
    }
)


def relative_imports(source: Source) -> list[str]:
    """Relative imports; an absolute one shows which package it is from."""
    nodes = [node for node in ast.walk(source.tree) if isinstance(node, ast.ImportFrom)]
    return [
        f"{source.path}:{node.lineno}: a relative import; write the whole name"
        for node in nodes
        if node.level
    ]


def other_names(source: Source) -> list[str]:
    """Imports of our folders without `tierfold`: a user may have a `jobs` folder, too."""
    return [
        f"{source.path}:{line}: {name}; import it as tierfold.{name}"
        for name, line in imported(source)
        if name.partition(".")[0] in FOLDERS
    ]


def impure(source: Source) -> list[str]:
    """Imports and calls that a pure module may not have."""
    used = [(name, line) for name, line in imported(source) if not _is_pure(name)]
    used += [(name, call.lineno) for name, call in calls(source) if name in TOUCHING_CALLS]
    used += [(name, line) for name, line in attributes(source) if name in TOUCHING_ARRAYS]
    return [
        f"{source.path}:{line}: {name}; compaction is pure: do this in storage or jobs, and pass "
        "the value in"
        for name, line in used
    ]


def _is_pure(name: str) -> bool:
    return name.startswith("tierfold.compaction.") or name.partition(".")[0] in PURE


def outside_imports(sources: tuple[Source, ...]) -> set[str]:
    """Top-level names that these files import and that neither Python nor we provide."""
    tops = {name.partition(".")[0] for source in sources for name, _ in imported(source)}
    return tops - set(sys.stdlib_module_names) - {"tierfold", "tests", "scripts"}


def needed_modules(sources: tuple[Source, ...]) -> set[str]:
    """Modules that another file imports, by any form of import."""
    known = {source.module for source in sources}
    return {
        module
        for source in sources
        for name, _ in imported(source)
        for module in (name, name.rpartition(".")[0])
        if module in known and module != source.module
    }


def unneeded_modules(sources: tuple[Source, ...], doors: set[str]) -> list[str]:
    """Modules that no other imports, apart from packages and `doors`: entry points, public API."""
    packages = {source.module for source in sources if source.path.endswith("__init__.py")}
    needed = needed_modules(sources) | doors | packages
    return [
        f"{source.path}: no module imports it; use it, name it in a guide, or delete it"
        for source in sources
        if source.module not in needed
    ]
