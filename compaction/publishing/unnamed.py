"""Segments with a mark of tierfold that brokers have and the row does not name.

    another catalog's             another catalog is at work: refused
    ours, brokers had it whole    this catalog was set back: refused
    ours, only started            a late send: after the grace period it is retired, then dropped

Rule: PUBLISHING 2.5, 4.6; `compaction.brokers.unnamed_writes`.
"""

from __future__ import annotations

from tierfold.compaction.brokers.unnamed_writes import unnamed_writes
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.steps import RefusalCode, Refused, Retire


def unnamed_step(look: Look) -> Refused | Retire | None:
    """What marked segments ask for that the row does not name; None: nothing now."""
    unnamed = unnamed_writes(look.view, look.row.named_ids, look.log_start, look.fingerprint)
    if unnamed.of_others:
        return Refused(
            code=RefusalCode.ANOTHER_CATALOG,
            why=f"brokers have segment {unnamed.of_others[0].added.segment_id}, which a run of"
            " another catalog made",
        )
    if unnamed.finished:
        return Refused(
            code=RefusalCode.CATALOG_SET_BACK,
            why=f"brokers have segment {unnamed.finished[0].added.segment_id}, which a run of this"
            " catalog made and the row does not name",
        )
    forgotten = [
        segment.added.segment_id
        for segment in unnamed.started
        if look.now_ms - segment.since_ms >= look.limits.grace_ms
    ]
    if not forgotten:
        return None
    return Retire(
        segment_ids=tuple(sorted(forgotten)),
        why="runs of this catalog started them, and no row remembers them",
    )
