"""Who serves the tier, as a run knows it: it decides what may be deleted.

A binding holds for the whole run. The user's word is `tier.binding`; `discovery.served` refuses a
row that names a cluster which the run does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from tierfold.compaction.model.serving import ServingCluster


class TierBinding(StrEnum):
    """Whether brokers serve the topics of a tier (tierfold's own setting)."""

    BOUND = "bound"
    """Brokers serve them, and still name the objects that they uploaded."""
    DETACHED = "detached"
    """No broker does: the tier is a copy or an archive."""
    ABANDONED = "abandoned"
    """No broker does, although the catalog names a cluster: it is no more."""
    MOVED = "moved"
    """Brokers serve them, from another place than the catalog says."""


@dataclass(frozen=True, slots=True)
class Detached:
    """No broker serves the tier."""

    is_insisted: bool = False
    """Whether the user says so although rows may name a cluster."""


@dataclass(frozen=True, slots=True)
class Undeclared:
    """Brokers may serve the tier, and name the objects that they uploaded."""


@dataclass(frozen=True, slots=True)
class ServedBy:
    """The brokers of this cluster serve the tier."""

    cluster: ServingCluster
    """As it was found; its place is the one given as TIER."""
    is_moved: bool = False
    """Whether the user says that the tier now stands there."""


Binding: TypeAlias = Detached | Undeclared | ServedBy

UNDECLARED: Final = Undeclared()


def binding_of(word: TierBinding | None) -> Detached | Undeclared:
    """The binding of a run without a cluster; `word`: `tier.binding`, None: not set."""
    match word:
        case TierBinding.DETACHED:
            return Detached()
        case TierBinding.ABANDONED:
            return Detached(is_insisted=True)
        case TierBinding.BOUND | TierBinding.MOVED | None:
            return UNDECLARED
