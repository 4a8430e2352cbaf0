"""Replacements that brokers read again, although runs deleted their objects.

Two late sends, one of each of two suspended runs, bring back one that was replaced in its turn:

    brokers    R 0-19 finished, found by look-ups      its objects were deleted long ago
               Q 0-19 finished, not found              whole

Other segments have all of its records, so nothing is lost: `tierfold forget` retires it, and the
next run that publishes lets look-ups find the others again.

Rule: SWAP.md 2 (the last row of its table); PUBLISHING 2.8, 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.lineage import finished, not_cut_off
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.model.segment_ids import is_own_id


def whole_ids(facts: PartitionFacts) -> frozenset[str]:
    """Ids of the segments whose objects are all in the tier; those that the row names count."""
    unknown = (listed.segment_id for listed in facts.classified.unknown if listed.is_complete)
    return frozenset((*unknown, *(listed.segment_id for listed in facts.classified.known)))


def lost_replacements(facts: PartitionFacts, brokers: BrokerPartition) -> frozenset[str]:
    """Ids of those whose offsets from the log start on are all in whole segments of the log."""
    there = whole_ids(facts)
    had = finished(brokers.view, brokers.log_start)
    log = not_cut_off(had, facts.history().lineage)
    whole = [segment for segment in log if segment.added.segment_id in there]
    return frozenset(
        segment.added.segment_id
        for segment in log
        if segment.added.segment_id not in there
        and is_own_id(segment.added.segment_id)
        and _is_covered(segment, whole, brokers.log_start)
    )


def _is_covered(segment: BrokerSegment, whole: Sequence[BrokerSegment], log_start: int) -> bool:
    """Whether other segments, by start offset, have all offsets from the log start on."""
    missing = max(segment.added.start_offset, log_start)
    for other in whole:
        if other.added.start_offset <= missing <= other.added.end_offset:
            missing = other.added.end_offset + 1
    return missing > segment.added.end_offset
