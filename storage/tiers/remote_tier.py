"""The interface of a remote tier: its partitions and segments, whatever its layout.

Only a layout knows the names of objects, how many objects a segment has, and which parts it
requires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.discovery.listing import IncompleteUpload, ListedSegment
from tierfold.compaction.discovery.ownership import Ownership
from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    TierfoldError,
    UnreadableObject,
    from_backup,
)
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.storage.tiers.object_store import (
    Bytes,
    MapRange,
    ObjectClasses,
    ObjectStore,
    ObjectWriter,
    StoredChecksum,
)
from tierfold.storage.tiers.request_counts import Requests


class Part(StrEnum):
    """A part of a segment (Kafka `LogSegmentData`), in the order in which parts are written."""

    LOG = "log"
    OFFSET_INDEX = "index"
    TIME_INDEX = "timeindex"
    TRANSACTION_INDEX = "txnindex"
    SNAPSHOT = "snapshot"
    LEADER_EPOCH_CHECKPOINT = "leader_epoch_checkpoint"


PARTS: Final = tuple(Part)
"""All parts, in the order in which they are written."""

PART_BYTES_MAX: Final[Mapping[Part, int]] = {
    Part.OFFSET_INDEX: 32 * 2**20,  # Brokers: segment.index.bytes, 10 MiB by default.
    Part.TIME_INDEX: 32 * 2**20,  # The same.
    Part.SNAPSHOT: 32 * 2**20,  # 46 bytes a producer: 700,000 of them.
    Part.TRANSACTION_INDEX: 16 * 2**20,  # 34 bytes a transaction: 490,000 aborted in one segment.
    Part.LEADER_EPOCH_CHECKPOINT: 2**20,  # Some 20 bytes an election: 50,000.
}
"""The largest part beside a log that is read or written: far above what brokers write. Such a part
is held in memory as a whole, and takes several times as much once it is parsed."""

_ONLY_SPARE_READING: Final = frozenset({Part.OFFSET_INDEX, Part.TIME_INDEX})
INDEX_REMEDY: Final = (
    "`tierfold compact` builds the segment's indexes again from its .log; in a clean partition,"
    " `tierfold compact --first-dirty 0` does."
)
"""What to do with an offset or time index that cannot be used."""


CATALOG_FOLDER: Final = "_tierfold"
"""The folder of a tier's catalog, beside the folders of the layout, unless --catalog names another.
"""


@dataclass(frozen=True, slots=True)
class SegmentAddress:
    """What a layout builds the names of a segment's objects from."""

    key: PartitionKey
    segment_id: str
    start_offset: int
    """The first offset of its `.log`; the effective start may be later."""


def address_of(key: PartitionKey, segment: Segment | ListedSegment) -> SegmentAddress:
    """The address of a segment of that partition."""
    start = segment.own_start_offset if isinstance(segment, Segment) else segment.start_offset
    return SegmentAddress(key, segment.segment_id, start)


Listing: TypeAlias = tuple[ListedSegment, ...]
"""A partition's segments by start offset and id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a part is best read."""

    map_range: MapRange | None = None
    """Maps a range from a file; None: ranges are fetched."""
    unit_bytes: int = 1
    """The part is stored in units of so many bytes; each range should end where a unit does."""
    is_in_order: bool = False
    """A range is cheap only if it begins where the one before it ended."""

    @property
    def is_mapped(self) -> bool:
        """Whether ranges are neither copied nor held in memory, so that one is enough."""
        return self.map_range is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class NearLog:
    """The `.log` of a segment in a file of this machine, which has the same bytes."""

    read: Callable[[int, int], NDArray[np.uint8]]
    """As `RemoteTier.read_range`; raises as that does."""
    where: str
    """The file's name."""


class NearLogs(Protocol):
    """Where this machine may have logs of segments, beside the tier."""

    def log_of(self, tier: RemoteTier, key: PartitionKey, segment: Segment) -> NearLog | None:
        """The segment's log; None: it is not there, or is not proven to have the same bytes.

        Raises nothing: then the tier is read, and an error of the tier is raised there.
        """

    def is_named_by(self, error: TierfoldError) -> bool:
        """Whether an error is about one of these files, and so says nothing of the tier."""


class StagedSegment(Protocol):
    """A segment being written, in the order of `PARTS`; the catalog does not name it yet.

    One whose writing was interrupted is never complete.
    """

    address: SegmentAddress
    """Its address, with a fresh id."""

    @property
    def objects(self) -> tuple[tuple[str, int], ...]:
        """The objects written so far, as in `ListedSegment.parts`: suffix, and bytes."""

    def open_log(self) -> AbstractContextManager[ObjectWriter]:
        """Write the `.log` piece by piece; raises UnreadableObject."""

    def put(self, part: Part, data: Bytes) -> None:
        """Write a whole part; raises UnreadableObject, and ValueError out of order."""

    def finish(self, segment: Segment) -> Segment:
        """Complete the segment once all parts are written; its metadata is `segment`.

        Returns the metadata with the stored sizes that the catalog needs; raises UnreadableObject.
        """


class RemoteTier(Protocol):
    """A tier; a small value that can be pickled for a Spark worker."""

    store: ObjectStore
    """Where its objects are."""
    near: NearLogs | None
    """Where logs are read in place of their objects; None: nowhere."""

    def with_near(self, near: NearLogs | None) -> RemoteTier:
        """The tier, some of whose logs are read there."""

    def in_classes(self, classes: ObjectClasses) -> RemoteTier:
        """The tier, whose new objects get these storage classes unless its options name one."""

    def check(self) -> None:
        """Raise BadSettings if this is no tier, UnreadableObject if the store cannot be read."""

    def partitions(self) -> tuple[PartitionKey, ...]:
        """The partitions in the tier, sorted; raises BadSettings if this is no tier."""

    def listings(
        self, keys: Sequence[PartitionKey]
    ) -> Mapping[PartitionKey, Listing | Exception]:
        """The listing of each partition, or why it cannot be listed; no object is opened."""

    def incomplete_uploads(
        self, keys: Sequence[PartitionKey]
    ) -> Mapping[PartitionKey, tuple[IncompleteUpload, ...] | Exception]:
        """What unfinished writes left of each partition's objects, or why that is unknown."""

    def delete(self, object_key: str) -> None:
        """Delete an object, or what an unfinished write left of it; raises UnreadableObject."""
        self.store.delete(object_key)

    def objects_of(self, key: PartitionKey, listed: ListedSegment) -> tuple[tuple[str, int], ...]:
        """The segment's objects: each one's key in the store, and its stored size in bytes.

        In the order in which they may be deleted: an interruption leaves an incomplete segment,
        never one that looks complete or one that `vacuum` could not delete later.
        """

    def new_segment(
        self, address: SegmentAddress, sources: Sequence[SegmentAddress] = ()
    ) -> StagedSegment:
        """A segment to be written at `address`, whose id is new, stored as its `sources` are.

        Raises UnreadableObject and CorruptLog if that cannot be found out, BadSettings if it
        contradicts the layout's options.
        """

    def copy_segment(self, key: PartitionKey, listed: ListedSegment, copy: Segment) -> Segment:
        """Copy a complete segment within the store, under another id.

        `listed` is the segment as the listing shows it, `copy` the metadata of the copy, with its
        id. What names the segment in its objects is written for the copy; all else stays as it is
        stored, encoding included. Returns `copy` with its stored sizes. If interrupted, it leaves
        an incomplete segment, never one that looks complete.

        Raises UnreadableObject, also if an object is not as listed, and CorruptLog if the layout
        must open an object for it.
        """

    def read_part(self, address: SegmentAddress, part: Part) -> NDArray[np.uint8]:
        """A whole part; raises as `read_range` does, and CorruptLog above `PART_BYTES_MAX`."""

    def part_sizes(self, key: PartitionKey, listed: ListedSegment) -> Mapping[Part, int]:
        """The size in bytes of each part that the segment has, as `read_part` returns it.

        Raises UnreadableObject and CorruptLog if the layout must open an object for it.
        """

    def ownership(self, key: PartitionKey, listed: ListedSegment) -> Ownership:
        """Whose the objects of a segment that no row names are.

        Raises UnreadableObject and CorruptLog if the layout must open an object for it.
        """

    def recorded_end(self, address: SegmentAddress) -> int | None:
        """The segment's last offset as its objects say it, also if it has no batch there.

        None: they do not say; then only its last batch and the next segment show it.

        Raises UnreadableObject and CorruptLog if the layout must open an object for it.
        """

    def with_stored_sizes(self, segment: Segment, listed: ListedSegment) -> Segment:
        """The segment's metadata with the stored sizes, which planning compares with listings."""

    @property
    def reads_incomplete(self) -> bool:
        """Whether the `.log` of an incomplete segment can be read."""

    def access(self, address: SegmentAddress, part: Part) -> Access:
        """How the part is best read; raises UnreadableObject and CorruptLog."""

    def read_range(
        self, address: SegmentAddress, part: Part, start: int, length: int
    ) -> NDArray[np.uint8]:
        """Up to `length` bytes of a part from `start` on, fewer at its end.

        Raises UnreadableObject, and CorruptLog if the part is stored encoded and cannot be decoded.
        """

    def stored_checksum(self, address: SegmentAddress, part: Part) -> StoredChecksum | None:
        """What the store says of the part's bytes; see `ObjectStore.stored_checksum`.

        None, too, if the part is stored encoded or with others in one object: then only reading it
        back shows that it can be decoded.
        """

    def uri(self, address: SegmentAddress, part: Part) -> str:
        """The part's full name, for messages."""

    def free_bytes(self) -> int | None:
        """How many more bytes can be written; None: the store sets no limit.

        Raises UnreadableObject.
        """
        return self.store.free_bytes()

    def requests(self) -> Requests:
        """The requests that this process has made to the tier's store so far."""
        return self.store.requests()

    def listing(self, key: PartitionKey) -> Listing:
        """The partition's listing; raises UnreadableObject."""
        found = self.listings((key,))[key]
        if isinstance(found, Exception):
            raise found
        return found

    def part_of(
        self, key: PartitionKey, segment: Segment, part: Part
    ) -> tuple[NDArray[np.uint8], str]:
        """A whole part of a segment, and its full name; raises as `read_range` does."""
        address = address_of(key, segment)
        return self.read_part(address, part), self.uri(address, part)

    def log_name(self, key: PartitionKey, segment: Segment) -> str:
        """The full name of the `.log` from the effective start on, for messages about positions."""
        return counted_from(self.uri(address_of(key, segment), Part.LOG), segment.skipped_bytes)


class LargePart(CorruptLog):
    """A part beside a log is too large to be held."""


def check_size(part: Part, size_bytes: int, where: str) -> None:
    """Raise LargePart for a part beside a log that is too large to be held."""
    if size_bytes > PART_BYTES_MAX[part]:
        raise LargePart(
            f"the .{part.value} has more than {PART_BYTES_MAX[part]} bytes, and is not read",
            where=where,
            remedy=INDEX_REMEDY if part in _ONLY_SPARE_READING else from_backup("it"),
        )


def check_order(part: Part, written: Iterable[Part]) -> None:
    """Raise ValueError if the part, or one after it in `PARTS`, was written."""
    last = max(written, key=PARTS.index, default=None)
    if last is not None and PARTS.index(part) <= PARTS.index(last):
        raise ValueError(f".{part.value} must be written before .{last.value}")


def no_tier(lacking: str, found: Sequence[str], *, where: str, remedy: str) -> BadSettings:
    """The error for a place that lacks what a tier has; `found`: the folders in it."""
    others = f"but {', '.join(found[:5])}{', …' if len(found) > 5 else ''}"
    return BadSettings(
        f"there is no {lacking} in it, {others if found else 'nor any other folder'}",
        where=where,
        remedy=remedy,
    )


def leaves(object_key: str, what: str) -> UnreadableObject:
    """The error for a name that leads out of the tier, or out of a folder in it."""
    return UnreadableObject(
        f"the name leaves the {what}",
        where=object_key,
        remedy="No topic, id or segment has such a name; please report where it came from.",
    )


def counted_from(where: str, skipped_bytes: int) -> str:
    """The name of a log that is read from a position on."""
    return f"{where}, counted from byte {skipped_bytes} on" if skipped_bytes else where
