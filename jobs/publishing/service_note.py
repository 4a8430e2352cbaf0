"""The tier's note of who serves it: written before the first send, and once the tier moved.

Rule: PUBLISHING 2.1, 2.6.
"""

from __future__ import annotations

from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.tier_service import TierService
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import (
    another_note,
    notes_of,
    place_of,
    served_binding,
    tier_identity,
)
from tierfold.storage.tiers.service_notes import Noted


def note_service(context: RunContext) -> Refusal | None:
    """Let the tier say which cluster serves it, from where, and which catalog publishes.

    Returns why that failed, if another run was faster. What a note says beside the place was
    compared by the looks of this run. Raises as `ServiceNotes` does.
    """
    binding, notes = served_binding(context), notes_of(context)
    if binding is None:
        return None
    if notes.newest() is not None:
        return note_moved(context)
    service = TierService(
        cluster_id=binding.cluster.cluster_id,
        fingerprint=context.catalog.fingerprint(),
        place=place_of(context),
        noted_at_ms=context.clock(),
    )
    return None if isinstance(notes.write(service, None), Noted) else another_note(notes)


def note_moved(context: RunContext) -> Refusal | None:
    """Let the tier's note name the place given as TIER; why that failed, if it did.

    Nothing is written unless a person says that the tier moved, and the note is of this catalog and
    of the cluster that was asked. Raises as `ServiceNotes` does.
    """
    binding = served_binding(context)
    if binding is None or not binding.is_moved:
        return None  # Without reading the note again.
    notes, place = notes_of(context), place_of(context)
    present = notes.newest()
    identity = tier_identity(context, binding, deletes=True)
    if present is None or present.service.place == place or identity.refusal(None) is not None:
        return None
    service = present.service.moved(place, context.clock())
    return None if isinstance(notes.write(service, present), Noted) else another_note(notes)
