"""What `rebuild` takes as part of the log: the row and the listing say it, and brokers do not.

Rule: PUBLISHING 6.6.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.view import PLACE, PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.segment_ids import Maker
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.lost_metadata import unnamed

_UNUSED: Final = (
    "Bring the missing segment back, or run again once its upload is complete. If brokers had"
    " compacted the topic before it was tiered, and nothing is missing: --holes-are-holes."
)


def without_deleted(
    row: PartitionState | None, listed: Collection[ListedSegment], log_start: int
) -> PartitionState | None:
    """The row without live segments that brokers deleted for their log start, objects and all.

    Those of which any object is there stay: the log start may be wrong.
    """
    if row is None:
        return None
    present = {one.segment_id for one in listed}
    live = tuple(
        one for one in row.segments if one.end_offset >= log_start or one.segment_id in present
    )
    if live == row.segments:
        return row
    start = live[0].start_offset if live else log_start
    return replace(row, segments=live, log_start_offset=start).with_live_notes()


def covered_uploads(facts: PartitionFacts, view: PartitionView) -> tuple[Segment, ...]:
    """The whole uploads of the log that are not live: live segments have all their offsets.

    `facts`: those of which the view was made, without brokers. Of what is incomplete, corrupt or
    perhaps another cluster's no segment is known.
    """
    live = {one.segment_id for one in view.segments}
    start = min((one.own_start_offset for one in view.segments), default=0)
    return tuple(
        found.segment
        for found in facts.candidates
        if found.segment is not None
        and found.segment_id not in live
        and found.maker is Maker.BROKER
        and start <= found.start_offset
        and found.segment.end_offset < view.next_offset
        and found.fits(view.lineage)
    )


def unknown_uploads(look: Look) -> tuple[str, ...]:
    """Ids of whole uploads that neither row nor topic names, and that a rebuild does not name.

    As below the log start: if they are of the log, a broker that knew them would delete them. Every
    other verb refuses the partition for them (`discovery.refused_by_brokers`).
    """
    named = look.rebuilds.keys() | look.row.named_ids | look.row.left_alone_ids
    return tuple(
        segment_id
        for segment_id in sorted(look.whole - named)
        if look.is_upload(segment_id) and not look.was_named(segment_id)
    )


def unpublished_refusal(look: Look) -> Refusal | None:
    """The refusal if uploads were lost of a row that `was_never_published`; None: none were.

    To name its replacements would be their first publication, which has rules of its own.
    """
    if not unnamed(with_uploads_only(look)):
        return None
    return Refusal(
        reason=RefusalReason.DELETED_KEYS,
        detail="the metadata topic no longer names what brokers uploaded, and the catalog has"
        " compacted it without ever publishing that",
        remedy=f"`tierfold restore {PLACE} --to TIME` without brokers, to the state that"
        " `tierfold history` calls found: what brokers uploaded is then live again. Then run this"
        " again.",
    )


def with_uploads_only(look: Look) -> Look:
    """The look of which only what brokers uploaded is to be named again."""
    uploads = {name: one for name, one in look.rebuilds.items() if look.is_upload(name)}
    return replace(look, rebuilds=uploads)


def was_never_published(row: PartitionState | None) -> bool:
    """Whether the row has live replacements that brokers were never sent."""
    if row is None or row.is_served:
        return False
    return not all(one.is_named_by_brokers for one in row.segments)


def unused_refusal(view: PartitionView) -> Refusal | None:
    """The refusal if whole segments may hold offsets beyond the live ones; None: there are none."""
    whole = [one for one in view.waiting if one.is_complete]
    if not whole:
        return None
    why = "; ".join(view.notes)
    return Refusal(
        reason=RefusalReason.GAP,
        detail=f"{whole[0]} is whole, and cannot be used: {why}",
        remedy=_UNUSED,
    )
