"""Segments with a mark of tierfold that brokers have and the row does not name.

    another catalog's             another catalog is at work: refused
    ours, finished or listed      this catalog was set back: refused
    ours, only started            a late send: after the grace period it is retired, then dropped

Rule: PUBLISHING 2.5, 4.6.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.model.segment_ids import Maker, maker_of
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.steps import RefusalCode, Refused, Retire


def unnamed_step(look: Look) -> Refused | Retire | None:
    """What marked segments ask for that the row does not name; None: nothing now."""
    forgotten: list[str] = []
    for maker, segment in _unnamed(look):
        segment_id = segment.added.segment_id
        if maker is not Maker.THIS_CATALOG:
            return Refused(
                code=RefusalCode.ANOTHER_CATALOG,
                why=f"brokers have segment {segment_id}, which a run of another catalog made",
            )
        if segment.state is not SegmentState.COPY_STARTED:
            return Refused(
                code=RefusalCode.CATALOG_SET_BACK,
                why=f"brokers have segment {segment_id}, which a run of this catalog made and the"
                " row does not name",
            )
        if look.now_ms - segment.since_ms >= look.limits.grace_ms:
            forgotten.append(segment_id)
    if not forgotten:
        return None
    return Retire(
        segment_ids=tuple(sorted(forgotten)),
        why="runs of this catalog started them, and no row remembers them",
    )


def _unnamed(look: Look) -> Iterator[tuple[Maker, BrokerSegment]]:
    named = look.row.named_ids
    for segment_id, segment in look.view.segments.items():
        maker = maker_of(segment_id, look.fingerprint)
        if segment_id not in named and maker is not Maker.BROKER:
            yield maker, segment
