"""Whose the objects of an unknown segment are, as far as they say.

Clusters may share a bucket. If their key prefixes overlap, such as "" and "x-", the folder of one
cluster's partition is also that of a partition of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Whose(StrEnum):
    """Whose the objects of a segment are."""

    PARTITION = "this partition's"
    UNSAID = "unsaid"
    """The object that would say it is missing."""
    DOUBTFUL = "doubtful"
    """They may be another cluster's: neither read nor deleted."""
    ANOTHERS = "another's"
    """They say that they are another segment: neither read nor deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Whose the objects of a segment are, and why that is in doubt."""

    whose: Whose
    why: str = ""
    """A sentence; empty unless it is in doubt."""
    is_silent: bool = False
    """Whether it is in doubt only because the objects do not say it: brokers' metadata may."""

    @property
    def is_doubtful(self) -> bool:
        """Whether they are, or may be, another cluster's."""
        return self.whose in {Whose.DOUBTFUL, Whose.ANOTHERS}


def beside_each_other(owners: Sequence[Ownership]) -> tuple[Ownership, ...]:
    """The ownership of each unknown segment of a folder, given the others.

    If one may be another cluster's, the folder may be shared. Then what does not say whose it is
    may be that cluster's, too, even if tierfold wrote it: it runs there as well.
    """
    if not any(owner.is_doubtful for owner in owners):
        return tuple(owners)
    return tuple(_BESIDE_DOUBT if owner.whose is Whose.UNSAID else owner for owner in owners)


OF_PARTITION: Final = Ownership(whose=Whose.PARTITION)
UNSAID: Final = Ownership(whose=Whose.UNSAID)


def doubtful(why: str, *, is_silent: bool = False) -> Ownership:
    """The ownership of what may be another cluster's."""
    return Ownership(whose=Whose.DOUBTFUL, why=why, is_silent=is_silent)


def anothers(why: str) -> Ownership:
    """The ownership of what says that it is another segment."""
    return Ownership(whose=Whose.ANOTHERS, why=why)


_BESIDE_DOUBT: Final = doubtful(
    "its objects do not say whose it is, and a segment beside it may be another cluster's"
)
