"""What `tierfold forget` takes over from brokers: a catalog was lost, set back, or is another's.

Look-ups find what consumers read, so that becomes live. Whatever else brokers have is retired, so
that nothing replaced comes back. A segment of a run that died between its first and its second send
is taken over as live, with what it replaces retired: the batch that its run would have sent follows
from that. Where an unclean leader election cut off what passes had read, segments from before them
come back as copies (`undone_passes`). All of it is one commit, which a person asks for.

    usable           the segments that would be live, by what look-ups find
    adoption         what becomes live and what retired, or why that is not decided
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.brokers.lineage import finished, not_cut_off
from tierfold.compaction.brokers.noted_segment import noted_segment
from tierfold.compaction.commits.undone_passes import Undone, UndonePasses, ValuesLost
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.histories import decided_history
from tierfold.compaction.discovery.view import PLACE, PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segment_ids import is_own_id
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState, Segment
from tierfold.compaction.model.wording import duration
from tierfold.compaction.publishing.look import PUBLISHING_GRACE_MS
from tierfold.compaction.publishing.ranges import range_of

ADOPTED_FOR: Final = frozenset(
    {
        RefusalReason.ANOTHER_CATALOG,
        RefusalReason.CATALOG_SET_BACK,
        RefusalReason.DELETED_BY_BROKERS,
        RefusalReason.NEVER_NAMED,
        RefusalReason.LEFT_ALONE,
        RefusalReason.UNLIKE_BROKERS,
        RefusalReason.LINEAGE_DIVERGED,
        RefusalReason.OUTSIDE_LINEAGE,
    }
)
"""The refusals of which adoption is the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What a row takes over from brokers."""

    live: tuple[Segment, ...]
    """What look-ups find, in offset order, and what comes back."""
    back: tuple[Segment, ...]
    """Those of `live` of which copies become live, while they are or become retired: the row has
    retired them, or one lies on both sides of a cut, and the copy ends there."""
    retired: tuple[Segment, ...]
    """Everything else that brokers have, or that the row named; by start offset and id."""
    lineage: tuple[LeaderEpoch, ...]
    log_start_offset: int
    lost: ValuesLost | None
    """What was lost with the records that an election cut off; None: nothing, as far as is known.
    """
    is_published: bool
    """Whether brokers have segments that a tierfold made: they serve them."""


def half_sent(brokers: BrokerPartition) -> tuple[BrokerSegment, ...]:
    """The segments of runs that died between their first and their second send."""
    started = brokers.view.in_state(SegmentState.COPY_STARTED)
    return tuple(segment for segment in started if is_own_id(segment.added.segment_id))


def overtaken(brokers: BrokerPartition) -> frozenset[str]:
    """Ids of those of `half_sent` over whose offsets brokers have finished a segment since.

    Another run replaced what its run would have, or a `rebuild` began all that has objects, also
    what had been replaced, and then finished what is live. A broker that has not restarted knows
    such a segment as deleted, and would never read it again.
    """
    done = brokers.view.in_state(SegmentState.COPY_FINISHED)
    return frozenset(
        one.added.segment_id
        for one in half_sent(brokers)
        if any(
            other.since_ms >= one.since_ms and range_of(other.added).overlaps(range_of(one.added))
            for other in done
        )
    )


def half_sent_refusal(
    brokers: BrokerPartition, whole: Collection[str], now_ms: int
) -> Refusal | None:
    """Why the partition has to wait for a run that may still send; None: it need not.

    `whole`: ids of those of `half_sent` that can be taken over.
    """
    open_ones = [one for one in half_sent(brokers) if one.added.segment_id not in whole]
    last_ms = max((one.since_ms for one in open_ones), default=None)
    if last_ms is None or now_ms - last_ms >= PUBLISHING_GRACE_MS:
        return None
    ids = ", ".join(one.added.segment_id for one in open_ones)
    left = duration(last_ms + PUBLISHING_GRACE_MS - now_ms)
    return Refusal(
        reason=RefusalReason.ANOTHER_CATALOG,
        detail=f"a run began to publish {ids}, which cannot be taken over, and may still be at"
        " work",
        remedy=f"Stop that run, and run `tierfold forget {PLACE}` again in {left}.",
    )


def usable(
    finished: Sequence[Candidate],
    sent: Sequence[Candidate],
    brokers: BrokerPartition,
    run: str,
    lost: Collection[str] = (),
) -> tuple[Candidate, ...]:
    """The candidates that would be live, those of runs with their origin.

    `finished`: those that brokers have as whole; `sent`: whole ones of `half_sent`. Of several that
    overlap, the one whose range holds the others is taken, and none of what it replaces. `run`: the
    run that adopts, as it is not known which one wrote them. `lost`: ids of `lost_replacements`;
    in place of them, what they keep look-ups from finding.
    """
    referenced = brokers.view.referenced_ids | _hidden(finished, brokers, lost)
    of_log = within_log(finished, sent)
    whole = [one for one in sent if one.segment_id in of_log]
    rolled = [one for one in whole if not any(_supersedes(other, one) for other in whole)]
    kept = [
        candidate
        for candidate in finished
        if candidate.segment_id in referenced
        and candidate.segment_id not in lost
        and candidate.segment_id in of_log
        and not any(_holds(replacement, candidate) for replacement in rolled)
    ]
    return tuple(_with_origin(candidate, run) for candidate in (*kept, *rolled))


def _hidden(
    finished: Sequence[Candidate], brokers: BrokerPartition, lost: Collection[str]
) -> frozenset[str]:
    """Ids of the candidates over the offsets of lost ones; discovery takes the largest."""
    added = [brokers.view.segments[segment_id].added for segment_id in lost]
    return frozenset(
        candidate.segment_id
        for candidate in finished
        if any(
            candidate.start_offset <= one.end_offset
            and one.start_offset <= (candidate.reach or 0)
            for one in added
        )
    )


def within_log(finished: Sequence[Candidate], sent: Sequence[Candidate]) -> frozenset[str]:
    """Ids of the candidates without those that are proven to be of another history.

    Of `sent`, without any that cannot be read or does not fit, either: its sources are read then.
    """
    history = decided_history([one for one in (*finished, *sent) if one.listed.has_log], None)
    apart = {one.segment_id for one in history.apart}
    fitting = {one.segment_id for one in history.fitting}
    ids = {one.segment_id for one in finished} - apart
    return frozenset(ids | {one.segment_id for one in sent} & fitting)


def _supersedes(outer: Candidate, inner: Candidate) -> bool:
    """Whether a half-sent segment holds another one; of two over the same range, the smaller id."""
    if not _holds(outer, inner) or outer.segment_id == inner.segment_id:
        return False
    return _range(outer) != _range(inner) or outer.segment_id < inner.segment_id


def _holds(outer: Candidate, inner: Candidate) -> bool:
    first, second = _range(outer), _range(inner)
    return first[0] <= second[0] and second[1] <= first[1]


def _range(candidate: Candidate) -> tuple[int, int]:
    return candidate.start_offset, candidate.reach or 0


def _with_origin(candidate: Candidate, run: str) -> Candidate:
    segment = candidate.segment
    if segment is None or not is_own_id(candidate.segment_id):
        return candidate
    return replace(candidate, segment=replace(segment, origin=Compacted(run)))


def adoption(
    view: PartitionView,
    row: PartitionState | None,
    brokers: BrokerPartition,
    run: str,
    undone: UndonePasses = None,
) -> Adoption | Refusal:
    """What becomes live and what retired; `view`: what discovery makes of `usable`.

    `row`: the present one, whose ids stay named; None: the catalog has none. `undone`: with which
    passes the view begins.
    """
    lost = undone.lost if isinstance(undone, Undone) else undone
    if (refusal := _uncovered(view, brokers, lost)) is not None:
        return refusal
    back = undone.back if isinstance(undone, Undone) else ()
    copied = {segment.segment_id for segment in back}
    live = {segment.segment_id for segment in view.segments} - copied
    if row is not None and (refusal := _retired_by(row, live)) is not None:
        return refusal
    named = {} if row is None else {one.segment_id: one for one in row.named_segments}
    noted = {
        segment.added.segment_id: noted_segment(segment.added, run)
        for segment in brokers.view.segments.values()
        if segment.state is not SegmentState.COPY_STARTED or is_own_id(segment.added.segment_id)
    }
    retired = {**noted, **named}
    return Adoption(
        live=tuple(_as_named(segment, named) for segment in view.segments),
        back=back,
        retired=tuple(
            sorted(
                (one for segment_id, one in retired.items() if segment_id not in live),
                key=lambda one: (one.start_offset, one.segment_id),
            )
        ),
        lineage=view.lineage,
        log_start_offset=view.log_start_offset,
        lost=lost,
        is_published=any(is_own_id(segment_id) for segment_id in brokers.view.segments),
    )


def _retired_by(row: PartitionState, live: Collection[str]) -> Refusal | None:
    """The refusal if the row has retired what would be live under its own id."""
    if being_deleted := sorted(row.marked_ids.intersection(live)):
        return Refusal(
            reason=RefusalReason.CATALOG_SET_BACK,
            detail=f"brokers serve {', '.join(being_deleted)}, whose objects a vacuum of this"
            " catalog began to delete",
            remedy="A segment whose deletion began is never live again. If all its objects are"
            " there, take it over with a new catalog (--catalog).",
        )
    if row.is_served and (returning := sorted(row.retired_ids.intersection(live))):
        return Refusal(
            reason=RefusalReason.CATALOG_SET_BACK,
            detail=f"brokers serve {', '.join(returning)}, which this catalog retired and will"
            " publish as deleted",
            remedy="Complete what the catalog began: a retired segment is never live again.",
        )
    return None


def _as_named(segment: Segment, named: Mapping[str, Segment]) -> Segment:
    """The segment with the run that wrote it, if the row knows it."""
    known = named.get(segment.segment_id)
    return segment if known is None else replace(segment, origin=known.origin)


def _uncovered(
    view: PartitionView, brokers: BrokerPartition, lost: ValuesLost | None
) -> Refusal | None:
    """The refusal if no whole segment of the log has an offset that consumers may ask for."""
    had = finished(brokers.view, brokers.log_start)
    log = not_cut_off(had, view.lineage)
    end = max((segment.added.end_offset for segment in log), default=-1)
    first = view.segments[0].start_offset if view.segments else end + 1
    if first <= brokers.log_start and view.next_offset > end:
        return None
    missing = view.next_offset if first <= brokers.log_start else brokers.log_start
    return _only_cut_off(had, missing, lost) or Refusal(
        reason=RefusalReason.GAP,
        detail=f"brokers' look-ups do not find every offset from their log start"
        f" {brokers.log_start} to their remote end {end}: offset {missing} is"
        " missing",
        remedy="Consumers cannot read it either: find out what deleted it.",
    )


def _only_cut_off(
    had: Sequence[BrokerSegment], missing: int, lost: ValuesLost | None
) -> Refusal | None:
    """The refusal if consumers read an offset only in a segment that an election has cut off."""
    cut_off = [segment for segment in had if _is_cut_off(segment, had)]
    over = [one.added for one in cut_off if one.added.start_offset <= missing]
    over = [added for added in over if missing <= added.end_offset]
    beyond = [one.added.start_offset for one in had if one not in cut_off]
    next_start = min((start for start in beyond if start > missing), default=None)
    if not over or next_start is None:
        return None
    give = give_up_below(next_start)
    return Refusal(
        reason=RefusalReason.GAP,
        detail=f"offset {missing} is only in segment {over[0].segment_id} (offsets"
        f" {over[0].start_offset} to {over[0].end_offset}), which also has records that an unclean"
        " leader election cut off, and lacks values that these superseded. Consumers read it as it"
        " is",
        remedy=f"{lost.bring_back} {give}" if lost and lost.bring_back else give,
    )


def _is_cut_off(segment: BrokerSegment, had: Sequence[BrokerSegment]) -> bool:
    """Whether a newer leader has written an offset of the segment."""
    newest = segment.added.leader_epochs[-1].epoch
    return any(
        entry.epoch > newest and entry.start_offset <= segment.added.end_offset
        for other in had
        for entry in other.added.leader_epochs
    )


def give_up_below(offset: int) -> str:
    """What to do where no whole segment has what lies below an offset of the log, sentences."""
    return (
        f"Give up all records up to offset {offset - 1}: write those that you still need to the"
        " topic again, as consumers read them, then run `kafka-delete-records.sh`, and `tierfold"
        f" forget {PLACE}` again."
    )
