"""How a claim or a commit can end: four outcomes, never a bool.

`Unknown` means that the answer was lost, not that the commit was: it is resolved by reading the
commit id back, never by trying again blind.
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
    """Somebody committed first under the same epoch; plan again from a fresh view."""

    found_commit_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """A newer epoch lives; leave now."""

    epoch: int
    by_epoch: int
    by_run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The store did not say; `commit_id` is what a read back must look for."""

    commit_id: str
    cause: str


Outcome: TypeAlias = Committed | LostRace | Fenced | Unknown
