"""The real catalog, under a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.storage.call_scripts import Call, Event, Script
from tierfold.compaction.model.outcomes import Outcome, Unknown
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.delta_tables import DeltaFolder, TableLayout

_OPERATIONS: Final = ("look", "history", "claim", "exchange", "commit", "resolve", "clean_up")


class ScriptedCatalog(Catalog):
    """The catalog at a URI; a `read` by its user is a `look`, too."""

    def __init__(
        self,
        uri: str,
        script: Script,
        open_table: Callable[[str, TableLayout], DeltaFolder] = DeltaFolder,
    ) -> None:
        super().__init__(uri, open_table=open_table)
        # Another object, so that what an operation calls in turn is not counted.
        script.attach(self, Catalog(uri, open_table=open_table), _OPERATIONS)


def rival_claims(catalog_uri: str, key: PartitionKey) -> Event:
    """Another run takes the partition over."""

    def event() -> None:
        catalog = Catalog(catalog_uri)
        catalog.claim([catalog.read([key])[key]], "rival", at_ms=1)

    return event


def unknown(call: Call) -> dict[PartitionKey, Outcome]:
    """The answer to a commit whose outcome the catalog does not know."""
    (proposals,) = call.arguments
    return {
        proposal.key: Unknown(commit_id=proposal.commit_id, cause="no answer")
        for proposal in proposals
    }
