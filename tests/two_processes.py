"""Which tests stay together when `make test` runs them in two processes.

All tests of a file stay together, because they share fixtures. So do all files that use the same
slow fixture that lasts for the session.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

from xdist.scheduler import LoadScopeScheduling

MADE_ONCE: Final = {"spark": "Spark", "archive": "Spark", "led": "Spark", "lab": "Kafka"}
"""Fixtures, and which process they are in; of several the first decides."""


@cache
def scope_of(file: Path) -> str:
    """What a file's tests belong to: the file itself, or what all users of a fixture do."""
    nodes = ast.walk(ast.parse(file.read_bytes()))
    wanted = {node.arg for node in nodes if isinstance(node, ast.arg)}
    return next((scope for name, scope in MADE_ONCE.items() if name in wanted), str(file))


class Together(LoadScopeScheduling):
    """Deals scopes, the one with the most tests first, to whichever process is free."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(self.config.rootpath / nodeid.partition("::")[0])
