"""What a look says to do next: one of a closed set of steps, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tierfold.compaction.brokers.events import Event


class Purpose(StrEnum):
    """What a send is for."""

    START = "start"
    """Brokers learn of replacements, which they do not read yet."""
    SWAP = "swap"
    """One batch: brokers read the replacements of one group, and no longer what they replace."""
    REPAIR = "repair"
    """Brokers find offsets again that no look-up found."""
    GONE = "gone"
    """Brokers forget segments whose objects are deleted."""
    NAME_AGAIN = "name again"
    """The metadata topic was lost: it is to name what is in the tier, which nothing finds yet."""
    SERVE_AGAIN = "serve again"
    """The metadata topic was lost: look-ups find again what is live."""
    LIST_AGAIN = "list again"
    """The timestamp of a deletion lies in the future: its grace period begins again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send these events, in this order, and look again."""

    purpose: Purpose
    events: tuple[Event, ...]
    why: str
    """A clause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing can be sent yet."""

    until_ms: int | None
    """Epoch milliseconds; None: until brokers have done their part."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Write these segments into one replacement, by effective ranges, and look again.

    It is no pass: no tombstone or marker is dropped.
    """

    segment_ids: tuple[str, ...]
    """In offset order; the row adopts those that it does not name."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copy this live segment under a new id, and look again: brokers deleted it themselves."""

    segment_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """Note these segments as retired in the row, and look again: they are then dropped as any.

    A run of this catalog started them, and no row remembers them; or they are uploads of which
    live segments have all offsets.
    """

    segment_ids: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete the objects of these retired segments, and look again."""

    segment_ids: tuple[str, ...]
    why: str


class RefusalCode(StrEnum):
    """Why nothing is sent until a person acts."""

    READ_ONLY = "read only"
    """A record of the metadata topic is in the way (`ReadOnly`)."""
    BEYOND_LOG = "beyond log"
    """The brokers' log ends below the tier's."""
    ANOTHER_CATALOG = "another catalog"
    """A run of another catalog made a segment that brokers have."""
    CATALOG_SET_BACK = "catalog set back"
    """A run of this catalog made a segment that brokers had whole, and the row does not name it."""
    OUTSIDE_LINEAGE = "outside lineage"
    """Brokers have a whole segment of another history over the offsets of live ones."""
    NEVER_NAMED = "never named"
    """Brokers never had an upload that is live."""
    DELETED_BY_BROKERS = "deleted by brokers"
    """Brokers deleted a live segment, and its objects are not there either."""
    UNCOVERED = "uncovered"
    """Nothing live covers what is to be dropped."""
    NO_ORDER = "no order"
    """Every order of the group's events would leave an offset without a segment for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Nothing is sent for this partition until a person acts."""

    code: RefusalCode
    why: str
    """What is wrong; it names segments and offsets."""


@dataclass(frozen=True, slots=True)
class Done:
    """Brokers have what the row says."""


OpenStep: TypeAlias = Send | Wait | Merge | Copy | Retire | Refused
"""Brokers do not have all that the row says."""

Step: TypeAlias = OpenStep | Done
"""What `next_step` decides."""

Deletion: TypeAlias = Send | Delete | Wait | Done
"""What `next_deletion` decides."""
