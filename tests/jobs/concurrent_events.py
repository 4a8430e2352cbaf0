"""The real catalog, with another event just before or after the call that a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import pytest

from tierfold.compaction.commits.commit import CommitProposal
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.outcomes import Outcome
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.cli import arguments as cli_arguments
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.storage.catalog.catalog import Catalog, Claim

Event = Callable[[], None]


def nothing() -> None:
    """No event."""


def at_the(number: int, event: Event) -> Event:
    """The event, when it is asked for the `number`th time, counted from 1."""
    calls = count(1)

    def when() -> None:
        if next(calls) == number:
            event()

    return when


def no_answer() -> None:
    """As a store that does not answer."""
    raise UnreadableObject("no answer", where="the store", remedy="Look again.")


class EventfulCatalog(Catalog):
    """Does what the catalog does; the events happen before and after."""

    def __init__(
        self,
        uri: str,
        *,
        before_claim: Event = nothing,
        after_claim: Event = nothing,
        before_commit: Event = nothing,
        after_commit: Event = nothing,
        before_resolve: Event = nothing,
    ) -> None:
        super().__init__(uri)
        self._before_claim = before_claim
        self._after_claim = after_claim
        self._before_commit = before_commit
        self._after_commit = after_commit
        self._before_resolve = before_resolve

    def claim(
        self, states: Sequence[PartitionState], run: str, *, at_ms: int
    ) -> dict[PartitionKey, Claim]:
        self._before_claim()
        claims = super().claim(states, run, at_ms=at_ms)
        self._after_claim()
        return claims

    def commit(self, proposals: Sequence[CommitProposal]) -> dict[PartitionKey, Outcome]:
        self._before_commit()
        outcomes = super().commit(proposals)
        self._after_commit()
        return outcomes

    def resolve(
        self, proposals: Sequence[CommitProposal]
    ) -> dict[PartitionKey, Outcome | None]:
        self._before_resolve()
        return super().resolve(proposals)


@contextmanager
def interrupted(
    *,
    before_claim: Event = nothing,
    after_claim: Event = nothing,
    before_commit: Event = nothing,
) -> Iterator[None]:
    """Run the command with such a catalog inside this block."""

    def opened_so(tier_uri: str, catalog_uri: str | None, now: int | None) -> RunContext:
        context = run_context(tier_uri, catalog_uri, now)
        catalog = EventfulCatalog(
            context.catalog_uri,
            before_claim=before_claim,
            after_claim=after_claim,
            before_commit=before_commit,
        )
        return replace(context, catalog=catalog)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli_arguments, "run_context", opened_so)
        yield


def rival_claims(catalog_uri: str, key: PartitionKey) -> Event:
    """Another run takes the partition over."""

    def event() -> None:
        catalog = Catalog(catalog_uri)
        catalog.claim([catalog.read([key])[key]], "rival", at_ms=1)

    return event
