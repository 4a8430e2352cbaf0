"""Offsets that consumers cannot read, uploads that share offsets, and many small segments.

Rule: Kafka `RemoteLogMetadataCache`; `compaction.publishing.ranges`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.lineage import not_cut_off
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.diagnosis.examined import Examined, first_named
from tierfold.compaction.diagnosis.findings import Finding, FindingCode, Severity
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.leader_epochs import merged_epochs
from tierfold.compaction.model.segment_ids import is_own_id
from tierfold.compaction.model.segments import Hole, LeaderEpoch
from tierfold.compaction.model.wording import counted, spaced
from tierfold.compaction.publishing.ranges import (
    OffsetRange,
    joined,
    overlapping,
    range_of,
    ranges_found,
    without,
)

SMALL_MIN: Final = 20
"""Fewer segments are not worth a word."""
SMALLER_BY: Final = 10
"""How many times fewer they must be once they are merged."""


def gaps(one: Examined) -> Iterator[Finding]:
    """Offsets between two segments that no whole segment of brokers has."""
    had = _joined(one.finished, one.log_start)
    if len(had) > 1:
        missing = without((OffsetRange(had[0].first, had[-1].last),), had)
        yield Finding(
            code=RefusalReason.GAP.code,
            severity=Severity.LOSES_DATA,
            detail="brokers have no segment of offsets"
            f" {first_named([str(gap) for gap in missing])}: consumers that reach them fail",
            remedy="Find out what deleted the segments, and bring their objects back from a"
            " backup. If they are lost for good, `kafka-delete-records.sh` with offset"
            f" {missing[-1].last + 1} lets consumers begin behind them. It gives up all records"
            " below, also those that are not lost.",
            key=one.key,
            topic=one.key.topic,
        )


def unfound_offsets(one: Examined) -> Iterator[Finding]:
    """Offsets that a segment has and no look-up of a broker finds."""
    segments, brokers = one.finished, one.brokers
    if brokers is None or not segments:
        return
    lineage = _lineage(one, segments)
    had = _joined(not_cut_off(segments, lineage), one.log_start)
    if not had:
        return
    bounds = OffsetRange(had[0].first, had[-1].last)
    lost = without(had, ranges_found(PartitionFold.resumed(brokers.view), lineage, bounds))
    if lost:
        yield one.finding(
            FindingCode.UNFOUND_OFFSETS,
            Severity.LOSES_DATA,
            f"brokers have segments with offsets {first_named([str(found) for found in lost])}, and"
            " no look-up finds them: consumers that reach them fail",
            remedy="Run `tierfold compact TIER --publish` for this topic: it sends what lets"
            " look-ups find them again, before anything else. A restart of the brokers does not"
            " mend it.",
        )


def assumed_holes(one: Examined) -> Iterator[Finding]:
    """Gaps that were taken for holes, which brokers were not asked about."""
    noted = () if one.row is None else one.row.holes
    new = () if one.view is None else one.view.holes
    found: list[Hole] = sorted({*noted, *new})
    if found and one.brokers is None:
        yield one.finding(
            FindingCode.HOLES_ASSUMED,
            Severity.NOTE,
            f"no segment has {first_named([str(hole) for hole in found])}: tierfold assumes that a"
            " broker's cleaner removed these records, and no broker was asked",
            remedy="Run doctor with --bootstrap-server: brokers know where each segment ends. If"
            " records are missing, doctor then reports `unlike_brokers`.",
        )


def overlapping_uploads(one: Examined) -> Iterator[Finding]:
    """Uploads that share offsets, as after a change of leader."""
    found = [
        (range_of(added), added)
        for added, *_ in one.finished
        if not is_own_id(added.segment_id) and added.segment_id not in one.retired_ids
    ]
    together = [run for run in overlapping(found) if len(run) > 1]
    count = sum(map(len, together))
    if one.brokers is None and one.view is not None:
        agreeing = [segment.agrees_with for segment in one.view.segments if segment.agrees_with]
        count = sum(1 + len(ids) for ids in agreeing)
    if count:
        yield one.finding(
            FindingCode.OVERLAPPING_UPLOADS,
            Severity.NOTE,
            f"{counted(count, 'upload')} share offsets, as after a change of leader",
            remedy="Nothing has to be done: consumers read each record once. `tierfold compact`"
            " writes one segment in their place.",
            )


def small_segments(one: Examined) -> Iterator[Finding]:
    """Many segments that few could replace."""
    if one.view is not None:
        sizes = [segment.size_bytes for segment in one.view.segments]
    else:
        sizes = [segment.added.size_bytes for segment in one.finished]
    count, size_bytes = len(sizes), sum(sizes)
    merged = max(-(-size_bytes // one.rules.segment_bytes), 1)
    if count < SMALL_MIN or merged * SMALLER_BY > count:
        return
    yield one.finding(
        FindingCode.SMALL_SEGMENTS,
        Severity.NOTE,
        f"{spaced(count)} segments have {spaced(size_bytes)} bytes together: merged they would be"
        f" about {spaced(merged)}, and save {spaced(count - merged)} segments of objects, requests"
        " and memory of brokers",
        remedy="Let brokers upload larger segments: raise segment.ms and segment.bytes of the"
        " topic. `tierfold compact` merges those that are there.",
    )


def _joined(segments: Iterable[BrokerSegment], log_start: int) -> tuple[OffsetRange, ...]:
    """The offsets that segments have from the log start on."""
    return joined(
        OffsetRange(max(segment.added.start_offset, log_start), segment.added.end_offset)
        for segment in segments
    )


def _lineage(one: Examined, segments: Sequence[BrokerSegment]) -> tuple[LeaderEpoch, ...]:
    """The leader epochs of the log; without the tier, those that its segments have together."""
    epochs = merged_epochs(segment.added.leader_epochs for segment in segments)
    if one.view is None or not one.view.lineage:
        return epochs
    newest = one.view.lineage[-1]
    return (*one.view.lineage, *(entry for entry in epochs if entry.epoch > newest.epoch))
