"""`tierfold history`: the past states of a partition, and which of them can be restored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from tierfold.compaction.commits.history import Entry, entries, notable
from tierfold.compaction.commits.restore import RestorePlan, restore_plan_of
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import named
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.partition_report import OK


def past_of(context: RunContext, key: PartitionKey) -> tuple[Entry, Iterator[Entry]] | None:
    """Return the newest entry, and all entries, newest first; None: no run has touched it.

    The iterator reads lazily, one version of the catalog's table per entry; there may be
    thousands. Both the function and the iterator raise TierfoldError.
    """
    found = entries(context.catalog.history(key))
    newest = next(found, None)
    return None if newest is None else (newest, chain((newest,), found))


def check_catalog(context: RunContext) -> None:
    """Raise BadSettings if `--catalog` names a place without a catalog: it has no past."""
    if context.catalog_words and not context.catalog.exists():
        raise BadSettings(
            f"there is no catalog in {context.catalog_uri}",
            where="--catalog",
            remedy="Name the catalog of the runs that compacted this tier, or leave --catalog out"
            " if it is in the tier.",
        )


def claim_sentence(newest: Entry) -> str:
    """Return which run holds the partition and since when; empty: none."""
    if not newest.state.owner_run:
        return ""
    return f"run {newest.state.owner_run} holds it since {timestamp_text(newest.claimed_at_ms)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One entry, and whether it can be restored."""

    entry: Entry
    restore_plan: RestorePlan | Refusal
    is_current: bool
    """It is the newest: its segments are the live ones."""

    @property
    def is_restorable(self) -> bool:
        """Decided from the catalog alone; `restore` checks the objects."""
        return isinstance(self.restore_plan, RestorePlan)

    @property
    def why_not(self) -> str:
        """Why it cannot be restored; empty if it can."""
        return self.restore_plan.detail if isinstance(self.restore_plan, Refusal) else ""

    @property
    def is_same_as_current(self) -> bool:
        """Its segments are the live ones, so a restore changes nothing."""
        return isinstance(self.restore_plan, RestorePlan) and self.restore_plan.is_nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHistory:
    """The history of one partition."""

    key: PartitionKey
    holder: str
    """Which run holds it and since when; empty: none."""
    lines: tuple[HistoryLine, ...]
    """Newest first."""
    has_older: bool
    """`--limit` left lines out."""
    catalog: str
    """The catalog's folder or URI."""

    @property
    def outcome(self) -> str:
        """`ok`: every history that can be read."""
        return OK

    @property
    def reason(self) -> str:
        """Empty: `ok` needs none."""
        return ""


def history(context: RunContext, name: str, limit: int | None = None) -> PartitionHistory:
    """Return the newest `limit` states of the partition `name`, or all; nothing is changed.

    `name` is `orders-0`, or the partition's folder. Raises BadSettings if it matches none or
    several, or if `--catalog` names a place without a catalog; TierfoldError if the catalog cannot
    be read.
    """
    key = named(context.tier.partitions(), name, where=context.tier_uri)
    check_catalog(context)
    past = past_of(context, key)
    if past is None:
        return PartitionHistory(
            key=key, holder="", lines=(), has_older=False, catalog=context.catalog_uri
        )
    newest, found = past
    shown = list(islice(notable(found), None if limit is None else limit + 1))
    return PartitionHistory(
        key=key,
        holder=claim_sentence(newest),
        lines=tuple(
            HistoryLine(
                entry=entry,
                restore_plan=restore_plan_of(entry.state, newest.state),
                is_current=number == 0,
            )
            for number, entry in enumerate(shown[:limit])
        ),
        has_older=limit is not None and len(shown) > limit,
        catalog=context.catalog_uri,
    )
