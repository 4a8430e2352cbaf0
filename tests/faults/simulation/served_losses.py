"""What verbs refuse once the metadata topic was lost, and what it no longer says."""

from __future__ import annotations

from collections.abc import Iterator

from tests.compaction.builders import KEY
from tests.compaction.hash_keys import FINGERPRINT
from tierfold.compaction.brokers.broker_view import Naming
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.discovery import refused_by_brokers
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.listing import ListedSegment, classify
from tierfold.compaction.discovery.metadata_loss import lost_refusal
from tierfold.compaction.discovery.phases import by_phase
from tierfold.compaction.model.segments import RetiredSegment
from tierfold.compaction.publishing.look import Look


def refusal_of(look: Look, metadata_start: int) -> str:
    """Why the product refuses the partition, as its metadata were lost; "": it does not."""
    brokers = BrokerPartition(
        view=look.view,
        naming=look.naming,
        offsets=look.offsets,
        asked_by=FINGERPRINT,
        metadata_start=metadata_start,
    )
    classified = classify(list(listed(look)), look.row)
    facts = PartitionFacts(
        key=KEY,
        state=look.row,
        classified=classified,
        candidates=(),
        fingerprint=FINGERPRINT,
        brokers=brokers,
        left_alone=by_phase(classified.unknown, brokers).left_alone,
    )
    refusal = (
        lost_refusal(facts, brokers)
        or refused_by_brokers._denied(facts, brokers)
        or refused_by_brokers._forgotten_uploads(facts, brokers)
    )
    return "" if refusal is None else refusal.reason


def listed(look: Look) -> Iterator[ListedSegment]:
    """The segments of the listing; where each begins does not matter here."""
    for segment_id in sorted(look.present or ()):
        missing = () if segment_id in look.whole else ("index",)
        yield ListedSegment(
            segment_id=segment_id,
            start_offset=0,
            parts=(("log", 1000),),
            missing_parts=missing,
            modified_ms=0,
        )


def is_over(look: Look, entry: RetiredSegment) -> bool:
    """Whether a retired segment without objects that was never named may be forgotten."""
    is_unnamed = look.naming[entry.segment.segment_id] is Naming.NEVER_NAMED
    may_go = not entry.segment.is_named_by_brokers or look.row.rebuilt_at_ms >= 0
    return is_unnamed and may_go and look.now_ms - entry.retired_at_ms >= look.limits.grace_ms
