"""Checks for code that is not allowed: open markers, clocks, RNGs, mocks and skipped tests."""

from __future__ import annotations

import ast
import json
import re
from typing import Final

from tests.tidy.source_tree import Source

# Put together from halves, so that this page does not accuse itself.
MARKERS: Final = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
CLOCK_OWNER: Final = "storage/clock.py"
CLOCKS: Final = frozenset(
    {
        "time.time",
        "time.time_ns",
        "datetime.now",
        "datetime.utcnow",
        "datetime.today",
        "date.today",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "datetime.date.today",
    }
)
RNG_MODULES: Final = frozenset({"random", "secrets", "uuid"})
SKIPS: Final = frozenset({"skip", "skipif", "importorskip", "xfail"})


def markers(path: str, text: str) -> list[str]:
    """An unfinished thing is finished, or an issue says so; no page carries a reminder."""
    return [
        f"{path}:{number}: an open marker; do it, or open an issue: {line.strip()}"
        for number, line in enumerate(text.splitlines(), start=1)
        if MARKERS.search(line)
    ]


def stored_outputs(path: str, notebook: str) -> list[str]:
    """What a notebook printed is true of one run, and every other run is a diff of it."""
    return [
        f"{path}: cell {cell['id']} has outputs stored; clear them"
        for cell in json.loads(notebook)["cells"]
        if cell.get("outputs") or cell.get("execution_count") is not None
    ]


def imported(source: Source) -> list[tuple[str, int]]:
    """Every name that an import statement brings, dotted, with its line."""
    names: list[tuple[str, int]] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            names += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return names


def dotted(node: ast.expr) -> str:
    """`a.b.c` of an attribute chain, empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def attributes(source: Source) -> list[tuple[str, int]]:
    """Every attribute chain with its line."""
    nodes = [node for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)]
    return [(dotted(node), node.lineno) for node in nodes]


def clocks(source: Source) -> list[str]:
    """One file asks the time of day; everybody else is told."""
    if source.path == CLOCK_OWNER:
        return []
    found = [(name, line) for name, line in attributes(source) if name in CLOCKS]
    found += [(name, line) for name, line in imported(source) if name in CLOCKS]
    return [
        f"{source.path}:{line}: {name}; take now_ms as an argument, only {CLOCK_OWNER} may ask"
        for name, line in found
    ]


def rng(source: Source) -> list[str]:
    """Ids are drawn in storage; no decision and no stage draws anything."""
    if source.folder == "storage":
        return []
    return [
        f"{source.path}:{line}: {name}; take the id as an argument, only storage makes ids"
        for name, line in imported(source)
        if name.partition(".")[0] in RNG_MODULES or name.startswith("numpy.random")
    ]


def unseeded(source: Source) -> list[str]:
    """A test draws from a generator that it seeded, or from Hypothesis."""
    calls = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    drawn = [(dotted(call.func), call) for call in calls]
    return [
        f"{source.path}:{call.lineno}: {name}; use random.Random(seed) or default_rng(seed)"
        for name, call in drawn
        if _is_unseeded(name, has_seed=bool(call.args or call.keywords))
    ]


def _is_unseeded(name: str, *, has_seed: bool) -> bool:
    owner, _, function = name.rpartition(".")
    if function in {"Random", "default_rng"}:
        return not has_seed
    return owner in {"random", "np.random", "numpy.random", "secrets"} or name == "os.urandom"


def skipped(source: Source) -> list[str]:
    """A test that does not run protects nothing."""
    return [
        f"{source.path}:{line}: {name}; make the test run everywhere, or delete it"
        for name, line in attributes(source)
        if name.startswith("pytest.") and name.rpartition(".")[2] in SKIPS
    ]


def mocks(source: Source) -> list[str]:
    """What is tested is not patched: faults go into a store made for it."""
    return [
        f"{source.path}:{line}: {name}; write a store or a catalog that fails instead"
        for name, line in imported(source)
        if name.startswith(("unittest.mock", "mock.", "pytest_mock")) or name == "mock"
    ]
