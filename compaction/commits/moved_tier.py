"""What a row notes of a tier that moved, or is mounted elsewhere: the one place that may change.

    place_to_note  the place that the row does not name yet, as a person says that the tier moved
    move_of        the change that notes it, with the consent
"""

from __future__ import annotations

from tierfold.compaction.commits.commit import MoveTier
from tierfold.compaction.discovery.identity import Identity, identity_of
from tierfold.compaction.model.bindings import Binding, ServedBy
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import Consent, ConsentKind


def place_to_note(row: PartitionState | None, binding: Binding) -> str:
    """The place given as TIER if the row names another; empty: it does not, or no one says so."""
    if not isinstance(binding, ServedBy):
        return ""
    found = identity_of(row, binding.cluster, is_moved=binding.is_moved)
    return binding.cluster.place if found is Identity.MOVED else ""


def move_of(place: str, *, at_ms: int, run: str) -> tuple[MoveTier, ...]:
    """The change of a row that must note `place`; empty: none does. `at_ms`: epoch milliseconds."""
    if not place:
        return ()
    consent = Consent(kind=ConsentKind.MOVED, given_at_ms=at_ms, run=run)
    return (MoveTier(place=place, consent=consent),)
