"""What brokers have of a listed segment, and what follows from it if no row names the segment.

The row is the intent, brokers' metadata the fact. Of ids that the row does not name brokers decide:

    finished                      a candidate: its end is the one that brokers noted
    started                       an upload at work, or one that died: left alone
    listed for deletion, gone     brokers deleted it: never read
    never named                   a run that died left it, or it was never theirs: never read
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from tierfold.compaction.brokers.broker_view import Naming
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import SegmentAdded, SegmentState
from tierfold.compaction.brokers.lineage import not_cut_off
from tierfold.compaction.discovery.candidates import Candidate, EndFrom
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.ownership import OF_PARTITION, Ownership, Whose
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.segment_ids import Maker, maker_of
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.wording import counted


class Phase(StrEnum):
    """What brokers have of a segment."""

    STARTED = "started"
    """Its upload began and has not ended; many never do (KAFKA-17062)."""
    FINISHED = "finished"
    LISTED = "listed"
    """Listed for deletion: readers no longer find it."""
    GONE = "gone"
    """Brokers had it and forgot it."""
    NEVER_NAMED = "never named"
    """The whole topic never names it."""


_OF_STATE: Final = {
    SegmentState.COPY_STARTED: Phase.STARTED,
    SegmentState.COPY_FINISHED: Phase.FINISHED,
    SegmentState.DELETE_STARTED: Phase.LISTED,
}


def phase_of(segment_id: str, brokers: BrokerPartition) -> Phase:
    """What brokers have of a segment that was asked about before the replay."""
    segment = brokers.view.segments.get(segment_id)
    if segment is not None:
        return _OF_STATE[segment.state]
    never = brokers.naming.get(segment_id) is Naming.NEVER_NAMED
    return Phase.NEVER_NAMED if never else Phase.GONE


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnamedSegment:
    """A listed segment that no row names and that is not read, and why."""

    listed: ListedSegment
    phase: Phase
    maker: Maker
    """Who wrote it, by its id."""
    ownership: Ownership = OF_PARTITION
    """Whose it is as its objects say it; read only if it is strange."""

    @property
    def is_anothers(self) -> bool:
        """Whether its objects say that they are another segment."""
        return self.ownership.whose is Whose.ANOTHERS

    @property
    def is_ours(self) -> bool:
        """Whether a run that died left it: brokers never named it, and tierfold made its id."""
        return self.phase is Phase.NEVER_NAMED and self.maker is not Maker.BROKER

    @property
    def is_strange(self) -> bool:
        """Whether brokers never named it and no run made it."""
        return self.phase is Phase.NEVER_NAMED and not self.is_ours

    @property
    def denies_brokers(self) -> bool:
        """Whether it is strange and whole, and does not say that it is another segment.

        Its folder has the topic's id, which brokers have, so key prefixes that overlap do not make
        it another cluster's: what does not say whose it is counts.
        """
        return self.is_strange and self.listed.is_complete and not self.is_anothers


@dataclass(frozen=True, slots=True, kw_only=True)
class ByPhase:
    """Listed segments that no row names, sorted by what brokers have of them."""

    finished: tuple[ListedSegment, ...]
    """They may be part of the log."""
    left_alone: tuple[UnnamedSegment, ...]


def by_phase(unknown: Iterable[ListedSegment], brokers: BrokerPartition) -> ByPhase:
    """Sort the segments of `Classified.unknown`.

    What ends below the brokers' log start is left alone, too: they are about to delete it.
    """
    finished: list[ListedSegment] = []
    left_alone: list[UnnamedSegment] = []
    for listed in unknown:
        phase = phase_of(listed.segment_id, brokers)
        segment = brokers.view.segments.get(listed.segment_id)
        is_expired = segment is not None and segment.added.end_offset < brokers.log_start
        if phase is Phase.FINISHED and not is_expired:
            finished.append(listed)
        else:
            maker = maker_of(listed.segment_id, brokers.asked_by)
            left_alone.append(UnnamedSegment(listed=listed, phase=phase, maker=maker))
    return ByPhase(finished=tuple(finished), left_alone=tuple(left_alone))


def as_brokers_have(candidate: Candidate, brokers: BrokerPartition) -> Candidate:
    """The finished candidate with the end that brokers noted.

    If its objects are not what they noted, it counts as corrupt.
    """
    added = brokers.view.segments[candidate.segment_id].added
    segment = candidate.segment
    if segment is None:
        return candidate
    if wrong := ", ".join(_differences(candidate, segment.log_bytes, added)):
        why = f"{candidate.listed}: {wrong}; these objects are not what brokers uploaded"
        return replace(candidate, corruption=why)
    epochs = segment.leader_epochs
    if candidate.checkpoint:
        epochs = epochs_in(candidate.checkpoint, segment.start_offset, added.end_offset)
    return replace(
        candidate,
        segment=replace(segment, end_offset=added.end_offset, leader_epochs=epochs),
        end_offset=added.end_offset,
        end_from=EndFrom.BROKERS,
    )


def live_end_by(brokers: BrokerPartition, state: PartitionState | None) -> int | None:
    """The last live segment's end as brokers noted it of what the row names; None: they did not.

    The row may have it from the last batch, behind which Kafka's cleaner left a hole. What the row
    retired because an election cut it off, or because it begins further on, says nothing of it.
    """
    if state is None or not state.segments:
        return None
    named, last = state.named_ids, state.segments[-1]
    noted = [
        segment
        for segment_id, segment in brokers.view.segments.items()
        if segment_id in named
        and segment.state is not SegmentState.COPY_STARTED
        and segment.added.start_offset <= last.end_offset
    ]
    return max((one.added.end_offset for one in not_cut_off(noted, state.lineage)), default=None)


def _differences(candidate: Candidate, log_bytes: int, added: SegmentAdded) -> Iterator[str]:
    """How a candidate's objects differ from what brokers noted, a phrase each."""
    if candidate.start_offset != added.start_offset:
        yield f"it starts at {candidate.start_offset}, by brokers' metadata {added.start_offset}"
    end, theirs = candidate.end_offset, added.end_offset
    is_same = end is None or (end == theirs if candidate.is_end_exact else end <= theirs)
    if not is_same:
        yield f"it ends at offset {end}, by brokers' metadata at {theirs}"
    if log_bytes != added.size_bytes:
        yield f"its .log has {log_bytes} bytes, by brokers' metadata {added.size_bytes}"


def phase_notes(left_alone: Iterable[UnnamedSegment]) -> Iterator[str]:
    """What is left alone, and why, a sentence for each kind, or for each that is another's."""
    kinds: dict[str, int] = {}
    for unnamed in left_alone:
        if unnamed.is_anothers:
            yield f"{unnamed.listed} is kept, not read: {unnamed.ownership.why}"
            continue
        what = _OURS if unnamed.is_ours else f"{_NOTES[unnamed.phase]}: kept, not read"
        kinds[what] = kinds.get(what, 0) + 1
    for what, count in kinds.items():
        yield f"{counted(count, 'segment')} {what}"


_OURS: Final = "that runs wrote and did not commit: not read, orphans for `tierfold vacuum`"
"""A run that died leaves them, or one that joined an empty group to its neighbour and wrote again.
"""
_NOTES: Final = {
    Phase.STARTED: "whose upload brokers began and have not finished",
    Phase.FINISHED: "below the brokers' log start",
    Phase.LISTED: "that brokers are deleting",
    Phase.GONE: "that brokers deleted, of which objects are left",
    Phase.NEVER_NAMED: "that brokers never had",
}
