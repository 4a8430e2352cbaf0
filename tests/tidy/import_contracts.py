"""Import contracts: absolute imports, a pure folder, and no module without a user."""

from __future__ import annotations

import ast
import sys
from typing import Final

from tests.tidy.forbidden_code import attributes, dotted, imported
from tests.tidy.source_tree import FOLDERS, Source

# What a room that decides and never touches may know. The list is what is allowed, so that a
# new way to reach the outside is refused by default.
PURE: Final = frozenset(
    {
        "__future__",
        "bisect",
        "collections",
        "dataclasses",
        "enum",
        "fractions",
        "functools",
        "heapq",
        "itertools",
        "llvmlite",  # numba's own tongue, in which an intrinsic is written
        "math",
        "numba",
        "numpy",
        "operator",
        "re",
        "struct",
        "typing",
    }
)
TOUCHING_CALLS: Final = frozenset({"open", "input", "print", "exec", "eval", "__import__"})
TOUCHING_ARRAYS: Final = frozenset(
    {
        f"{numpy}.{name}"
        for numpy in ("np", "numpy")
        for name in ("fromfile", "memmap", "load", "save", "savez", "loadtxt", "savetxt", "random")
    }
)


def relative_imports(source: Source) -> list[str]:
    """An absolute import says which room it crosses into."""
    nodes = [node for node in ast.walk(source.tree) if isinstance(node, ast.ImportFrom)]
    return [
        f"{source.path}:{node.lineno}: a relative import; write the whole name"
        for node in nodes
        if node.level
    ]


def other_names(source: Source) -> list[str]:
    """A user's own `jobs` folder must not get in the way of ours, so ours is `tierfold.jobs`."""
    return [
        f"{source.path}:{line}: {name}; import it as tierfold.{name}"
        for name, line in imported(source)
        if name.partition(".")[0] in FOLDERS
    ]


def impure(source: Source) -> list[str]:
    """What a pure module imports or calls beyond what is allowed."""
    found = [(name, line) for name, line in imported(source) if not _is_pure(name)]
    calls = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    found += [
        (dotted(call.func), call.lineno) for call in calls if dotted(call.func) in TOUCHING_CALLS
    ]
    found += [(name, line) for name, line in attributes(source) if name in TOUCHING_ARRAYS]
    return [
        f"{source.path}:{line}: {name}; compaction decides and never touches, "
        "storage or jobs do it and pass the value in"
        for name, line in found
    ]


def _is_pure(name: str) -> bool:
    return name.startswith("tierfold.compaction.") or name.partition(".")[0] in PURE


def outside_imports(sources: tuple[Source, ...]) -> set[str]:
    """Top-level names that these files import and that neither Python nor we provide."""
    tops = {name.partition(".")[0] for source in sources for name, _ in imported(source)}
    return tops - set(sys.stdlib_module_names) - {"tierfold", "tests", "scripts"}


def needed_modules(sources: tuple[Source, ...]) -> set[str]:
    """Modules that some other file imports, by whichever form of import."""
    known = {source.module for source in sources}
    return {
        module
        for source in sources
        for name, _ in imported(source)
        for module in (name, name.rpartition(".")[0])
        if module in known and module != source.module
    }


def unneeded_modules(sources: tuple[Source, ...], doors: set[str]) -> list[str]:
    """Modules that nobody imports and that are no `doors`: entry points, public API, packages."""
    packages = {source.module for source in sources if source.path.endswith("__init__.py")}
    needed = needed_modules(sources) | doors | packages
    return [
        f"{source.path}: no module imports it; use it, name it in a guide, or delete it"
        for source in sources
        if source.module not in needed
    ]
