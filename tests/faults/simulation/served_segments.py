"""The row's segments of what a simulated tier holds, and the replacements that runs write.

    uploaded      a broker's upload, as a claim adopts it
    upload_event  the event by which a broker begins it
    Replacement   what a run writes in the place of some segments
    merged        one replacement of everything in a group: no pass
    planned       the replacements of a pass
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tests.compaction.builders import KEY
from tests.faults.broker_model.tier_contents import Content, Kept
from tests.faults.simulation.served_environment import ServedEnvironment
from tests.faults.simulation.served_table import Stopped
from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import SegmentAdded, SegmentState
from tierfold.compaction.model.origins import UPLOADED, Compacted, Origin
from tierfold.compaction.model.segment_ids import is_restored_id
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.compaction.planning.drop_limits import DropLimits, limits_beside, readers_of
from tierfold.compaction.publishing.look import Look


@dataclass(frozen=True, slots=True)
class Replacement:
    """Sources, and what takes their place; together they have the offsets of their sources."""

    sources: tuple[Segment, ...]
    contents: tuple[Content, ...]
    dropped: Mapping[int, int] = field(default_factory=dict)
    """By the offset of each tombstone that counted and is left out, the end of what was compared.
    """


def uploaded(added: SegmentAdded, start: int, live: Sequence[Segment]) -> Segment:
    """An upload that gives the offsets from `start` on to the log."""
    overlapping = [one for one in live if one.is_upload and one.end_offset >= added.start_offset]
    segment = _segment(
        Content(
            added.segment_id, added.start_offset, added.end_offset, added.leader_epochs, ()
        ),
        UPLOADED,
        start,
        agrees_with=tuple(one.segment_id for one in overlapping),
    )
    return replace(segment, max_timestamp_ms=added.max_timestamp_ms)


def upload_event(content: Content, now_ms: int) -> SegmentAdded:
    """The event by which a broker begins this upload."""
    return SegmentAdded(
        key=KEY,
        segment_id=content.segment_id,
        start_offset=content.start,
        end_offset=content.end,
        broker_id=1,
        max_timestamp_ms=content.max_timestamp_ms,
        event_timestamp_ms=now_ms,
        leader_epochs=content.epochs,
        size_bytes=1000,
        custom_metadata=b"\1",
        is_transaction_index_empty=True,
    )


def written(content: Content, run: str, start: int) -> Segment:
    """A replacement as the row names it."""
    return _segment(content, Compacted(run), start)


def _segment(
    content: Content, origin: Origin, start: int, agrees_with: tuple[str, ...] = ()
) -> Segment:
    skipped = start - content.start
    return Segment(
        segment_id=content.segment_id,
        start_offset=start,
        end_offset=content.end,
        size_bytes=1000 - skipped,
        offset_index_bytes=8,
        time_index_bytes=12,
        max_timestamp_ms=content.max_timestamp_ms,
        leader_epochs=content.epochs,
        has_transaction_index=False,
        first_timestamp_ms=0,
        earliest_due_ms=min(
            (one.horizon_ms for one in content.records if one.horizon_ms is not None), default=None
        ),
        origin=origin,
        skipped_offsets=skipped,
        skipped_bytes=skipped,
        agrees_with=agrees_with,
    )


def merged(environment: ServedEnvironment, look: Look, ids: Sequence[str]) -> Replacement:
    """One replacement of live segments that overlap, by effective ranges."""
    live = [one for one in look.row.segments if one.segment_id in ids]
    start, end = min(one.own_start_offset for one in live), live[-1].end_offset
    is_restored = any(is_restored_id(one.segment_id) for one in live)
    content = Content(
        environment.new_id(is_own=True, is_restored=is_restored),
        start,
        end,
        _epochs_of(live, start, end),
        tuple(_effective(environment, live)),
    )
    return Replacement(tuple(live), (content,))


def planned(environment: ServedEnvironment, look: Look) -> list[Replacement]:
    """The groups of a pass, in offset order; empty: nothing is dirty."""
    classes = list(_classes(_due(environment, look)))
    chosen = [one for group in classes for one in group]
    effective = list(_effective(environment, chosen))
    newest = {one.key: one.offset for one in sorted(effective, key=lambda one: one.rank)}
    hiding = _hiding(environment, effective, newest)
    horizon_ms = look.now_ms + environment.delete_retention_ms
    limits = drop_limits(environment, look)
    rng, plan = environment.rng, []
    while classes:
        sources = [one for group in classes[: rng.randint(1, 3)] for one in group]
        classes = classes[len(list(_classes(sources))) :]
        inside = [
            record
            for record in effective
            if sources[0].start_offset <= record.offset <= sources[-1].end_offset
        ]
        counting = [record for record in inside if newest[record.key] == record.offset]
        left = [
            record
            for record in counting
            if record.offset in hiding or not _may_go(environment, record, limits)
        ]
        if len(left) == len(inside) and (len(sources) == 1 or rng.random() < 0.5):
            continue
        records = [
            record._replace(horizon_ms=horizon_ms)
            if record.value is None and record.horizon_ms is None
            else record
            for record in left
        ]
        contents = tuple(_cut(environment, sources, records))
        dropped = {one.offset: chosen[-1].end_offset + 1 for one in counting if one not in left}
        plan.append(Replacement(tuple(sources), contents, dropped))
    return plan


def _hiding(
    environment: ServedEnvironment, effective: Sequence[Kept], newest: Mapping[str, int]
) -> frozenset[int]:
    """The offsets of records that stay as long as what they hide (SEMANTICS 3); none by offset."""
    if environment.is_detached or not environment.is_by_version:
        return frozenset()
    return frozenset(newest[one.key] for one in effective if newest[one.key] != one.offset)


def _due(environment: ServedEnvironment, look: Look) -> list[Segment]:
    """The live segments that a pass may rewrite: not the newest, nothing beyond a live upload."""
    waiting = [
        segment.added.start_offset
        for segment in look.view.in_state(SegmentState.COPY_STARTED)
        if look.is_upload(segment.added.segment_id)
        and segment.added.end_offset >= look.log_start
        and not _is_over(look, segment)
    ]
    below = min(waiting, default=look.row.next_offset)
    live = look.row.segments[: len(look.row.segments) - environment.margin]
    left: list[Segment] = []
    for group in _classes(look.row.segments):
        if not all(one in live and one.end_offset < below for one in group):
            break
        left += group
    return left


def _is_over(look: Look, upload: BrokerSegment) -> bool:
    """Whether a dead upload is covered, and old."""
    added = upload.added
    offsets = set(range(max(added.start_offset, look.log_start), added.end_offset + 1))
    for segment in look.finished:
        offsets -= set(range(segment.added.start_offset, segment.added.end_offset + 1))
    return not offsets and look.now_ms - upload.since_ms >= look.limits.upload_wait_ms


def _classes(segments: Iterable[Segment]) -> Iterator[list[Segment]]:
    """Segments that share offsets, transitively; `segments` in offset order."""
    group: list[Segment] = []
    for segment in segments:
        if group and segment.own_start_offset > max(one.end_offset for one in group):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _effective(environment: ServedEnvironment, live: Sequence[Segment]) -> Iterator[Kept]:
    """What live segments give to the log, in offset order."""
    for segment in live:
        if not environment.tier.is_whole(segment.segment_id):
            if segment.end_offset < environment.cluster.log.log_start:
                continue
            if segment in environment.table.row.segments:
                environment.fail(f"source {segment.segment_id} lacks an object")
            raise Stopped("a source is not there; another run has retired it")
        for record in environment.tier.contents[segment.segment_id].records:
            if record.offset >= segment.start_offset:
                yield record


def _may_go(environment: ServedEnvironment, record: Kept, limits: DropLimits) -> bool:
    """Whether a tombstone may be dropped."""
    if record.value is not None:
        return False
    may_go = environment.is_detached or limits.may_have_passed(record.horizon_ms, record.offset)
    environment.outcomes["tombstones dropped"] += may_go and not environment.is_detached
    return may_go


def drop_limits(environment: ServedEnvironment, look: Look) -> DropLimits:
    """Which delete horizons have passed, as a plan of the product decides it."""
    readers = readers_of(
        look.row,
        brokers_of(environment, look),
        environment.rules,
        clean_until=look.row.cleaner_offset or 0,
        now_ms=environment.now_ms,
    )
    return limits_beside(readers, environment.now_ms)


def brokers_of(environment: ServedEnvironment, look: Look) -> BrokerPartition:
    """What brokers have and say of the partition."""
    return BrokerPartition(
        view=look.view,
        naming=look.naming,
        offsets=look.offsets,
        local_retention_ms=environment.cluster.local_retention_ms,
    )


def _cut(
    environment: ServedEnvironment, sources: Sequence[Segment], records: Sequence[Kept]
) -> Iterator[Content]:
    """One to three replacements with these records."""
    start, end = sources[0].own_start_offset, sources[-1].end_offset
    inner = range(sources[0].start_offset + 1, end + 1)
    count = min(environment.rng.choice((0, 0, 0, 1, 2)), len(inner))
    borders = [start, *sorted(environment.rng.sample(inner, count)), end + 1]
    for first, beyond in pairwise(borders):
        yield Content(
            environment.new_id(is_own=True),
            first,
            beyond - 1,
            _epochs_of(sources, first, beyond - 1),
            tuple(record for record in records if first <= record.offset < beyond),
        )


def _epochs_of(sources: Sequence[Segment], first: int, last: int) -> tuple[LeaderEpoch, ...]:
    """The leader epochs of these offsets, from those of the sources."""
    lowest: dict[int, int] = {}
    for source in sources:
        for entry in source.leader_epochs:
            start = entry.start_offset
            lowest[entry.epoch] = min(start, lowest.get(entry.epoch, start))
    begun = max(epoch for epoch, start in lowest.items() if start <= first)
    return tuple(
        LeaderEpoch(epoch=epoch, start_offset=max(start, first))
        for epoch, start in sorted(lowest.items())
        if epoch == begun or first < start <= last
    )
