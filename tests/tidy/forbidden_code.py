"""Checks for code that is not allowed: open markers, clocks, RNGs, producers, mocks, skipped tests.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Final

from tests.tidy.source_tree import Source, attributes, calls, imported

# Written in halves, so that this file passes its own check.
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
DOOR: Final = "storage/brokers/event_door.py"
PRODUCERS: Final = re.compile(
    r"confluent_kafka\.\*|(?:[\w.]*\.)?(?:\w*Producer|produce|produce_batch)"
)
LOG_START_DOOR: Final = "storage/brokers/log_start_door.py"
LOG_START_MOVES: Final = re.compile(r"(?:[\w.]*\.)?delete_records")
SKIPS: Final = frozenset({"skip", "skipif", "importorskip", "xfail"})


def markers(path: str, text: str) -> list[str]:
    """Lines with a reminder of unfinished work; an issue is the place for it."""
    return [
        f"{path}:{number}: an open marker; do it, or open an issue: {line.strip()}"
        for number, line in enumerate(text.splitlines(), start=1)
        if MARKERS.search(line)
    ]


def stored_outputs(path: str, notebook: str) -> list[str]:
    """Cells with outputs: they differ after every run."""
    return [
        f"{path}: cell {cell['id']} has outputs stored; clear them"
        for cell in json.loads(notebook)["cells"]
        if cell.get("outputs") or cell.get("execution_count") is not None
    ]


def clocks(source: Source) -> list[str]:
    """Reads of the clock outside the one module that may read it."""
    used = [] if source.path == CLOCK_OWNER else attributes(source) + imported(source)
    return [
        f"{source.path}:{line}: {name}; take now_ms as an argument, only {CLOCK_OWNER} may ask"
        for name, line in used
        if name in CLOCKS
    ]


def rng(source: Source) -> list[str]:
    """Imports of random numbers or ids outside `storage`, which makes the ids."""
    return [
        f"{source.path}:{line}: {name}; take the id as an argument, only storage makes ids"
        for name, line in imported(source)
        if source.folder != "storage"
        and (name.partition(".")[0] in RNG_MODULES or name.startswith("numpy.random"))
    ]


def producers(source: Source) -> list[str]:
    """Names of clients that write to topics, and of their methods, outside of the one door."""
    return [
        f"{source.path}:{line}: {name}; only {DOOR} may write to a topic"
        for name, line in writing(source)
        if source.path != DOOR
    ]


def log_start_moves(source: Source) -> list[str]:
    """Names of what deletes records of topics, outside of its one door."""
    return [
        f"{source.path}:{line}: {name}; only {LOG_START_DOOR} may move a log start"
        for name, line in _named_as(source, LOG_START_MOVES)
        if source.path != LOG_START_DOOR
    ]


def writing(source: Source) -> list[tuple[str, int]]:
    """What names a producer or what gives it records, with its line; a text can name it, too."""
    return _named_as(source, PRODUCERS)


def _named_as(source: Source, pattern: re.Pattern[str]) -> list[tuple[str, int]]:
    texts = [
        (node.value, node.lineno)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    used = imported(source) + attributes(source) + texts
    return [(name, line) for name, line in used if pattern.fullmatch(name)]


def unseeded(source: Source) -> list[str]:
    """Random draws of a test from a generator without a seed."""
    return [
        f"{source.path}:{call.lineno}: {name}; use random.Random(seed) or default_rng(seed)"
        for name, call in calls(source)
        if _is_unseeded(name, has_seed=bool(call.args or call.keywords))
    ]


def _is_unseeded(name: str, *, has_seed: bool) -> bool:
    owner, _, function = name.rpartition(".")
    if function in {"Random", "default_rng"}:
        return not has_seed
    return owner in {"random", "np.random", "numpy.random", "secrets"} or name == "os.urandom"


def skipped(source: Source) -> list[str]:
    """Tests that are skipped or expected to fail."""
    return [
        f"{source.path}:{line}: {name}; make the test run everywhere, or delete it"
        for name, line in attributes(source)
        if name.startswith("pytest.") and name.rpartition(".")[2] in SKIPS
    ]


def mocks(source: Source) -> list[str]:
    """Imports of mock libraries."""
    return [
        f"{source.path}:{line}: {name}; write a store or a catalog that fails instead"
        for name, line in imported(source)
        if name.startswith(("unittest.mock", "mock.", "pytest_mock")) or name == "mock"
    ]
