"""Which tests stay together, and which start first, when `make test` runs several processes.

All tests of a file stay together, because they share fixtures. So do all files that use the same
slow fixture of the session, also in one process. The slowest tests start first, so that all
processes end at about the same time.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

MADE_ONCE: Final = {
    **dict.fromkeys(("leaders", "spark"), "Spark"),
    **dict.fromkeys(("archive", "unpacked"), "archive"),
    **dict.fromkeys(("lab", "fuzzed"), "Kafka"),
    "kafka": "brokers",
}
"""Fixtures of the session and their scopes; if a file uses several, the first decides."""

STARTS_JVM: Final = frozenset(
    {"spark", "archive", "unpacked", "lab", "leaders", "fuzzed", "kafka"}
)
"""Fixtures that start a Java process, or need one."""

SLOW_FIRST: Final = (
    "tests/end_to_end/",
    "tests/oracle/",
    "tests/brokers/",
    "tests/storage/brokers/",
    "tests/faults/",
    "tests/storage/tiers/",
    "tests/storage/catalog/",
    "tests/jobs/",
    "tests/pictures/",
    "tests/tidy/",
)
"""Folders by how long the tests of a file take; those of the others come last."""


@cache
def scope_of(file: Path) -> str:
    """The scope of a file's tests: the file itself, or the scope of a fixture that it uses."""
    text = file.read_text(encoding="utf-8")
    if not any(f"{name}:" in text for name in MADE_ONCE):
        return str(file)  # Parsing the files of all tests would take three seconds.
    wanted = {node.arg for node in ast.walk(ast.parse(text)) if isinstance(node, ast.arg)}
    return next((scope for name, scope in MADE_ONCE.items() if name in wanted), str(file))


def slow_first(items: list[pytest.Item]) -> None:
    """Sort the tests by `SLOW_FIRST`; those of a folder keep their order, and scopes together."""
    items.sort(key=lambda item: _rank(item.nodeid))
    place_of: dict[str, int] = {}
    for item in items:
        place_of.setdefault(scope_of(item.path), len(place_of))
    items.sort(key=lambda item: place_of[scope_of(item.path)])


def _rank(nodeid: str) -> int:
    ranks = (rank for rank, folder in enumerate(SLOW_FIRST) if nodeid.startswith(folder))
    return next(ranks, len(SLOW_FIRST))


class Together(LoadScopeScheduling):
    """Assigns scopes to the process that is free, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(self.config.rootpath / nodeid.partition("::")[0])
