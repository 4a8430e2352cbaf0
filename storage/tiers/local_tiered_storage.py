"""The layout of Kafka's own LocalTieredStorage: a folder per partition, six files per segment.

    <tier>/kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset>-<segment id>.<part>

A start offset has 20 digits, an id 22 characters, which may be `-` and `_`. There is no manifest;
the catalog lists the live segments.
Rule: Kafka `LocalTieredStorage`, `RemoteTopicPartitionDirectory`, `RemoteLogSegmentFileset`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.discovery.listing import IncompleteUpload, ListedSegment
from tierfold.compaction.discovery.ownership import OF_PARTITION, Ownership
from tierfold.compaction.model.segment_ids import KAFKA_UUID_PATTERN
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.storage.kafka.topic_names import TOPIC_PATTERN, is_topic
from tierfold.storage.tiers.object_store import (
    Bytes,
    ObjectClasses,
    ObjectStore,
    ObjectWriter,
    StoredChecksum,
    check_copied,
)
from tierfold.storage.tiers.remote_tier import (
    CATALOG_FOLDER,
    PART_BYTES_MAX,
    PARTS,
    Access,
    Listing,
    NearLogs,
    Part,
    RemoteTier,
    SegmentAddress,
    StagedSegment,
    address_of,
    check_order,
    check_size,
    leaves,
    no_tier,
)
from tierfold.storage.tiers.segment_names import (
    SegmentNames,
    by_partition,
    incomplete_uploads,
    object_name,
)

TIER_FOLDER: Final = "kafka-tiered-storage"
"""The folder that Kafka makes in the configured one."""

_PARTITION_MAX: Final = 2**31 - 1
_PARTITION: Final = re.compile(rf"({TOPIC_PATTERN})-(0|[1-9][0-9]{{0,9}})-({KAFKA_UUID_PATTERN})")

REQUIRED_PARTS: Final = tuple(part for part in PARTS if part is not Part.TRANSACTION_INDEX)
"""Every segment has these (Kafka `LogSegmentData`)."""

NAMES: Final = SegmentNames(suffixes=PARTS, required=REQUIRED_PARTS)
"""The names of its files."""


@dataclass(frozen=True, slots=True)
class LocalTieredStorage(RemoteTier):
    """A tier in this layout; see `RemoteTier`."""

    store: ObjectStore
    near: NearLogs | None = field(default=None, compare=False, repr=False)
    reads_incomplete = True
    """See `RemoteTier.reads_incomplete`."""

    def check(self) -> None:
        """See `RemoteTier.check`.

        On a disk the tier's folder must be there: a file system that is not mounted must not look
        like an empty tier. A bucket keeps no empty folders, so after the last segment the catalog
        shows that this is a tier.
        """
        top = tuple(self.store.list_folders(""))
        is_emptied = CATALOG_FOLDER in top and not self.store.keeps_empty_folders
        if TIER_FOLDER not in top and not is_emptied:
            empty = f" If the tier is empty, create an empty object {TIER_FOLDER}/ in it."
            where = self.store.uri(TIER_FOLDER).removesuffix(f"/{TIER_FOLDER}")
            above, _, _ = f"{where}/".rpartition(f"/{TIER_FOLDER}/")
            named = f", {above}" if above else ""
            raise no_tier(
                f"folder {TIER_FOLDER}",
                top,
                where=where,
                remedy=f"Name the folder that holds {TIER_FOLDER}{named}: the `dir` of the broker's"
                " LocalTieredStorage. If Aiven's plugin wrote the tier, name the brokers'"
                " key.prefix with --key-prefix, or their properties with --rsm-config."
                + ("" if self.store.keeps_empty_folders else empty),
            )

    def partitions(self) -> tuple[PartitionKey, ...]:
        """See `RemoteTier.partitions`."""
        self.check()
        keys = (partition_key(name) for name in self.store.list_folders(TIER_FOLDER))
        return tuple(sorted(key for key in keys if key is not None))

    def listings(
        self, keys: Sequence[PartitionKey]
    ) -> dict[PartitionKey, Listing | Exception]:
        """See `RemoteTier.listings`."""
        return by_partition(keys, partition_folder, self.store.list_each, NAMES.listing)

    def incomplete_uploads(
        self, keys: Sequence[PartitionKey]
    ) -> dict[PartitionKey, tuple[IncompleteUpload, ...] | Exception]:
        """See `RemoteTier.incomplete_uploads`."""
        return by_partition(keys, partition_folder, self.store.unfinished_each, incomplete_uploads)

    def objects_of(self, key: PartitionKey, listed: ListedSegment) -> tuple[tuple[str, int], ...]:
        """See `RemoteTier.objects_of`: the `.log` goes last."""
        address = address_of(key, listed)
        return tuple(
            (part_key(address, part), size_bytes)
            for part in reversed(PARTS)
            if (size_bytes := listed.part_bytes(part)) is not None
        )

    def new_segment(
        self,
        address: SegmentAddress,
        sources: Sequence[SegmentAddress] = (),  # noqa: ARG002 - all are stored alike
    ) -> StagedFiles:
        """See `RemoteTier.new_segment`."""
        return StagedFiles(self, address)

    def in_classes(self, classes: ObjectClasses) -> LocalTieredStorage:
        """See `RemoteTier.in_classes`."""
        return replace(self, store=self.store.in_classes(classes))

    def with_near(self, near: NearLogs | None) -> LocalTieredStorage:
        """See `RemoteTier.with_near`."""
        return replace(self, near=near)

    def copy_segment(self, key: PartitionKey, listed: ListedSegment, copy: Segment) -> Segment:
        """See `RemoteTier.copy_segment`: no file names its segment."""
        source, target = address_of(key, listed), address_of(key, copy)
        store = self.store.in_classes(listed.classes)
        for part in PARTS:
            size_bytes = listed.part_bytes(part)
            if size_bytes is not None:
                copied_bytes = store.copy(part_key(source, part), part_key(target, part))
                check_copied(copied_bytes, size_bytes, self.uri(target, part))
        return copy

    def read_part(self, address: SegmentAddress, part: Part) -> NDArray[np.uint8]:
        """See `RemoteTier.read_part`; the size is found by reading one byte more than allowed."""
        key = part_key(address, part)
        if part is Part.LOG:
            return self.store.read(key)
        found = self.store.read_range(key, 0, PART_BYTES_MAX[part] + 1)
        check_size(part, len(found), self.store.uri(key))
        return found

    def part_sizes(
        self,
        key: PartitionKey,  # noqa: ARG002 - the listing says it all
        listed: ListedSegment,
    ) -> Mapping[Part, int]:
        """See `RemoteTier.part_sizes`: each part is an object."""
        return {Part(part): size_bytes for part, size_bytes in listed.parts}

    def ownership(self, _key: PartitionKey, _listed: ListedSegment) -> Ownership:
        """See `RemoteTier.ownership`: the folder's name has the topic id, and no prefix."""
        return OF_PARTITION

    def recorded_end(self, _address: SegmentAddress) -> None:
        """See `RemoteTier.recorded_end`: no object says it."""

    def with_stored_sizes(
        self,
        segment: Segment,
        listed: ListedSegment,  # noqa: ARG002 - parts are stored as they are
    ) -> Segment:
        """See `RemoteTier.with_stored_sizes`: they are those of the parts."""
        return segment

    def access(self, address: SegmentAddress, part: Part) -> Access:
        """See `RemoteTier.access`."""
        return Access(map_range=self.store.range_mapper(part_key(address, part)))

    def read_range(
        self, address: SegmentAddress, part: Part, start: int, length: int
    ) -> NDArray[np.uint8]:
        """See `RemoteTier.read_range`."""
        return self.store.read_range(part_key(address, part), start, length)

    def stored_checksum(self, address: SegmentAddress, part: Part) -> StoredChecksum | None:
        """See `RemoteTier.stored_checksum`."""
        return self.store.stored_checksum(part_key(address, part))

    def uri(self, address: SegmentAddress, part: Part) -> str:
        """See `RemoteTier.uri`."""
        return self.store.uri(part_key(address, part))


@dataclass(slots=True)
class StagedFiles(StagedSegment):
    """A segment being written in this layout; see `StagedSegment`.

    The checkpoint is the last part, and required.
    """

    tier: LocalTieredStorage
    address: SegmentAddress
    _objects: list[tuple[str, int]] = field(default_factory=list)

    @property
    def objects(self) -> tuple[tuple[str, int], ...]:
        """See `StagedSegment.objects`."""
        return tuple(self._objects)

    @contextmanager
    def open_log(self) -> Iterator[ObjectWriter]:
        """See `StagedSegment.open_log`."""
        with self.tier.store.open_new(self._next(Part.LOG)) as writer:
            yield writer
        self._objects.append((Part.LOG.value, writer.size_bytes))

    def put(self, part: Part, data: Bytes) -> None:
        """See `StagedSegment.put`."""
        self.tier.store.create(self._next(part), data)
        self._objects.append((part.value, len(data)))

    def finish(self, segment: Segment) -> Segment:
        """See `StagedSegment.finish`."""
        return segment

    def _next(self, part: Part) -> str:
        check_order(part, [Part(suffix) for suffix, _ in self._objects])
        return part_key(self.address, part)


def part_key(address: SegmentAddress, part: Part) -> str:
    """The part's key in the store; raises UnreadableObject as `partition_folder` does."""
    found = f"{partition_folder(address.key)}/{object_name(address, part.value)}"
    if found.count("/") != 2:
        raise leaves(found, "partition's folder")
    return found


def partition_folder(key: PartitionKey) -> str:
    """The key of the partition's folder; raises UnreadableObject if it is not inside the tier.

    Names are checked when they are read: here from a listing, by `catalog.cells` from the catalog.
    This is the last check, so that no name leads to another partition's objects.
    """
    folder = f"{TIER_FOLDER}/{key.topic}-{key.partition}-{key.topic_id}"
    if folder.count("/") != 1:
        raise leaves(folder, "tier")
    return folder


def partition_key(folder: str) -> PartitionKey | None:
    """The partition of a folder's name; None if it is no partition's."""
    found = _PARTITION.fullmatch(folder)
    if found is None or not is_topic(found[1]) or int(found[2]) > _PARTITION_MAX:
        return None
    return PartitionKey(topic=found[1], partition=int(found[2]), topic_id=found[3])
