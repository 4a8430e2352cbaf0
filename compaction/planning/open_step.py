"""Whether brokers have what a served row says, so that a new pass may be planned.

If versions decide, a tombstone may lie below what it hides. So a second pass over one that is not
published would bring values back.

Rule: PUBLISHING 5.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.publishing.look import PUBLISHING_GRACE_MS, Look, PublishingLimits
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Done, Merge, Refused, Step


def step_of(view: PartitionView, rules: Rules, now_ms: int) -> Step | None:
    """What publishing does next for the row as it was read; None: no look at brokers says it.

    Only whether it is done matters here: the objects in the tier were not compared.
    """
    look = served_look(view, rules, now_ms)
    return None if look is None else next_step(look)


def served_look(view: PartitionView, rules: Rules, now_ms: int) -> Look | None:
    """What brokers have of a partition that they serve by its row; None: they do not, or no answer.

    Objects in the tier do not matter in it.
    """
    if view.state is None or not view.state.is_served:
        return None
    limits = PublishingLimits(grace_ms=PUBLISHING_GRACE_MS, upload_wait_ms=rules.upload_wait_ms)
    return look_of(view, limits, now_ms)


def look_of(
    view: PartitionView,
    limits: PublishingLimits,
    now_ms: int,
    listed: Iterable[ListedSegment] | None = None,
) -> Look | None:
    """The view as publishing decides from it; None: it has no row, or brokers do not say all.

    `listed`: the whole listing that the view was made from; None: objects do not matter.
    """
    row, brokers = view.state, view.brokers
    if row is None or brokers is None or brokers.known_offsets is None:
        return None
    look = Look(
        row=row,
        view=brokers.view,
        naming=brokers.naming,
        offsets=brokers.known_offsets,
        lineage=view.lineage,
        limits=limits,
        fingerprint=brokers.asked_by,
        now_ms=now_ms,
    )
    if listed is None:
        return look
    found = tuple(listed)
    return replace(
        look,
        whole=frozenset(one.segment_id for one in found if one.is_complete),
        present=frozenset(one.segment_id for one in found),
    )


def why_open(row: PartitionState | None, step: Step | None) -> str:
    """Why no new pass is planned, a clause; empty: one may be.

    A merge is no reason: it rewrites one group, and drops no tombstone or marker.
    """
    if row is None or not row.is_served:
        return ""
    match step:
        case Done() | Merge():
            return ""
        case None:
            return "what brokers have is not known, so no new pass begins"
        case Refused(why=why):
            return f"nothing can be published, so no new pass begins: {why}"
        case _:
            return f"an earlier pass is not wholly published, so no new one begins: {step.why}"
