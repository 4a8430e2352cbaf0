"""A small planner: which segments a run rewrites, and what it writes in their place.

Groups by overlap, the margin, merges by effective ranges and the cut of a group into several
replacements are as in the product's planner; what is sent or deleted is never decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.compaction.looks import LIMITS, NOW_MS
from tests.faults.publishing_search.search_segments import Record, Row, Stored, in_order, stored
from tests.faults.publishing_search.search_state import Rewrite, Tombstones
from tests.faults.publishing_search.search_views import View
from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.brokers.lineage import finished, outside_lineage
from tierfold.compaction.model.leader_epochs import merged_epochs
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.compaction.publishing.uploads import is_given_up, uploads_at_work


class Planner:
    """Plans from one look, for a run whose segments are named after its label."""

    def __init__(
        self, label: str, row: Row, view: View, log_start: int, lineage: Sequence[LeaderEpoch]
    ) -> None:
        self._label = label
        self._row = row
        self._view = view
        self._log_start = log_start
        whole = finished(view.broker, log_start)
        outside = set(outside_lineage(whole, lineage))
        self._of_log = [segment for segment in whole if segment not in outside]
        ids = {segment.added.segment_id for segment in self._of_log}
        gone = row.gone
        known = {one for one in view.in_state(SegmentState.COPY_FINISHED) if one.segment_id in ids}
        self._there = in_order(known - gone)

    def round(
        self, margin: int, cuts: Sequence[int], *, one_group: bool, tombstones: Tombstones
    ) -> tuple[Rewrite, ...]:
        """A pass over all but the newest segments, without what is superseded or deleted."""
        groups = _overlapping(self._there)
        spared = set(self._referenced()[-margin:]) if margin else set()
        awaited = min(self._uploads_at_work(), default=1 << 62)
        taken = [
            group
            for group in groups
            if not spared.intersection(group) and max(one.end for one in group) < awaited
        ]
        if one_group and taken:
            taken = [[segment for group in taken for segment in group]]
        records = self._effective(self._there)
        newest = {record.key: record for record in records}
        match tombstones:
            case Tombstones.GO:
                staying: set[str] = set()
            case Tombstones.STAY_A_PASS:
                staying = {record.key for record in records if newest[record.key] != record}
            case Tombstones.STAY:
                staying = set(newest)
        plan = []
        for group in taken:
            kept = [
                record
                for record in self._effective(group)
                if newest[record.key] == record
                and (record.value is not None or record.key in staying)
            ]
            cut = [offset for offset in cuts if group[0].start < offset]
            if len(group) > 1 or cut or tuple(kept) != group[0].records:
                plan.append(self._rewrite(group, kept, cut, is_merge=False))
        return tuple(plan)

    def merge(
        self, sources: Sequence[Stored], cuts: Sequence[int], *, joins_records: bool
    ) -> tuple[Rewrite, ...]:
        """One group by effective ranges; it drops nothing that is effective."""
        records = (
            sorted({record for one in sources for record in one.records})
            if joins_records
            else self._effective(sources)
        )
        cut = [offset for offset in cuts if sources[0].start < offset]
        return (self._rewrite(sources, records, cut, is_merge=True),)

    def copy(self, source: Stored) -> tuple[Rewrite, ...]:
        """A copy under a new id."""
        return (Rewrite((source,), (self._copied(source, is_restored=source.is_restored),)),)

    def restore(self, store: frozenset[Stored]) -> tuple[Rewrite, ...]:
        """Copies of the retired uploads in the place of what runs wrote, if all are still there."""
        leaving = [one for one in self._row.live if not one.is_upload and not one.is_restored]
        back = in_order(one for one in self._row.gone if one.is_upload)
        if not leaving or not store.issuperset(back) or _offsets(leaving) != _offsets(back):
            return ()
        made = tuple(self._copied(one, is_restored=True) for one in back)
        return (Rewrite(in_order(leaving), made),)

    def _copied(self, source: Stored, *, is_restored: bool) -> Stored:
        return self._new(
            source.start, source.end, source.records, source.epochs, is_restored=is_restored
        )

    def committed(self, plan: Sequence[Rewrite]) -> Row:
        """The row with what the plan wrote, and with the uploads that end beyond it."""
        sources = {one for rewrite in plan for one in rewrite.sources}
        made = {one for rewrite in plan for one in rewrite.made}
        live = {*self._row.live, *made} - sources
        for segment in sorted(self._there, key=lambda one: (one.end, one.start)):
            is_beyond = segment.end > max((one.end for one in live), default=-1)
            if is_beyond and segment.is_upload and segment not in sources:
                live.add(segment)
        return self._row.changed(live, in_order(sources))

    def _rewrite(
        self,
        group: Sequence[Stored],
        records: Sequence[Record],
        cuts: Sequence[int],
        *,
        is_merge: bool,
    ) -> Rewrite:
        end = max(segment.end for segment in group)
        starts = [group[0].start, *(cut for cut in cuts if cut <= end)]
        lasts = [start - 1 for start in starts[1:]] + [end]
        group_epochs = merged_epochs(segment.epochs for segment in group)
        made = tuple(
            self._new(
                start,
                last,
                tuple(record for record in records if start <= record.offset <= last),
                _epochs_within(group_epochs, start, last),
                is_restored=is_merge and any(one.is_restored for one in group),
            )
            for start, last in zip(starts, lasts, strict=True)
        )
        return Rewrite(in_order(group), made)

    def _new(
        self,
        start: int,
        end: int,
        records: tuple[Record, ...],
        epochs: tuple[LeaderEpoch, ...],
        *,
        is_restored: bool,
    ) -> Stored:
        """A segment under an id that neither the row nor brokers ever knew."""
        label = f"R{self._label}" if is_restored else self._label
        made = stored(label, start, end, records, epochs)
        while made.segment_id in self._view.named | self._row.state.named_ids:
            label += "+"
            made = stored(label, start, end, records, epochs)
        return made

    def _effective(self, segments: Iterable[Stored]) -> list[Record]:
        """Replacements hold their offsets, an upload gives only what lies beside them."""
        records: list[Record] = []
        covered: set[int] = set()
        for segment in sorted(segments, key=lambda one: (one.is_upload, one.end)):
            records += [record for record in segment.records if record.offset not in covered]
            covered |= set(range(segment.start, segment.end + 1))
        return sorted(records, key=lambda record: record.offset)

    def _referenced(self) -> list[Stored]:
        ids = self._view.broker.referenced_ids
        return [segment for segment in self._there if segment.segment_id in ids]

    def _uploads_at_work(self) -> list[int]:
        """Where uploads begin that leaders may still finish."""
        return [
            upload.added.start_offset
            for upload in uploads_at_work(self._view.broker)
            if upload.added.end_offset >= self._log_start and not self._is_given_up(upload)
        ]

    def _is_given_up(self, upload: BrokerSegment) -> bool:
        return is_given_up(
            upload, self._of_log, self._log_start, wait_ms=LIMITS.upload_wait_ms, now_ms=NOW_MS
        )


def _offsets(segments: Iterable[Stored]) -> list[int]:
    return sorted(offset for one in segments for offset in range(one.start, one.end + 1))


def _epochs_within(
    epochs: Sequence[LeaderEpoch], start: int, end: int
) -> tuple[LeaderEpoch, ...]:
    begun = [entry for entry in epochs if entry.start_offset <= start]
    within = [entry for entry in epochs if start < entry.start_offset <= end]
    return (LeaderEpoch(epoch=begun[-1].epoch, start_offset=start), *within)


def _overlapping(segments: Iterable[Stored]) -> list[list[Stored]]:
    """Groups of segments that share offsets, transitively, in offset order."""
    groups: list[list[Stored]] = []
    for segment in segments:
        if groups and segment.start <= max(one.end for one in groups[-1]):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups
