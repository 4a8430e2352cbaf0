"""The tier's note of who serves it, written before the first send (PUBLISHING 2.6)."""

from __future__ import annotations

from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.tier_service import TierService
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import another_note, notes_of, place_of, served_binding
from tierfold.storage.tiers.service_notes import Noted


def note_service(context: RunContext) -> Refusal | None:
    """Let the tier say which cluster serves it and which catalog publishes, if it does not yet.

    Returns why that failed, if another run was faster. A note that is there was compared by the
    looks of this run. Raises as `ServiceNotes` does.
    """
    binding, notes = served_binding(context), notes_of(context)
    if binding is None or notes.newest() is not None:
        return None
    service = TierService(
        cluster_id=binding.cluster.cluster_id,
        fingerprint=context.catalog.fingerprint(),
        place=place_of(context),
        noted_at_ms=context.clock(),
    )
    return None if isinstance(notes.write(service, None), Noted) else another_note(notes)
