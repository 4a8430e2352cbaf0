"""How a claim or a commit can end: four outcomes, never a bool.

`Unknown` means that the answer was lost, not that the commit was: it is resolved by reading the
commit id back, never by trying again blind. A row that shows the commit, or a later one, settles
it. A row that is still the one proposed on does not: the write may arrive late, until the next
claim opens a newer epoch and so shuts it out.
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
    """Why no answer came."""
    is_untraced: bool = False
    """The row was read since and is still the one proposed on."""


Outcome: TypeAlias = Committed | LostRace | Fenced | Unknown
