"""A partition as its row, its listing and its brokers have it, from a few words each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tests.compaction.broker_events import records
from tests.compaction.builders import KEY, agreeing, listed
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets, UnknownOffsets
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.epoch_ends import EpochEnd
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.brokers.metadata_fold import MetadataFold
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.draft import drafted
from tierfold.compaction.discovery.drafted_view import view_of
from tierfold.compaction.discovery.facts import PartitionFacts, from_log_start
from tierfold.compaction.discovery.listing import classify, without_expired
from tierfold.compaction.discovery.phases import as_brokers_have, by_phase, live_end_by
from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.segment_ids import SegmentMark
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.storage.kafka.kafka_uuid import new_segment_id

CATALOG: Final = 0xC0FFEE
"""The fingerprint of the catalog that asks."""


def own_id(fingerprint: int = CATALOG) -> str:
    """A new id as a run makes it, by default under the catalog that asks."""
    return new_segment_id(SegmentMark(fingerprint, is_restored=False))


def brokers_have(
    events: Sequence[Event],
    ids: Iterable[str] = (),
    offsets: PartitionOffsets | UnknownOffsets | None = None,
    key: PartitionKey = KEY,
    **numbers: int,
) -> BrokerPartition:
    """What brokers have after these events; `numbers`: offsets, by default a log up to 1000."""
    fold = MetadataFold(1)
    fold.ask(key, ids)
    fold.apply(records(*events))
    known = {"log_start": 0, "high_watermark": 1000, "last_stable": 1000} | numbers
    return BrokerPartition(
        view=fold.view(key),
        naming=fold.naming(key),
        offsets=offsets or PartitionOffsets(**known),
        # As if the log went on under each epoch.
        epoch_answers={epoch: EpochEnd(epoch=epoch, end_offset=10**6) for epoch in range(10)},
        asked_by=CATALOG,
    )


def facts_beside(
    state: PartitionState | None,
    found: Sequence[Candidate],
    events: Sequence[Event],
    *,
    gone: Iterable[str] = (),
    **offsets: Any,
) -> PartitionFacts:
    """A tier with the segments of the row, without those in `gone`, and with `found`."""
    named = () if state is None else state.named_segments
    listing = [*(listed(one) for one in named if one.segment_id not in set(gone))]
    listing += [candidate.listed for candidate in found]
    ids = {one.segment_id for one in (*listing, *named)}
    brokers = brokers_have(events, ids, **offsets)
    classified = classify(listing, state)
    if state is not None:
        classified = without_expired(classified, from_log_start(state, brokers).segments)
    sorted_out = by_phase(classified.unknown, brokers)
    finished = {one.segment_id for one in sorted_out.finished}
    return PartitionFacts(
        key=KEY,
        state=state,
        classified=classified,
        candidates=tuple(
            as_brokers_have(candidate, brokers)
            for candidate in found
            if candidate.segment_id in finished
        ),
        live_end=live_end_by(brokers, state),
        brokers=brokers,
        fingerprint=CATALOG,
        left_alone=sorted_out.left_alone,
    )


def discovered_beside(*given: Any, **offsets: Any) -> PartitionView | Refusal:
    """The view or refusal of `facts_beside`, in which all overlaps agree."""
    draft = drafted(facts_beside(*given, **offsets))
    return draft if isinstance(draft, Refusal) else view_of(draft, agreeing(draft))


def view_beside(*given: Any, **offsets: Any) -> PartitionView:
    """The view of such a partition, which is not refused."""
    view = discovered_beside(*given, **offsets)
    assert isinstance(view, PartitionView), view
    return view


def refusal_beside(*given: Any, **offsets: Any) -> Refusal:
    """The refusal of such a partition."""
    refusal = discovered_beside(*given, **offsets)
    assert isinstance(refusal, Refusal), refusal
    return refusal
