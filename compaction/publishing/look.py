"""What one reading of row and metadata topic showed: all that the next step is decided from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerSegment, BrokerView, Naming
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.brokers.events import SegmentAdded, SegmentState
from tierfold.compaction.brokers.lineage import finished, outside_lineage
from tierfold.compaction.model.leader_epochs import are_within_lineage
from tierfold.compaction.model.segment_ids import Maker, maker_of
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState
from tierfold.compaction.model.strategies import is_by_version
from tierfold.compaction.publishing.uploads import uploads_at_work

BATCH_BYTES_MAX: Final = 1_000_000
"""Below it librdkafka does not split a batch."""

PUBLISHING_GRACE_MS: Final = 3_600_000
"""The least grace period of a served tier: no send arrives later than this after it was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishingLimits:
    """How long publishing waits, and how much one batch of it may hold."""

    grace_ms: int
    """No send arrives later than this after it was sent; on a served tier an hour at least."""
    upload_wait_ms: int
    """`upload.wait.ms`: an upload that brokers began longer ago is given up once others cover it.
    """
    batch_bytes_max: int = BATCH_BYTES_MAX
    """The bytes of a record batch that brokers take."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a run saw of one partition, in the order of PUBLISHING 1.5.

    The row was read first; then, where objects matter, the tier was listed whole; then the metadata
    topic was replayed to its end; then brokers were asked for their offsets.
    """

    row: PartitionState
    view: BrokerView
    naming: Mapping[str, Naming]
    """By id, of all segments that the row names: whether the topic ever named them."""
    offsets: PartitionOffsets
    lineage: tuple[LeaderEpoch, ...]
    """The log's leader epochs in offset order, as brokers confirmed them."""
    limits: PublishingLimits
    fingerprint: int | None
    """The catalog's, which the ids of what it wrote bear; None: there is no catalog yet."""
    now_ms: int
    whole: frozenset[str] = field(default=frozenset())
    """Ids of segments of which the listing shows every object."""
    rebuilds: Mapping[str, SegmentAdded] = field(default_factory=dict)
    """By id, what `rebuild` may name again, as the tier has it; empty for every other verb."""
    present: frozenset[str] | None = None
    """Ids of segments of which the listing shows any object; None: the tier was not listed."""

    def is_upload(self, segment_id: str) -> bool:
        """Whether a broker made the id of the segment."""
        return maker_of(segment_id, self.fingerprint) is Maker.BROKER

    @property
    def log_start(self) -> int:
        """The first offset that consumers can read."""
        return self.offsets.log_start

    def state_of(self, segment_id: str) -> SegmentState | None:
        """The segment's state; None: brokers do not have it."""
        segment = self.view.segments.get(segment_id)
        return None if segment is None else segment.state

    def was_named(self, segment_id: str) -> bool:
        """Whether the topic ever named the segment, as far as it is known."""
        return self.naming.get(segment_id) is not Naming.NEVER_NAMED

    def is_of_log(self, added: SegmentAdded) -> bool:
        """Whether brokers count the segment as part of their log."""
        return are_within_lineage(added.leader_epochs, added.end_offset, self.lineage)

    @property
    def is_first_by_version(self) -> bool:
        """Whether tombstones went before anything of the row was published, and versions decide.

        A tombstone may then lie below what it hid, so no part may be published before another.
        """
        was_published = any(one.published_at_ms is not None for one in self.row.passes)
        return self.row.has_dropped and self.is_by_version and not was_published

    @property
    def is_by_version(self) -> bool:
        """Whether versions decided in a pass: a tombstone may lie below what it hides."""
        return is_by_version(self.row.strategies)

    @cached_property
    def finished(self) -> tuple[BrokerSegment, ...]:
        """The finished segments of the log that consumers may still read, by start offset."""
        outside = set(map(_id, self.outside))
        return tuple(
            segment
            for segment in finished(self.view, self.log_start)
            if _id(segment) not in outside
        )

    @cached_property
    def outside(self) -> tuple[BrokerSegment, ...]:
        """Finished segments of another history: never read, merged, or repaired with."""
        return outside_lineage(finished(self.view, self.log_start), self.lineage)

    @cached_property
    def uploads_at_work(self) -> tuple[BrokerSegment, ...]:
        """The uploads of brokers that are not finished, by start offset."""
        return tuple(uploads_at_work(self.view))

    @cached_property
    def live_ids(self) -> frozenset[str]:
        """The ids that brokers must have."""
        return self.row.live_ids

    @cached_property
    def retired_ids(self) -> frozenset[str]:
        """The ids that brokers must drop."""
        return self.row.retired_ids


def _id(segment: BrokerSegment) -> str:
    return segment.added.segment_id
