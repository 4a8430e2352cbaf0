"""Partitions with one illness each, as pure values, by the code of the finding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from tests.compaction.beside_brokers import CATALOG, brokers_have, facts_beside
from tests.compaction.broker_events import FINISHED, GONE, LISTED, added, updated, uploaded
from tests.compaction.builders import (
    KEY,
    a_chain,
    a_segment,
    a_state,
    agreeing,
    retired,
    segment_id,
    unknown,
)
from tests.compaction.looks import own
from tierfold.compaction.brokers.broker_view import ReadOnly, ReadOnlyCause
from tierfold.compaction.brokers.cluster_facts import Absence, UnknownOffsets
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.diagnosis.examined import Examined
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.draft import drafted
from tierfold.compaction.discovery.drafted_view import view_of
from tierfold.compaction.discovery.identity import OfCluster
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Hole, PartitionState, Segment
from tierfold.compaction.model.serving import Consent, ConsentKind
from tierfold.compaction.publishing.steps import Purpose, Send

NOW_MS: Final = 10_000_000_000
"""Long after everything in these values."""
THREE: Final = a_chain(10, 10, 10)
OTHER: Final = segment_id("other")
NO_TOPIC: Final = UnknownOffsets(Absence.NO_TOPIC, "The cluster has no topic orders.")


def uploads(segments: Iterable[Segment] = THREE) -> list[Event]:
    """Their events, as a broker writes them."""
    found: list[Event] = []
    for one in segments:
        begun = added("", one.start_offset, one.end_offset, segment_id=one.segment_id)
        found += [begun, updated("", FINISHED, segment_id=one.segment_id)]
    return found


def examined(
    state: PartitionState | None,
    segments: Sequence[Segment | Candidate],
    events: Sequence[Event],
    **offsets: Any,
) -> Examined:
    """A partition as `doctor` examines it beside brokers; `segments`: that no row names."""
    found = [one if isinstance(one, Candidate) else unknown(one) for one in segments]
    facts = facts_beside(state, found, events, **offsets)
    draft = drafted(facts)
    view = draft if isinstance(draft, Refusal) else view_of(draft, agreeing(draft))
    listing = facts.classified
    is_refused = isinstance(view, Refusal)
    return Examined(
        key=KEY,
        rules=Rules(),
        now_ms=NOW_MS,
        row=state,
        listed=(*listing.known, *listing.retired, *listing.unknown, *listing.left_alone),
        view=None if isinstance(view, Refusal) else view,
        refusal=view if is_refused else None,
        brokers=facts.brokers,
        fingerprint=CATALOG,
    )


def by_brokers(*events: Event, **offsets: Any) -> Examined:
    """The same without a tier."""
    return Examined(
        key=KEY, rules=Rules(), now_ms=NOW_MS, brokers=brokers_have(events, **offsets)
    )


def by_listing(state: PartitionState | None, segments: Sequence[Segment] = ()) -> Examined:
    """The same without brokers."""
    beside = examined(state, segments, uploads((*segments, *(state.segments if state else ()))))
    assert beside.view is not None
    return replace(beside, brokers=None, view=replace(beside.view, brokers=None))


def beside(segments: Sequence[Segment | Candidate], *more: Event) -> Examined:
    """Three uploads, and what else the tier and brokers have; no row."""
    return examined(None, [*THREE, *segments], [*uploads(), *more])


def other(start_offset: int, end_offset: int) -> Segment:
    """Another segment with these offsets."""
    return a_segment(start_offset, end_offset, segment_id=OTHER)


def its(start_offset: int, end_offset: int) -> list[Event]:
    """Its upload."""
    return uploaded("other", start_offset, end_offset)


def _deleted(*events: Event, whose: OfCluster = OfCluster.LEFT_ALONE) -> Examined:
    brokers = brokers_have(events, [one.segment_id for one in THREE], offsets=NO_TOPIC)
    return replace(HEALTHY, view=None, brokers=brokers, whose=whose)


def _stopped() -> Examined:
    found = beside(())
    assert found.brokers is not None
    stops = ReadOnly(
        cause=ReadOnlyCause.STOPS_BROKERS, metadata_partition=0, offset=7, why="has no value"
    )
    view = replace(found.brokers.view, read_only=(stops,))
    return replace(found, brokers=replace(found.brokers, view=view))


def _vacuum_due() -> Examined:
    old = other(10, 19)
    state = replace(a_state(THREE), retired=(retired(old),))
    return examined(state, (), [*BEFORE, updated("other", LISTED)])


def _left_by_a_loss() -> Examined:
    """Replaced, then lost: the log start has passed it, and no event names it."""
    rebuilt = Consent(kind=ConsentKind.REBUILT, given_at_ms=5, run="mine")
    live = THREE[1:]
    state = a_state(live, retired=(retired(THREE[0]),), consents=(rebuilt,))
    return examined(state, (), uploads(live), log_start=10)


def _swap() -> Examined:
    swap = Send(purpose=Purpose.SWAP, events=(), why="brokers have not swapped it")
    return replace(beside(()), step=swap)


FOREIGN: Final = a_segment(10, 19, segment_id=own("theirs", 5))
HEALTHY: Final = beside(())
BEFORE: Final = (*its(10, 19), *uploads())
"""The other upload came first, so look-ups do not find it."""
GONE_FROM_MIDDLE: Final = (*uploads(), updated(10, LISTED), updated(10, GONE))

ILL: Final[dict[str, Examined]] = {
    "upload_stuck": beside([other(10, 19)], added("other", 10, 19)),
    "deletion_stuck": examined(None, [*THREE, other(10, 19)], [*BEFORE, updated("other", LISTED)]),
    "unpublished": _swap(),
    "not_in_tier": examined(None, [THREE[0], THREE[2]], uploads()),
    "never_named": beside([other(10, 19)]),
    "undeleted_objects": examined(
        None, [*THREE, other(10, 19)], [*BEFORE, updated("other", LISTED), updated("other", GONE)]
    ),
    "orphans": beside([a_segment(10, 19, segment_id=own("ours", CATALOG))]),
    "vacuum_due": _vacuum_due(),
    "left_by_a_loss": _left_by_a_loss(),
    "topic_deleted": _deleted(*uploads()),
    "topic_unknown": _deleted(),
    "gap": by_brokers(*GONE_FROM_MIDDLE),
    "unfound_offsets": by_brokers(*uploads(), *its(10, 29), updated(10, FINISHED)),
    "holes_assumed": by_listing(a_state(THREE, holes=(Hole(start_offset=9, end_offset=9),))),
    "overlapping_uploads": beside([other(10, 29)], *its(10, 29)),
    "small_segments": examined(None, a_chain(*[10] * 20), uploads(a_chain(*[10] * 20))),
    "another_catalog": beside([FOREIGN], *uploads([FOREIGN])),
    "metadata_stops_brokers": _stopped(),
}
"""The worst finding of each has the code under which it stands here."""
