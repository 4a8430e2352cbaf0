"""When replaced segments will be gone, or why they stay.

    brokers            writer     gone                                     reason
    none (detached)    any        with the first `vacuum` past the grace   VACUUM
    may serve it       tierfold   the same                                 VACUUM
    may serve it       a broker   when brokers expire it                   RETENTION
    may serve it       a broker   nothing is known to remove them          KEPT
    have it            any        after they are listed for deletion       PUBLISHED
    list it            any        with the first `vacuum` past the grace   LISTED
    do not have it     any        the same, with nothing to send           VACUUM

A broker does not know that a segment of its own was replaced (docs/semantics.md, 9): it
expires, as in Kafka's `RemoteLogManager.RLMExpirationTask`, if `cleanup.policy` includes `delete`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tierfold.compaction.deletion.deletion_plan import GRACE_MS
from tierfold.compaction.deletion.dropped import Dropped
from tierfold.compaction.model.bindings import Binding, Detached, ServedBy
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import RetiredSegment, Segment
from tierfold.compaction.model.wording import duration, spaced

_EARLIER: Final = (
    "or earlier: brokers delete them themselves once their log start passes them, or if no live"
    " segment lies at or before them"
)
"""Kafka 4.0's `RLMExpirationTask` also deletes what is listed before the first live segment."""


class Removal(StrEnum):
    """What removes replaced segments."""

    VACUUM = "vacuum"
    RETENTION = "retention.ms"
    LISTED = "listed"
    """`vacuum`, which then lets brokers forget them."""
    PUBLISHED = "published"
    """The same, once brokers list them."""
    KEPT = "kept"
    """Nothing is known to do it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededBytes:
    """Replaced segments that the same thing removes, and when the last of them goes."""

    removal: Removal
    size_bytes: int
    """Of their whole `.log`s."""
    gone_at_ms: int | None
    """Epoch milliseconds, the earliest; None: never, or it is not known."""
    why_kept: str = ""
    """A clause; empty unless they are kept."""

    def sentence(self, gone_at: str) -> str:
        """What removes them and when, or why nothing does; `gone_at`: the time as text."""
        what = f"{spaced(self.size_bytes)} bytes of replaced segments stay"
        if self.removal is Removal.KEPT:
            return (
                f"{what}: a broker may serve them, so `tierfold vacuum` keeps them, and nothing"
                f" known expires them ({self.why_kept}). If no broker serves this tier, set"
                " tier.binding=detached"
            )
        if self.removal is Removal.PUBLISHED:
            return (
                f"{what} until `compact --publish` has let brokers list them for deletion; they go"
                f" a grace period ({duration(GRACE_MS)}) after brokers list them, {_EARLIER}"
            )
        if self.removal is Removal.LISTED:
            return (
                f"{what} until the first `tierfold vacuum --publish` after {gone_at}, a grace"
                f" period ({duration(GRACE_MS)}) after brokers listed them for deletion,"
                f" {_EARLIER}"
            )
        if self.removal is Removal.RETENTION:
            return (
                f"{what} until brokers expire them by their own retention.ms, which tierfold was"
                " not told: name the brokers (--bootstrap-server), or set tier.binding=detached if"
                " none serves this tier"
            )
        grace = f"the grace period is {duration(GRACE_MS)}"
        return f"{what} until the first `tierfold vacuum` after {gone_at} ({grace})"


def superseded_bytes(
    retired: Iterable[RetiredSegment],
    rules: Rules,
    binding: Binding,
    dropped: Dropped | None = None,
) -> tuple[SupersededBytes, ...]:
    """When a partition's replaced segments will be gone, joined as by `joined`.

    `dropped`: what brokers do not need of them; None: that is not known.
    """
    known = dropped or Dropped()
    return joined(_of_one(entry, rules, binding, known) for entry in retired)


def joined(parts: Iterable[SupersededBytes]) -> tuple[SupersededBytes, ...]:
    """One value per removal and reason, in the order of `Removal`; its time is the latest."""
    groups: dict[tuple[Removal, str], list[SupersededBytes]] = defaultdict(list)
    for part in parts:
        groups[part.removal, part.why_kept].append(part)
    found = (
        SupersededBytes(
            removal=removal,
            size_bytes=sum(part.size_bytes for part in of_one),
            gone_at_ms=all_gone_at_ms(of_one),
            why_kept=why_kept,
        )
        for (removal, why_kept), of_one in groups.items()
    )
    order = [*Removal]
    return tuple(sorted(found, key=lambda part: (order.index(part.removal), part.why_kept)))


def all_gone_at_ms(parts: Iterable[SupersededBytes]) -> int | None:
    """The earliest time at which all of them are gone, epoch milliseconds; None: never, or none."""
    times_ms = [part.gone_at_ms for part in parts]
    known_ms = [time_ms for time_ms in times_ms if time_ms is not None]
    return max(known_ms, default=None) if len(known_ms) == len(times_ms) else None


def _of_one(
    entry: RetiredSegment, rules: Rules, binding: Binding, dropped: Dropped
) -> SupersededBytes:
    segment, is_served = entry.segment, isinstance(binding, ServedBy)
    if is_served and (listed_ms := dropped.listed.get(segment.segment_id)) is not None:
        since_ms = max(listed_ms, entry.retired_at_ms)
        return SupersededBytes(
            removal=Removal.LISTED, size_bytes=segment.log_bytes, gone_at_ms=since_ms + GRACE_MS
        )
    is_going = entry.deletion_started_at_ms is not None
    is_unneeded = is_going or segment.segment_id in dropped.may_leave_row
    if is_served and not is_unneeded:
        return SupersededBytes(
            removal=Removal.PUBLISHED, size_bytes=segment.log_bytes, gone_at_ms=None
        )
    is_decided_here = isinstance(binding, Detached | ServedBy) or not segment.is_named_by_brokers
    if is_decided_here or is_going:
        removal, gone_at_ms, why_kept = Removal.VACUUM, entry.retired_at_ms + GRACE_MS, ""
    elif why_kept := _why_kept(segment, rules):
        removal, gone_at_ms = Removal.KEPT, None
    else:
        removal, gone_at_ms = Removal.RETENTION, None  # By the brokers' settings, not by these.
    return SupersededBytes(
        removal=removal,
        size_bytes=segment.log_bytes,
        gone_at_ms=gone_at_ms,
        why_kept=why_kept,
    )


def _why_kept(segment: Segment, rules: Rules) -> str:
    """Why the settings here do not expire the segment; empty: they do."""
    if not rules.is_deleted:
        return "the cleanup.policy set here has no delete"
    if rules.retention_ms < 0:
        return "retention.ms is -1"
    return "they have no timestamp" if segment.max_timestamp_ms < 0 else ""
