"""Which tests stay together, and which begin first, when `make test` runs two processes.

All tests of a file stay together, because they share fixtures. So do all files that use the same
slow fixture that lasts for the session. What takes longest begins first, so that both processes
end at about the same time.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

MADE_ONCE: Final = {"led": "Spark", "spark": "Spark", "archive": "archive", "lab": "Kafka"}
"""Fixtures, and which process they are in; of several the first decides."""

STARTS_JVM: Final = frozenset({"spark", "archive", "lab", "led", "fuzzed"})
"""Fixtures that start a Java process, or are made by one."""

SLOW_FIRST: Final = (
    "tests/end_to_end/",
    "tests/oracle/",
    "tests/faults/",
    "tests/jobs/",
    "tests/tidy/",
)
"""Folders by how long their tests take; the others come last."""


@cache
def scope_of(file: Path) -> str:
    """What a file's tests belong to: the file itself, or what all users of a fixture do."""
    nodes = ast.walk(ast.parse(file.read_bytes()))
    wanted = {node.arg for node in nodes if isinstance(node, ast.arg)}
    return next((scope for name, scope in MADE_ONCE.items() if name in wanted), str(file))


def slow_first(items: list[pytest.Item]) -> None:
    """Sort the tests by `SLOW_FIRST`; those of a folder keep their order."""
    items.sort(key=lambda item: _rank(item.nodeid))


def _rank(nodeid: str) -> int:
    ranks = (rank for rank, folder in enumerate(SLOW_FIRST) if nodeid.startswith(folder))
    return next(ranks, len(SLOW_FIRST))


class Together(LoadScopeScheduling):
    """Deals scopes in the order of the tests, to whichever process is free."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(self.config.rootpath / nodeid.partition("::")[0])
