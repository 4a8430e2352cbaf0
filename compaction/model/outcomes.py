"""How a claim or a commit ends: one of four outcomes.

`Unknown` means that the answer was lost, not the commit. It is resolved by reading the commit id
back, never by a blind retry. A row with the commit, or a later one, resolves it. An unchanged row
does not: the write may arrive late, until the next claim opens a newer epoch and fences it.
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
    """Another commit came first under the same epoch; plan again from a fresh view."""

    found_commit_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """Another run opened a newer epoch; stop now."""

    epoch: int
    by_epoch: int
    by_run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The store gave no answer; look for `commit_id` when reading the row back."""

    commit_id: str
    cause: str
    """Why no answer came."""
    is_untraced: bool = False
    """The row was read again since, and is unchanged."""


Outcome: TypeAlias = Committed | LostRace | Fenced | Unknown
