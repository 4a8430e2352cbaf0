"""How a claim or a commit ends: one of four outcomes.

`Unknown` means that the answer is lost; the commit may have succeeded. Reading the commit id back
resolves it, a blind retry never does. A row with this commit or a later one is an answer. An
unchanged row is not: the write may arrive late, until the next claim opens a newer epoch and fences
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The row now holds what was proposed."""

    epoch: int
    commit_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRace:
    """Another commit under the same epoch came first; plan again from a fresh view."""

    found_commit_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """Another run opened a newer epoch; stop now."""

    epoch: int
    by_epoch: int
    by_run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The store gave no answer; read the row back and look for `commit_id`."""

    commit_id: str
    cause: str
    """Why there is no answer."""
    is_untraced: bool = False
    """The row was read again afterwards, and is unchanged."""


Outcome: TypeAlias = Committed | LostRace | Fenced | Unknown
