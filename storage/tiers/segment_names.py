"""Names of a segment's objects, `<start offset>-<segment id>.<suffix>`, which both layouts have.

A start offset has 20 digits, an id 22 characters, which may be `-` and `_`.
Rule: Kafka `RemoteLogSegmentFileset`; Aiven's plugin, `ObjectKeyFactory`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tierfold.compaction.discovery.listing import IncompleteUpload, ListedSegment
from tierfold.compaction.model.segment_ids import KAFKA_UUID_PATTERN
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.tiers.object_store import ObjectEntry
from tierfold.storage.tiers.remote_tier import Listing, SegmentAddress

_OFFSET_MAX: Final = 2**63 - 1
_NAME: Final = re.compile(rf"([0-9]{{20}})-({KAFKA_UUID_PATTERN})\.([a-z_-]+)")

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class SegmentNames:
    """The names of one layout."""

    suffixes: tuple[str, ...]
    """All that it has."""
    required: tuple[str, ...]
    """Those that a complete segment has."""

    def parse(self, name: str) -> tuple[int, str, str] | None:
        """Return start offset, segment id and suffix; None: the name is no segment's."""
        found = _NAME.fullmatch(name)
        if found is None or int(found[1]) > _OFFSET_MAX or found[3] not in self.suffixes:
            return None
        return int(found[1]), found[2], found[3]

    def listing(self, entries: Iterable[ObjectEntry]) -> Listing:
        """Return the segments among a folder's objects, by start offset and id."""
        segments: dict[tuple[int, str], dict[str, ObjectEntry]] = {}
        for entry in entries:
            name = self.parse(last_part(entry.key))
            if name is not None:
                start_offset, segment_id, suffix = name
                segments.setdefault((start_offset, segment_id), {})[suffix] = entry
        return tuple(
            ListedSegment(
                segment_id=segment_id,
                start_offset=start_offset,
                parts=tuple(sorted((suffix, entry.size_bytes) for suffix, entry in found.items())),
                missing_parts=tuple(suffix for suffix in self.required if suffix not in found),
                modified_ms=max(entry.modified_ms for entry in found.values()),
                classes=tuple(
                    sorted(
                        (suffix, entry.storage_class)
                        for suffix, entry in found.items()
                        if entry.storage_class
                    )
                ),
            )
            for (start_offset, segment_id), found in sorted(segments.items())
        )


def object_name(address: SegmentAddress, suffix: str) -> str:
    """Return the name of a segment's object in its partition's folder."""
    return f"{address.start_offset:020d}-{address.segment_id}.{suffix}"


def incomplete_uploads(entries: Iterable[ObjectEntry]) -> tuple[IncompleteUpload, ...]:
    """Return the unfinished writes of a folder, and of which segments they are."""
    return tuple(
        IncompleteUpload(
            object_key=entry.key,
            size_bytes=entry.size_bytes,
            modified_ms=entry.modified_ms,
            segment_id=named_id(last_part(entry.key)),
        )
        for entry in entries
    )


def named_id(name: str) -> str:
    """Return the segment's id in the name of an unfinished write; empty: there is none."""
    found = _NAME.match(name.removeprefix("."))
    return "" if found is None else found[2]


def by_partition(
    keys: Iterable[PartitionKey],
    folder_of: Callable[[PartitionKey], str],
    list_each: Callable[[Sequence[str]], Mapping[str, tuple[ObjectEntry, ...] | Exception]],
    read: Callable[[Iterable[ObjectEntry]], _Found],
) -> dict[PartitionKey, _Found | Exception]:
    """Return by partition what `read` makes of its folder's objects, or why they are not listed."""
    folders = {folder_of(key): key for key in keys}
    return {
        folders[folder]: entries if isinstance(entries, Exception) else read(entries)
        for folder, entries in list_each(tuple(folders)).items()
    }


def last_part(object_key: str) -> str:
    """Return the object's name in its folder."""
    return object_key.rpartition("/")[2]
