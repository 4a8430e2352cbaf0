"""One partition as planning sees it, or why it is refused.

`compaction.discovery.drafted_view` makes a view from candidates and the catalog's row. The view
includes newly discovered segments; `state_with_new` is the row that a claim writes from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.kept_sums import KeptSums
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import (
    Hole,
    LeaderEpoch,
    PartitionKey,
    PartitionState,
    Segment,
)
from tierfold.compaction.model.wording import alike

PLACE: Final = "TIER PARTITION"
"""A placeholder in a remedy's commands, which the caller replaces with `Refusal.at`."""

_SENTENCES_MAX: Final = 3
"""A missing key makes every segment unreadable, and a partition may have thousands."""


class RefusalReason(StrEnum):
    """Why a partition is refused; documents have them as codes, so they never change."""

    PARTIAL_SEGMENT = "partial segment"
    GAP = "gap"
    OVERLAP = "overlap"
    DATA_GONE = "data gone"
    LINEAGE_DIVERGED = "lineage diverged"
    """Two lists of leader epochs contradict each other at an offset that both cover."""
    LINEAGE_UNCLEAR = "lineage unclear"
    """Leader epochs do not fit, and nothing proves that a log was truncated."""
    TIER_BEYOND_LOG = "tier beyond log"
    """The brokers' log ends below the tier's."""
    LINEAGE_DENIED = "lineage denied"
    """The brokers' log lacks records of a leader epoch that are in the tier."""
    LINEAGE_UNCONFIRMED = "lineage unconfirmed"
    """The brokers did not say whether their log has a leader epoch of the tier."""
    OUTSIDE_LINEAGE = "outside lineage"
    """Brokers have a whole segment of another history over offsets of the log."""
    FIRST_DIRTY_OUT_OF_RANGE = "first dirty offset out of range"
    NOT_RESTORABLE = "not restorable"
    SERVED = "served"
    """The catalog names a cluster that serves it, which the run does not know."""
    ANOTHER_CLUSTER = "another cluster"
    """The catalog or the tier names another cluster than the one that is given."""
    ANOTHER_METADATA_TOPIC = "another metadata topic"
    """The cluster's metadata topic has another id than the one that the catalog noted."""
    METADATA_PARTITIONS = "metadata partitions"
    """The cluster's metadata topic has another number of partitions than the catalog noted."""
    METADATA_LOST = "metadata lost"
    """The metadata topic has lost what it said of the partition."""
    LOG_START_MOVED = "log start moved"
    """It was lost, and brokers that restarted moved the log start above segments of the tier."""
    STILL_COPYING = "still copying"
    """It was lost, brokers no longer serve what they copied, and they go on copying."""
    ANOTHER_PLACE = "another place"
    """The tier stands elsewhere than the catalog, the tier or the brokers' properties say."""
    NEVER_NAMED = "never named"
    """The tier or the catalog has uploads that brokers never had."""
    LEFT_ALONE = "left alone"
    """Brokers have segments that a person says to leave alone, as they never had them."""
    ANOTHER_CATALOG = "another catalog"
    """A run of another catalog wrote what brokers have, or publishes to them."""
    CATALOG_SET_BACK = "catalog set back"
    """Brokers have segments of this catalog's runs that it no longer names."""
    DELETED_BY_BROKERS = "deleted by brokers"
    """Brokers deleted live segments that consumers may still read."""
    UNLIKE_BROKERS = "unlike brokers"
    """Brokers noted live segments with other offsets."""
    NOT_IN_TIER = "not in tier"
    """Brokers have segments whose objects are not in the tier."""
    LOG_START_UNPROVEN = "log start unproven"
    """Brokers' log start is higher than the catalog's, and they have deleted nothing."""
    DELETED_KEYS = "deleted keys"
    """It was compacted without its brokers: readers may keep deleted keys once it is published."""
    PRECONDITION = "precondition"
    """The cluster, or the topic on it, is not set up for compaction by tierfold."""
    PLAN_OUTDATED = "plan outdated"
    """It is not as it was when the plan was made that is to be carried out."""
    ARCHIVED = "archived"
    """Objects have a storage class that must be restored before it can be read."""
    TIERED = "tiered"
    """Brokers tier the topic of a log directory themselves."""
    CORRUPT = "corrupt"
    """Bytes of the tier or of the catalog violate their format."""
    BAD_SETTINGS = "bad settings"
    """Settings of its topic conflict, or conflict with what the cluster says of it."""
    GRACE_TOO_SHORT = "grace too short"
    """Brokers serve it, and an event may arrive later than the grace period."""
    UNREADABLE = "unreadable"
    """An object is missing or forbidden."""
    NOT_IN_CLUSTER = "not in cluster"
    """The cluster has no such topic or partition."""
    RIGHT_MISSING = "right missing"
    """Brokers do not say the partition's offsets without a right."""
    UNANSWERED = "unanswered"
    """Brokers do not say the partition's offsets, such as without a leader."""

    @property
    def code(self) -> str:
        """The reason as documents have it."""
        return self.replace(" ", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The partition is left unchanged until a person acts; other partitions go on."""

    reason: RefusalReason
    detail: str
    """What is wrong; it names the segments."""
    remedy: str
    preconditions: tuple[RefusalPart, ...] = ()
    """What does not hold, if `reason` is `PRECONDITION`; `detail` and `remedy` join all of it."""

    @property
    def code(self) -> str:
        """The reason as documents have it."""
        return self.reason.code

    @property
    def parts(self) -> tuple[RefusalPart, ...]:
        """All that is wrong, each by itself, at least one."""
        own = RefusalPart(code=self.code, detail=self.detail, remedy=self.remedy)
        return self.preconditions or (own,)

    def at(self, place: str) -> Refusal:
        """The refusal with `place`, tier and partition for a shell, in its commands."""
        return replace(self, remedy=self.remedy.replace(PLACE, place))

    @property
    def sentence(self) -> str:
        """The whole message: the detail and the remedy."""
        return f"{self.detail.rstrip('.')}. {self.remedy}"


def first_few(sentences: Sequence[str]) -> str:
    """The first distinct sentences on one line, and how many more there are; see `alike`."""
    found = alike(sentence.rstrip(".") for sentence in sentences)
    more = len(found) - _SENTENCES_MAX
    return "; ".join(found[:_SENTENCES_MAX]) + (f"; and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition as this run sees it."""

    key: PartitionKey
    state: PartitionState | None
    """The catalog's row as read; None: there is none yet."""
    segments: tuple[Segment, ...]
    """Live segments in offset order, contiguous, including new ones."""
    orphans: tuple[ListedSegment, ...]
    """Segments without records of their own: no `.log`, or only offsets of the row's segments."""
    set_apart: tuple[ListedSegment, ...]
    """Unknown segments of another history of the partition, never read."""
    waiting: tuple[ListedSegment, ...]
    """Unknown segments that cannot be used now, and may hold records of their own."""
    stalled_since_ms: int | None
    """The time at which the oldest waiting segment that reaches beyond the live end was written,
    epoch milliseconds; None: none does."""
    retired: tuple[ListedSegment, ...]
    """Retired segments that still have an object in the listing."""
    lineage: tuple[LeaderEpoch, ...]
    log_start_offset: int
    notes: tuple[str, ...] = ()
    """Which segments are not used, and why, a sentence each."""
    doubtful: tuple[str, ...] = ()
    """Ids of unknown segments that may be another cluster's."""
    fingerprint: int | None = None
    """The catalog's, which the ids of what it wrote bear; None: there is no catalog yet."""
    holes: tuple[Hole, ...] = ()
    """Gaps that were taken for holes, in offset order; the row does not name them yet."""
    needed: tuple[str, ...] = ()
    """Ids of segments in `set_apart` whose head is part of the log, and in no other segment."""
    brokers: BrokerPartition | None = None
    """What brokers have of it; None: none were asked."""
    stored: tuple[ListedSegment, ...] = ()
    """The listing, if some object has not the store's usual storage class; else empty."""
    local_bytes: int = 0
    """Bytes of a broker's log that are not in the tier yet; 0: none, or no log directory tells."""
    kept: KeptSums | None = None
    """The sums that were read with the row; None: they were not."""

    @property
    def next_offset(self) -> int:
        """The first offset after the live range; the log start if no segment is live."""
        return self.segments[-1].next_offset if self.segments else self.log_start_offset

    @property
    def cleaner_offset(self) -> int | None:
        """The newest epoch's cleaner offset; None: no round was committed."""
        return None if self.state is None else self.state.cleaner_offset

    def kept_clean_below(self, offset: int) -> int | None:
        """Bytes of the live segments that start below an offset, if the row keeps that sum.

        What is new begins behind the row's segments. If brokers have moved the log start, the first
        of them may be gone.
        """
        row = self.state
        if self.kept is None or row is None or self.log_start_offset != row.log_start_offset:
            return None
        return self.kept.clean_below(row, offset)


def never_claimed(key: PartitionKey) -> PartitionState:
    """The row of a partition that no run has claimed yet: epoch 0, without a log."""
    return PartitionState(
        key=key,
        epoch=0,
        owner_run="",
        cleaner_offsets=(),
        log_start_offset=0,
        segments=(),
        lineage=(),
    )


def state_with_new(view: PartitionView) -> PartitionState:
    """The row that a claim starts from: with the view's new segments."""
    state = view.state or never_claimed(view.key)
    return replace(
        state,
        segments=view.segments,
        lineage=view.lineage,
        log_start_offset=view.log_start_offset,
        forgotten=(),
        holes=tuple(sorted({*state.holes, *view.holes})),
    )


NAME_CATALOG: Final = (
    "Here its catalog is missing: bring `_tierfold` back, or name it with --catalog. Move nothing"
    " out of the tier."
)
"""What leads out of an overlap with what the runs of another catalog wrote."""

CATALOG_FIRST: Final = (
    "If tierfold has compacted this tier before, its catalog is missing: bring `_tierfold` back, or"
    " name it with --catalog. Only if it never has, move the segment that the brokers do not list"
    " out of the tier."
)
"""A compacted segment overlaps its originals; without the catalog it is unknown which to move."""


def first_break(segments: Sequence[Segment]) -> Refusal | None:
    """A refusal for the first segment that does not start right after the one before it."""
    for before, after in pairwise(segments):
        if after.start_offset > before.next_offset:
            return missing_segment(before.end_offset, before, after)
        if after.start_offset < before.next_offset:
            return Refusal(
                reason=RefusalReason.OVERLAP,
                detail=f"segment {before.segment_id} ends at offset {before.end_offset},"
                f" segment {after.segment_id} starts at {after.start_offset}",
                remedy=CATALOG_FIRST,
            )
    return None


def start_behind(offset: int, *, is_served: bool) -> str:
    """How the log begins behind what is lost for good, a clause; `is_served`: brokers were asked.

    What is moved out of the tier that brokers serve is missing for their consumers.
    """
    if is_served:
        return (
            f"`kafka-delete-records.sh` lets the log start at offset {offset}, where consumers then"
            " begin; move nothing out of the tier."
        )
    return (
        f"move the segments below offset {offset} out of the tier and keep them: the log then"
        " starts there, without the records below."
    )


def missing_segment(
    end_offset: int, before: Segment | None, after: Segment, *, is_served: bool = False
) -> Refusal:
    """The refusal of a partition that lacks the offsets between `end_offset` and a segment.

    `is_served`: as of `start_behind`.
    """
    ends = "the segments below end" if before is None else f"segment {before.segment_id} ends"
    return Refusal(
        reason=RefusalReason.GAP,
        detail=f"{ends} at offset {end_offset}, segment {after.segment_id} starts at"
        f" {after.start_offset}",
        remedy="Bring the missing segment back, or run again once its upload is complete. If it is"
        f" lost for good, {start_behind(after.start_offset, is_served=is_served)}",
    )
