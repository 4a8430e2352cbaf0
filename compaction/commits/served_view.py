"""The view of a partition whose row becomes one of brokers: with the claim, before any send.

A row is served from the commit that notes its cluster. Its first round is planned for brokers
already: groups, tombstones and markers follow the rules of served rows.

Rule: PUBLISHING, "Words"; 2.1, 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tierfold.compaction.commits.moved_tier import place_to_note
from tierfold.compaction.discovery.view import (
    PartitionView,
    Refusal,
    RefusalReason,
    never_claimed,
)
from tierfold.compaction.model.bindings import ServedBy
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import Consent, ConsentKind

_GIVEN_UP: Final = Refusal(
    reason=RefusalReason.SERVED,
    detail="a person said that the cluster which the catalog names for it is no more"
    " (tier.binding=abandoned), and the catalog notes no other one in its place",
    remedy="Set publish = false for the topic: nothing of it is published from this catalog.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a run notes in the rows that it claims, because it publishes them."""

    binding: ServedBy
    """The cluster that was asked, and the place given as TIER."""
    at_ms: int
    """Epoch milliseconds."""
    run: str
    readers_begin_again: bool
    """Whether a person says so of readers on their way (PUBLISHING 5.3)."""


def served_view(view: PartitionView, serving: Serving) -> PartitionView | Refusal:
    """The view with the row as the claim is to write it."""
    row = view.state or never_claimed(view.key)
    if row.served_by and not row.is_served:
        return _GIVEN_UP
    if not row.served_by:
        start = 0 if view.brokers is None else view.brokers.metadata_start
        cluster = replace(serving.binding.cluster, metadata_start=start)
        row = replace(row, served_by=(cluster,))
    elif place := place_to_note(row, serving.binding):
        clusters = tuple(replace(cluster, place=place) for cluster in row.served_by)
        row = _agreed(replace(row, served_by=clusters), ConsentKind.MOVED, serving)
    if serving.readers_begin_again and row.has_dropped:
        row = _agreed(row, ConsentKind.DELETED_KEYS, serving)
    return replace(view, state=row)


def detached_view(view: PartitionView, consent: Consent) -> PartitionView:
    """The view if a person says that no broker serves the tier, as of a copy of a published one.

    `consent`: of the kind `DETACHED`; a row that names a cluster notes it. From then on tombstones
    and markers go as on any tier that no broker serves, and nothing waits to be published.
    """
    row = view.state
    if row is None or not row.is_served:
        return view
    return replace(view, state=replace(row, consents=(*row.consents, consent)))


def _agreed(row: PartitionState, kind: ConsentKind, serving: Serving) -> PartitionState:
    if any(consent.kind == kind for consent in row.consents) and kind != ConsentKind.MOVED:
        return row
    consent = Consent(kind=kind, given_at_ms=serving.at_ms, run=serving.run)
    return replace(row, consents=(*row.consents, consent))
