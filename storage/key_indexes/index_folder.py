"""Where key indexes are stored: `key_indexes/<topic id>-<partition>/` beside the catalog's tables.

Reading and writing raise nothing if the store fails: without its index a segment is read.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.skipping.key_index import KeyIndex
from tierfold.compaction.skipping.skip_decision import SkipReason
from tierfold.storage.key_indexes.index_files import (
    IndexedSegment,
    UnsoundIndex,
    filter_file,
    index_file,
    read_filter_file,
    read_index_file,
)
from tierfold.storage.tiers.object_store import ObjectEntry, ObjectStore

_File = TypeVar("_File")

_log: Final = logging.getLogger(__name__)

FOLDER: Final = "key_indexes"
FILTER_SUFFIX: Final = ".bloom"
INDEX_SUFFIX: Final = ".keys"

_BYTES_MIN: Final = 2**20
"""The size that any segment's file may have; a larger segment's may be as large as its log."""

BYTES_MAX: Final = 2**28
"""The size that no segment's file exceeds, whatever size the segment's row claims: the row is as
easily forged as the file, which is read whole. It is enough for 2**26 records, of which each takes
less than 4 bytes; of a segment that has more, the log is read instead."""

_FOLDER_NAME: Final = re.compile(r"([A-Za-z0-9_-]{22})-([0-9]+)")


class KeyIndexes:
    """The key indexes of a catalog; `store` is at the catalog's place."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def filter_of(
        self, key: PartitionKey, segment: Segment
    ) -> tuple[IndexedSegment | SkipReason, int]:
        """The segment's facts and Bloom filter, or why there are none; and the bytes read."""
        return self._parsed(key, segment, FILTER_SUFFIX, read_filter_file)

    def index_of(
        self, key: PartitionKey, segment: Segment, bytes_max: int | None = None
    ) -> tuple[KeyIndex | SkipReason, int]:
        """The segment's key index, or why there is none; and the bytes read.

        One that is larger than `bytes_max` counts as unsound; None: `BYTES_MAX`.
        """
        return self._parsed(key, segment, INDEX_SUFFIX, read_index_file, bytes_max)

    def write(self, key: PartitionKey, indexed: IndexedSegment, index: KeyIndex) -> int:
        """Write both files of a segment; return their bytes, 0 if that failed."""
        facts = indexed.facts
        # The filter is last: without it the index is not looked for.
        files = {INDEX_SUFFIX: index_file(facts, index), FILTER_SUFFIX: filter_file(indexed)}
        try:
            for suffix, data in files.items():
                self._replace(_name(key, facts.segment_id, suffix), data)
        except TierfoldError as error:
            _log.debug("The key index of %s was not written: %s", facts.segment_id, error)
            return 0
        return sum(map(len, files.values()))

    def partitions(self) -> list[tuple[str, int]]:
        """The topic id and number of each partition with indexes; raises UnreadableObject."""
        found = [_FOLDER_NAME.fullmatch(name) for name in self._store.list_folders(FOLDER)]
        return [(match[1], int(match[2])) for match in found if match is not None]

    def forget(
        self, kept: Mapping[tuple[str, int], Iterable[str]], *, is_dry_run: bool = False
    ) -> int:
        """Delete files of segments that are not kept, and unfinished ones; return how many.

        `kept`: by topic id and number of a partition, the ids of segments that stay; of other
        partitions nothing is deleted. Raises UnreadableObject; if a folder cannot be listed, the
        files in the others are deleted before.
        """
        names = {
            f"{_folder(*partition)}/{segment_id}{suffix}"
            for partition, segment_ids in kept.items()
            for segment_id in segment_ids
            for suffix in (FILTER_SUFFIX, INDEX_SUFFIX)
        }
        listed = self._store.list_each([_folder(*partition) for partition in kept])
        found: list[ObjectEntry] = []
        for folder, entries in listed.items():
            if not isinstance(entries, Exception):
                found += entries
                if self._store.keeps_empty_folders:  # In a bucket a file is one put.
                    found += self._store.unfinished(folder)
        gone = [entry.key for entry in found if entry.key not in names]
        for name in () if is_dry_run else gone:
            self._store.delete(name)
        for error in listed.values():
            if isinstance(error, Exception):
                raise error
        return len(gone)

    def _parsed(
        self,
        key: PartitionKey,
        segment: Segment,
        suffix: str,
        parse: Callable[[bytes, Segment], _File],
        most: int | None = None,
    ) -> tuple[_File | SkipReason, int]:
        name = _name(key, segment.segment_id, suffix)
        bytes_max = min(
            max(_BYTES_MIN, segment.size_bytes), BYTES_MAX if most is None else most
        )
        try:
            data = self._store.read_range(name, 0, bytes_max + 1).tobytes()
        except TierfoldError:
            return SkipReason.NO_INDEX, 0
        try:
            if len(data) > bytes_max:
                raise UnsoundIndex("it is larger than any index of this segment")
            return parse(data, segment), len(data)
        except UnsoundIndex as error:
            _log.debug("%s is not used: %s", self._store.uri(name), error)
            return SkipReason.UNSOUND_INDEX, len(data)

    def _replace(self, name: str, data: bytes) -> None:
        """Create a file; a damaged one may be there."""
        try:
            self._store.create(name, data)
        except TierfoldError:
            self._store.delete(name)
            self._store.create(name, data)


def _folder(topic_id: str, partition: int) -> str:
    return f"{FOLDER}/{topic_id}-{partition}"


def _name(key: PartitionKey, segment_id: str, suffix: str) -> str:
    return f"{_folder(key.topic_id, key.partition)}/{segment_id}{suffix}"
