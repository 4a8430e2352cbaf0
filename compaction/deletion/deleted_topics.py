"""What `vacuum` deletes of a topic that was deleted on the cluster that its rows name.

    brokers never named a segment of it      all stays
    brokers have one that they did not list  all stays: the topic may only look deleted
    all are listed for deletion, or gone     brokers are given the orphan age to delete them
    and the orphan age has passed            what tierfold wrote goes; what brokers left stays

That a cluster does not name a topic proves little: a client without the right to describe it may
see the same. Brokers that delete a topic list every segment of it, and no one else does.

Rule: PUBLISHING 6.3; Kafka's `RemoteLogManager.deleteRemoteLogPartition`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.deletion.deletion_plan import DeletionPlan, VacuumLimits
from tierfold.compaction.deletion.dropped import Dropped
from tierfold.compaction.deletion.expiry import Expired, ExpiryReason
from tierfold.compaction.discovery.listing import IncompleteUpload, ListedSegment
from tierfold.compaction.model.segment_ids import Maker, maker_of
from tierfold.compaction.model.segments import PartitionState, RetiredSegment
from tierfold.compaction.model.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedPartition:
    """A partition of a topic that the cluster does not have."""

    row: PartitionState | None
    brokers: BrokerPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicKept:
    """Why nothing of a deleted topic is deleted yet."""

    why: str
    """A clause."""
    until_ms: int | None = None
    """Until when, epoch milliseconds; None: until brokers say otherwise."""


def topic_kept(partitions: Sequence[DeletedPartition], times: VacuumLimits) -> TopicKept | None:
    """Why nothing of a topic may be deleted; None: what tierfold wrote may.

    `partitions`: all that the run knows of the topic's id, which the cluster does not have.
    """
    times_ms = [
        time_ms for one in partitions if (time_ms := one.brokers.view.last_timestamp_ms) is not None
    ]
    if not times_ms:
        return TopicKept(why="brokers' metadata never named a segment of it")
    unlisted = sum(1 for one in partitions for _ in _unlisted(one))
    if unlisted:
        what = counted(unlisted, "segment")
        return TopicKept(why=f"brokers have {what} of it that they did not list for deletion")
    until_ms = max(times_ms) + times.orphan_age_ms
    if times.now_ms < until_ms:
        return TopicKept(why="its brokers may still delete their part", until_ms=until_ms)
    return None


def _unlisted(partition: DeletedPartition) -> Iterator[BrokerSegment]:
    """What brokers would have listed if they had deleted the topic.

    A replacement that is only started does not count: if it was sent while brokers deleted the
    topic, they never learned of it, and no consumer reads it.
    """
    row, brokers = partition.row, partition.brokers
    named = () if row is None else row.named_segments
    ours = {one.segment_id for one in named if not one.is_named_by_brokers}
    for segment in brokers.view.segments.values():
        name = segment.added.segment_id
        is_ours = name in ours or maker_of(name, brokers.asked_by) is Maker.THIS_CATALOG
        is_late = is_ours and segment.state is SegmentState.COPY_STARTED
        if segment.state is not SegmentState.DELETE_STARTED and not is_late:
            yield segment


def deleted_topic_plan(
    row: PartitionState,
    brokers: BrokerPartition,
    listing: Sequence[ListedSegment],
    incomplete_uploads: Sequence[IncompleteUpload],
    times: VacuumLimits,
) -> DeletionPlan:
    """What goes of a partition of a deleted topic, once `topic_kept` says nothing against it.

    Its live segments are retired. What tierfold wrote is deleted and leaves the row, as does what
    has no object left. Everything else belongs to those who wrote it, and stays.
    """
    present = {segment.segment_id for segment in listing}
    entries = [
        entry
        for entry in (*row.retired, *_retired_now(row, times.now_ms))
        if not entry.segment.is_named_by_brokers or entry.segment.segment_id not in present
    ]
    going = {entry.segment.segment_id for entry in entries}
    known = row.named_ids | row.left_alone_ids
    orphans = tuple(
        one
        for one in listing
        if one.segment_id not in known
        and maker_of(one.segment_id, brokers.asked_by) is Maker.THIS_CATALOG
        and times.is_old(one.modified_ms)
    )
    left = len(present - going) - len(orphans)
    return DeletionPlan(
        key=row.key,
        expired=tuple(
            Expired(segment=one, reason=ExpiryReason.TOPIC_DELETED) for one in row.segments
        ),
        log_start_offset=row.next_offset,
        starting=tuple(one for one in entries if one.deletion_started_at_ms is None),
        going=tuple(one for one in entries if one.deletion_started_at_ms is not None),
        orphans=orphans,
        incomplete_uploads=tuple(
            one
            for one in incomplete_uploads
            if maker_of(one.segment_id, brokers.asked_by) is Maker.THIS_CATALOG
            and times.is_old(one.modified_ms)
        ),
        dropped=Dropped(gone=frozenset(going)),
        notes=tuple(_on_left(left)),
    )


def _retired_now(row: PartitionState, now_ms: int) -> Iterator[RetiredSegment]:
    """The live segments, as the commit that marks them retires them."""
    for segment in row.segments:
        yield RetiredSegment(
            segment=segment,
            retired_at_ms=now_ms,
            retired_by_epoch=row.epoch,
            retired_by_run=row.owner_run,
        )


def _on_left(count: int) -> Iterator[str]:
    if count:
        yield (
            f"{counted(count, 'segment')} kept that this catalog's runs did not write, or wrote"
            " lately. If brokers left theirs behind, delete the folder of this topic id by hand"
        )
