"""The tier's note, once a person says that the tier moved (`tier.binding=moved`)."""

from __future__ import annotations

from tierfold.compaction.discovery.view import Refusal
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import (
    another_note,
    notes_of,
    place_of,
    served_binding,
    tier_identity,
)
from tierfold.storage.tiers.service_notes import Noted


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
