"""The layout of Kafka's own LocalTieredStorage: a folder per partition, six files per segment.

    <tier>/kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset>-<segment id>.<part>

A start offset has 20 digits, an id 22 characters, which may be `-` and `_`. There is no manifest;
the catalog lists the live segments.
Rule: Kafka `LocalTieredStorage`, `RemoteTopicPartitionDirectory`, `RemoteLogSegmentFileset`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.discovery.listing import IncompleteUpload, ListedSegment
from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.storage.kafka.kafka_uuid import KAFKA_UUID_PATTERN, new_segment_id
from tierfold.storage.kafka.topic_names import TOPIC_PATTERN, is_topic
from tierfold.storage.tiers.local_paths import local_path
from tierfold.storage.tiers.object_store import Bytes, ObjectEntry, ObjectStore, ObjectWriter

TIER_FOLDER: Final = "kafka-tiered-storage"
"""The folder that Kafka makes in the configured one."""

_PARTITION_MAX: Final = 2**31 - 1
_OFFSET_MAX: Final = 2**63 - 1
_PARTITION: Final = re.compile(rf"({TOPIC_PATTERN})-(0|[1-9][0-9]{{0,9}})-({KAFKA_UUID_PATTERN})")


class Part(StrEnum):
    """A segment's objects by their suffix, in the order in which they are written.

    The checkpoint comes last, so a segment whose writing was interrupted is never complete.
    """

    LOG = "log"
    OFFSET_INDEX = "index"
    TIME_INDEX = "timeindex"
    TRANSACTION_INDEX = "txnindex"
    SNAPSHOT = "snapshot"
    LEADER_EPOCH_CHECKPOINT = "leader_epoch_checkpoint"


PARTS: Final = tuple(Part)
"""All parts, in the order in which they are written."""

_SEGMENT: Final = re.compile(rf"([0-9]{{20}})-({KAFKA_UUID_PATTERN})\.({'|'.join(PARTS)})")


def tier_path(text: str) -> Path:
    """The folder that holds `TIER_FOLDER`, named by a path or a `file:` URI.

    Raises BadSettings if there is none or `local_path` refuses the text, UnreadableObject if it may
    not be read.
    """
    path = local_path(text, of="tier")
    try:
        if not path.is_dir():
            raise BadSettings(
                "there is no such folder",
                where=str(path),
                remedy="Check the path, and whether the tier's file system is mounted.",
            )
        if not (path / TIER_FOLDER).is_dir():
            raise _no_tier(str(path), sorted(child.name for child in path.iterdir()))
    except OSError as error:
        raise UnreadableObject(
            f"cannot list this folder: {error.strerror}",
            where=str(path),
            remedy="Check the path, and let the user that runs tierfold read the tier.",
        ) from error
    return path


@dataclass(frozen=True, slots=True)
class LocalTieredStorage:
    """A tier in this layout; a small value that can be pickled for a Spark worker."""

    store: ObjectStore

    def partitions(self) -> tuple[PartitionKey, ...]:
        """The partitions in the tier, sorted; raises BadSettings if this is no tier."""
        keys = (partition_key(name) for name in self._folders())
        return tuple(sorted(key for key in keys if key is not None))

    def listing(self, key: PartitionKey) -> tuple[ListedSegment, ...]:
        """The partition's segments by start offset and id, from one listing; no file is opened."""
        parts: dict[tuple[int, str], dict[str, ObjectEntry]] = {}
        for entry in self.store.list(partition_folder(key)):
            name = segment_name(entry.key.rpartition("/")[2])
            if name is not None:
                start_offset, segment_id, part = name
                parts.setdefault((start_offset, segment_id), {})[part.value] = entry
        return tuple(
            ListedSegment(
                segment_id=segment_id,
                start_offset=start_offset,
                parts=tuple(sorted((part, entry.size_bytes) for part, entry in found.items())),
                modified_ms=max(entry.modified_ms for entry in found.values()),
            )
            for (start_offset, segment_id), found in sorted(parts.items())
        )

    def incomplete_uploads(self, key: PartitionKey) -> tuple[IncompleteUpload, ...]:
        """Files of unfinished writes in the partition's folder, by name."""
        return tuple(
            IncompleteUpload(
                object_key=entry.key, size_bytes=entry.size_bytes, modified_ms=entry.modified_ms
            )
            for entry in self.store.unfinished(partition_folder(key))
        )

    def delete_segment(self, key: PartitionKey, segment_id: str, start_offset: int) -> None:
        """Delete the parts that exist, last written first; raises UnreadableObject.

        If interrupted, it leaves an incomplete segment, never one that looks complete.
        """
        for part in reversed(PARTS):
            self.store.delete(self.object_key(key, segment_id, start_offset, part))

    def object_key(self, key: PartitionKey, segment_id: str, start_offset: int, part: Part) -> str:
        """The part's key in the store; raises UnreadableObject as `partition_folder` does."""
        object_key = f"{partition_folder(key)}/{start_offset:020d}-{segment_id}.{part.value}"
        if object_key.count("/") != 2:
            raise _leaves(object_key, "partition's folder")
        return object_key

    def uri(self, key: PartitionKey, segment_id: str, start_offset: int, part: Part) -> str:
        """The part's full name, for messages."""
        return self.store.uri(self.object_key(key, segment_id, start_offset, part))

    def read_part(
        self, key: PartitionKey, segment_id: str, start_offset: int, part: Part
    ) -> NDArray[np.uint8]:
        """A whole part; raises UnreadableObject."""
        return self.store.read(self.object_key(key, segment_id, start_offset, part))

    def part_of(
        self, key: PartitionKey, segment: Segment, part: Part
    ) -> tuple[NDArray[np.uint8], str]:
        """A whole part of a segment, and its full name; raises UnreadableObject."""
        address = (key, segment.segment_id, segment.own_start_offset, part)
        return self.read_part(*address), self.uri(*address)

    def log_name(self, key: PartitionKey, segment: Segment) -> str:
        """The full name of what `read_log` returns, for messages about positions in it."""
        name = self.uri(key, segment.segment_id, segment.own_start_offset, Part.LOG)
        return counted_from(name, segment.skipped_bytes)

    def read_log(self, key: PartitionKey, segment: Segment) -> NDArray[np.uint8]:
        """The segment's `.log` from its effective start on; raises UnreadableObject."""
        log = self.read_part(key, segment.segment_id, segment.own_start_offset, Part.LOG)
        return log[segment.skipped_bytes :]

    def new_segment(self, key: PartitionKey, start_offset: int) -> StagedSegment:
        """A segment to be written under a fresh id."""
        return StagedSegment(
            tier=self, key=key, start_offset=start_offset, segment_id=new_segment_id()
        )

    def _folders(self) -> tuple[str, ...]:
        top = tuple(self.store.list_folders(""))
        if TIER_FOLDER not in top:  # A file system that is not mounted is no empty tier.
            raise _no_tier(self.store.uri(TIER_FOLDER).removesuffix(f"/{TIER_FOLDER}"), top)
        return tuple(self.store.list_folders(TIER_FOLDER))


@dataclass(slots=True, kw_only=True)
class StagedSegment:
    """A segment being written, in the order of `PARTS`; the catalog does not name it yet."""

    tier: LocalTieredStorage
    key: PartitionKey
    start_offset: int
    segment_id: str
    _written: list[Part] = field(default_factory=list)

    @contextmanager
    def open_log(self) -> Iterator[ObjectWriter]:
        """Write the `.log` piece by piece; raises UnreadableObject."""
        with self.tier.store.open_new(self._next(Part.LOG)) as writer:
            yield writer
        self._written.append(Part.LOG)

    def put(self, part: Part, data: Bytes) -> None:
        """Write a whole part; raises UnreadableObject, and ValueError out of order."""
        self.tier.store.create(self._next(part), data)
        self._written.append(part)

    def uri(self, part: Part) -> str:
        """The part's full name."""
        return self.tier.uri(self.key, self.segment_id, self.start_offset, part)

    def _next(self, part: Part) -> str:
        if self._written and PARTS.index(part) <= PARTS.index(self._written[-1]):
            raise ValueError(f".{part.value} must be written before .{self._written[-1].value}")
        return self.tier.object_key(self.key, self.segment_id, self.start_offset, part)


def partition_folder(key: PartitionKey) -> str:
    """The key of the partition's folder; raises UnreadableObject if it is not inside the tier.

    Names are checked when they are read: here from a listing, by `catalog.cells` from the catalog.
    This is the last check, so that no name leads to another partition's objects.
    """
    folder = f"{TIER_FOLDER}/{key.topic}-{key.partition}-{key.topic_id}"
    if folder.count("/") != 1:
        raise _leaves(folder, "tier")
    return folder


def partition_key(folder: str) -> PartitionKey | None:
    """The partition of a folder's name; None if it is no partition's."""
    found = _PARTITION.fullmatch(folder)
    if found is None or not is_topic(found[1]) or int(found[2]) > _PARTITION_MAX:
        return None
    return PartitionKey(topic=found[1], partition=int(found[2]), topic_id=found[3])


def segment_name(file: str) -> tuple[int, str, Part] | None:
    """Start offset, segment id and part of a file's name; None if it is no segment's."""
    found = _SEGMENT.fullmatch(file)
    if found is None or int(found[1]) > _OFFSET_MAX:
        return None
    return int(found[1]), found[2], Part(found[3])


def counted_from(where: str, skipped_bytes: int) -> str:
    """The name of a log that is read from a position on."""
    return f"{where}, counted from byte {skipped_bytes} on" if skipped_bytes else where


def _leaves(object_key: str, what: str) -> UnreadableObject:
    return UnreadableObject(
        f"the name leaves the {what}",
        where=object_key,
        remedy="No topic, id or segment has such a name; please report where it came from.",
    )


def _no_tier(where: str, found: Sequence[str]) -> BadSettings:
    what = f"{', '.join(found[:5])}{', …' if len(found) > 5 else ''}" if found else "nothing"
    return BadSettings(
        f"there is no folder {TIER_FOLDER} in it, but {what}",
        where=where,
        remedy=f"Name the folder that holds {TIER_FOLDER}: the `dir` of the broker's"
        " LocalTieredStorage.",
    )
