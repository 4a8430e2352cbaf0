"""The tier's note that a canary counted, or that a person publishes without one (PUBLISHING 7.2).

The note is of this tier, cluster, catalog and place. Where it names another place or catalog, it
proves nothing of this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.tier_service import UNPROVEN, CanaryProof, TierService
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import another_note, notes_of, place_of, served_binding
from tierfold.storage.tiers.service_notes import Noted

_TRIES: Final = 3
"""Another run of this catalog may note the same."""


def canary_proof(context: RunContext) -> CanaryProof:
    """How it is known that the brokers asked read this tier; `UNPROVEN` also without a note.

    Raises as `ServiceNotes.newest`.
    """
    newest = notes_of(context).newest()
    if newest is None or not _is_ours(context, newest.service):
        return UNPROVEN
    return newest.service.canary


def note_counted(context: RunContext) -> Refusal | None:
    """Note that a canary has counted, once; why that failed, if it did.

    Raises as `ServiceNotes` does.
    """
    return _noted(
        context,
        lambda proof: proof.counted_at_ms is not None,
        lambda service: service.proven(context.clock()),
    )


def note_off(context: RunContext) -> Refusal | None:
    """Note a person's consent to publish without a canary, once; why that failed, if it did.

    Raises as `ServiceNotes` does.
    """
    return _noted(
        context,
        lambda proof: proof.off_at_ms is not None,
        lambda service: service.trusted(context.clock(), context.run),
    )


def _noted(
    context: RunContext,
    is_noted: Callable[[CanaryProof], bool],
    changed: Callable[[TierService], TierService],
) -> Refusal | None:
    notes = notes_of(context)
    for _ in range(_TRIES):
        newest = notes.newest()
        if newest is None or not _is_ours(context, newest.service):
            break
        if is_noted(newest.service.canary):
            return None
        if isinstance(notes.write(changed(newest.service), newest), Noted):
            return None
    return another_note(notes)


def _is_ours(context: RunContext, service: TierService) -> bool:
    """Whether the note is of the cluster that was asked, this catalog and this place."""
    binding = served_binding(context)
    if binding is None or not context.catalog.exists():
        return False
    return (
        service.cluster_id,
        service.fingerprint,
        service.place,
    ) == (binding.cluster.cluster_id, context.catalog.fingerprint(), place_of(context))
