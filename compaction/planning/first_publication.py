"""What it means to publish a tier for the first time that was compacted without its brokers.

Its tombstones went while brokers still served the originals. A reader may have read a value from
those, and finds no tombstone in what is published. So a person agrees to it before.

Rule: PUBLISHING 5.3.
"""

from __future__ import annotations

from typing import Final

from tierfold.compaction.brokers.events import SegmentState, SegmentUpdated
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import ConsentKind
from tierfold.compaction.publishing.batches import fitting
from tierfold.compaction.publishing.look import PublishingLimits
from tierfold.compaction.publishing.replacements import NO_BROKER
from tierfold.compaction.publishing.steps import Done, Refused, Step

_ON_THEIR_WAY: Final = (
    "tombstones or markers went from it before brokers knew of any pass: a reader that is on its"
    " way from the start to the end when it is first published may keep a deleted key, and should"
    " begin again"
)
_EVERY_READER: Final = (
    ". One batch of events cannot hold it, and versions decide which record stays: until all of it"
    " is published, every reader may see deleted keys"
)
_AGREED: Final = (ConsentKind.DELETED_KEYS, ConsentKind.ADOPTED)
"""What a row adopts is what brokers have, or what another catalog's run was publishing."""
_REMEDY: Final = (
    "Choose a time at which such readers can begin again, and run with --readers-begin-again: the"
    " catalog records that."
)


def first_publication_refusal(
    view: PartitionView, rules: Rules, step: Step | None
) -> Refusal | None:
    """The refusal of a row that is yet to be published, and that lacks a person's consent."""
    row = view.state
    if row is None or not _needs_consent(row):
        return None
    if step is None or isinstance(step, Done | Refused):
        return None
    is_hard = rules.compaction_strategy is not CompactionStrategy.OFFSET and not _fits(view, row)
    return Refusal(
        reason=RefusalReason.DELETED_KEYS,
        detail=_ON_THEIR_WAY + (_EVERY_READER if is_hard else ""),
        remedy=_REMEDY,
    )


def _needs_consent(row: PartitionState) -> bool:
    was_published = any(one.published_at_ms is not None for one in row.passes)
    has_agreed = any(one.kind in _AGREED for one in row.consents)
    return row.is_served and row.has_dropped and not was_published and not has_agreed


def _fits(view: PartitionView, row: PartitionState) -> bool:
    """Whether one batch holds the events that let consumers read the row in place of the rest."""
    known = {} if view.brokers is None else view.brokers.view.segments
    new = [one.segment_id for one in row.segments if not one.is_named_by_brokers]
    states = dict.fromkeys(new, SegmentState.COPY_FINISHED)
    states |= dict.fromkeys(row.retired_ids & known.keys(), SegmentState.DELETE_STARTED)
    events = [
        SegmentUpdated(
            row.key,
            segment_id,
            NO_BROKER,
            row.committed_at_ms,
            known[segment_id].custom_metadata if segment_id in known else None,
            state,
        )
        for segment_id, state in states.items()
    ]
    limits = PublishingLimits(grace_ms=0, upload_wait_ms=0)
    return len(fitting(events, limits.batch_bytes_max)) == len(events)
