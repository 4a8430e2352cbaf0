"""`tierfold history`: what happened to a partition, and which of its states can be restored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compaction.history import Entry, entries, told
from compaction.segments import PartitionKey, PartitionState
from compaction.undo import Restoration, restoration
from compaction.view import Refusal
from jobs.moments import moment
from jobs.partition_names import named
from jobs.survey import Scope
from jobs.wiring import Wiring


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A partition's present row, and all that is remembered of how it came about."""

    row: PartitionState
    entries: tuple[Entry, ...]
    """In the order in which they were written; the last one's state is `row`."""

    @property
    def claimed_at_ms(self) -> int:
        """When the present epoch was opened, as far as it is remembered."""
        return next(
            each.state.committed_at_ms
            for each in self.entries
            if each.state.epoch == self.row.epoch
        )

    @property
    def holder(self) -> str:
        """Who holds the partition and since when; empty: nobody does."""
        run = self.row.owner_run
        return f"run {run} holds it since {moment(self.claimed_at_ms)}" if run else ""


def past_of(live: Wiring, key: PartitionKey) -> Past | None:
    """What the catalog remembers of a partition; None: no run has touched it. Raises TierfoldError.

    Each version of the catalog's table is opened, as far back as there is one.
    """
    rows = list(live.catalog.history(key))[::-1]
    return Past(row=rows[-1], entries=entries(rows)) if rows else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One entry, and whether the partition can go back to it."""

    entry: Entry
    way_back: Restoration | Refusal

    @property
    def is_restorable(self) -> bool:
        """By the catalog alone; that the objects are whole is looked at when it is done."""
        return isinstance(self.way_back, Restoration)

    @property
    def why_not(self) -> str:
        """Empty where it is restorable."""
        return self.way_back.detail if isinstance(self.way_back, Refusal) else ""

    @property
    def is_live(self) -> bool:
        """Its segments are those that live now."""
        return isinstance(self.way_back, Restoration) and self.way_back.is_nothing

    def as_json(self) -> dict[str, Any]:
        """The entry in the `--json` document."""
        state = self.entry.state
        return {
            "committed_at": moment(state.committed_at_ms),
            "committed_at_ms": state.committed_at_ms,
            "run": self.entry.run,
            "event": self.entry.event.value,
            "epoch": state.epoch,
            "commit_id": state.commit_id,
            "segments_in": self.entry.segments_in,
            "segments_out": self.entry.segments_out,
            "segments": [segment.segment_id for segment in state.segments],
            "live_bytes": state.live_bytes,
            "cleaner_offset": state.cleaner_offset,
            "log_start_offset": state.log_start_offset,
            "next_offset": state.next_offset,
            "is_live": self.is_live,
            "is_restorable": self.is_restorable,
            "why_not": self.why_not,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHistory:
    """What is told of one partition."""

    key: PartitionKey
    holder: str
    """Who holds it and since when; empty: nobody does."""
    lines: tuple[HistoryLine, ...]
    """Newest first."""
    older: int
    """Lines that `--limit` left out."""

    def as_json(self) -> dict[str, Any]:
        """The partition's entry in the `--json` document."""
        return {
            "topic": self.key.topic,
            "partition": self.key.partition,
            "topic_id": self.key.topic_id,
            "holder": self.holder,
            "older": self.older,
            "history": [each.as_json() for each in self.lines],
        }


def history(live: Wiring, name: str, limit: int | None = None) -> PartitionHistory:
    """The newest `limit` states of the partition `name`, or all; nothing is changed.

    `name` is `orders-0`, or the partition's folder. Raises BadSettings where it is none, or
    several, and TierfoldError where the catalog cannot be read.
    """
    key = named(live, Scope(), name, where="tierfold history")
    past = past_of(live, key)
    if past is None:
        return PartitionHistory(key=key, holder="", lines=(), older=0)
    found = told(past.entries)[::-1]
    shown = found[:limit]
    return PartitionHistory(
        key=key,
        holder=past.holder,
        lines=tuple(
            HistoryLine(entry=entry, way_back=restoration(entry.state, past.row))
            for entry in shown
        ),
        older=len(found) - len(shown),
    )
