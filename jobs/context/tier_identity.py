"""What a run knows of the tier and its cluster before it changes rows, and what that forbids.

    changes rows                    refused by the row, if it names a cluster
    deletes, or with `detached`     refused by the tier's note, too
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tierfold.compaction.commits.served_view import Serving
from tierfold.compaction.discovery.identity import service_refusal, settings_refusal
from tierfold.compaction.discovery.served import served_refusal
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.bindings import UNDECLARED, Binding, Detached, ServedBy, binding_of
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.tier_service import TierPlace, TierService
from tierfold.jobs.context.run_context import RunContext
from tierfold.storage.tiers.service_notes import ServiceNotes
from tierfold.storage.tiers.tier_uris import tier_place


@dataclass(frozen=True, slots=True, kw_only=True)
class TierIdentity:
    """Where the tier stands, and what it says of itself."""

    binding: Binding
    place: TierPlace
    of_brokers: TierPlace | None = None
    """Where brokers write to by their properties; None: these are not given, or do not say it."""
    fingerprint: int | None = None
    """This catalog's; None: there is no catalog yet, or no note to compare it with."""
    note: TierService | None = None
    """Who serves the tier, as it says; None: it does not, or was not asked."""

    def refusal(self, row: PartitionState | None) -> Refusal | None:
        """Return why the row or the tier's note does not allow a change; None: both do."""
        place, elsewhere = str(self.place), None
        if isinstance(self.binding, ServedBy):
            elsewhere = settings_refusal(self.place, self.of_brokers)
        return (
            elsewhere
            or service_refusal(
                self.note, self.binding, row, fingerprint=self.fingerprint, place=place
            )
            or served_refusal(self.binding, row, place)
        )


def place_of(context: RunContext) -> str:
    """Return where the tier stands, as rows and its note have it."""
    return str(_place(context))


def notes_of(context: RunContext) -> ServiceNotes:
    """Return the notes of who serves the tier."""
    return ServiceNotes(context.tier.store, context.layout_options.key_prefix)


def another_note(notes: ServiceNotes) -> Refusal:
    """The refusal if another run wrote a note since this one read it."""
    return Refusal(
        reason=RefusalReason.ANOTHER_CATALOG,
        detail=f"another run changed the note in {notes.uri()}",
        remedy="Find out which catalog it is, and run again.",
    )


def served_binding(context: RunContext) -> ServedBy | None:
    """Return the cluster that the run asked, as its binding; None: it asked none."""
    look = context.cluster_view
    if look is None:
        return None
    return ServedBy(look.serving(place_of(context)), is_moved=context.has_moved)


def serving_of(context: RunContext) -> Serving | None:
    """Return what the run notes in rows that it claims; None: it publishes nothing."""
    binding, publishing = served_binding(context), context.publishing
    if binding is None or publishing is None or not publishing.is_on:
        return None
    return Serving(
        binding=binding,
        at_ms=context.dated_ms,
        run=context.run,
        readers_begin_again=publishing.readers_begin_again,
    )


def run_binding(context: RunContext) -> Binding:
    """Return who serves the tier: the cluster that the run asked, or as the user says."""
    return served_binding(context) or binding_of(context.declared)


def tier_identity(
    context: RunContext, binding: Binding = UNDECLARED, *, deletes: bool = False
) -> TierIdentity:
    """Read what decides whether rows may be changed; the note, if the run deletes or is detached.

    Raises as `ServiceNotes.newest` does.
    """
    found = TierIdentity(
        binding=binding,
        place=_place(context),
        of_brokers=context.layout_options.brokers_place,
    )
    if not deletes and not isinstance(binding, Detached):
        return found
    newest = notes_of(context).newest()
    if newest is None:
        return found
    fingerprint = context.catalog.fingerprint() if context.catalog.exists() else None
    return replace(found, note=newest.service, fingerprint=fingerprint)


def _place(context: RunContext) -> TierPlace:
    return tier_place(context.location, context.layout_options, context.tier_options)
