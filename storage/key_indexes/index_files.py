"""The files of a segment's key index: `.bloom` has its facts and Bloom filter, `.keys` its hashes.

A file is an Arrow IPC file with one row of lists, compressed with Zstandard, then its CRC32C
(uint32, little-endian). The schema's metadata has the version and the numbers. What does not
fit raises `UnsoundIndex`, and the caller reads the segment instead.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import pyarrow as pa
from numpy.typing import NDArray

from tierfold.compaction.model.segments import Segment
from tierfold.compaction.skipping.bloom_filter import BloomFilter
from tierfold.compaction.skipping.key_index import KeyIndex
from tierfold.compaction.skipping.segment_facts import SegmentFacts, WatchedBatches
from tierfold.storage.kafka.checksums import object_crc32c

VERSION: Final = 1
"""Of the hash and of all that is stored; a reader ignores files of another version."""

_CRC: Final = struct.Struct("<I")
_VERSION: Final = "tierfold.key_index_version"
_OF_SEGMENT: Final = ("segment_id", "start_offset", "size_bytes")
_FACTS: Final = (
    *_OF_SEGMENT,
    *("first_offset", "last_offset", "records", "record_bytes"),
    *("tombstones_due_ms", "has_undated_tombstones"),
)
_WATCHED: Final = tuple(column.name for column in fields(WatchedBatches))

Columns = dict[str, NDArray[Any]]


class UnsoundIndex(Exception):
    """A file is damaged, of another segment, or of another version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedSegment:
    """A segment's facts and Bloom filter."""

    facts: SegmentFacts
    bloom: BloomFilter


def filter_file(indexed: IndexedSegment) -> bytes:
    """The `.bloom` file."""
    columns: Columns = {name: getattr(indexed.facts.watched, name) for name in _WATCHED}
    columns["words"] = indexed.bloom.words
    values: dict[str, object] = {name: getattr(indexed.facts, name) for name in _FACTS}
    values["bits_per_key"] = indexed.bloom.bits_per_key
    return _packed(columns, values)


def read_filter_file(data: bytes, segment: Segment) -> IndexedSegment:
    """Parse the `.bloom` file of a segment; raises UnsoundIndex."""
    columns, values = _unpacked(data, segment)
    try:
        words, bits_per_key = columns.pop("words"), int(values.pop("bits_per_key"))
        facts = SegmentFacts(
            segment_id=values.pop("segment_id"),
            has_undated_tombstones=values.pop("has_undated_tombstones") == "True",
            watched=WatchedBatches(**columns),
            **{name: _number(text) for name, text in values.items()},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnsoundIndex(str(error)) from error
    return IndexedSegment(facts=facts, bloom=BloomFilter(words=words, bits_per_key=bits_per_key))


def index_file(facts: SegmentFacts, index: KeyIndex) -> bytes:
    """The `.keys` file."""
    columns: Columns = {"counts": index.counts, "rests": index.rests.ravel(), "sizes": index.sizes}
    return _packed(columns, {name: getattr(facts, name) for name in _OF_SEGMENT})


def read_index_file(data: bytes, segment: Segment) -> KeyIndex:
    """Parse the `.keys` file of a segment; raises UnsoundIndex."""
    columns, _ = _unpacked(data, segment)
    try:
        sizes = columns["sizes"]
        rests = columns["rests"].reshape(len(sizes), len(columns["rests"]) // max(1, len(sizes)))
        return KeyIndex(counts=columns["counts"], rests=rests, sizes=sizes)
    except (KeyError, ValueError) as error:
        raise UnsoundIndex(str(error)) from error


def _packed(columns: Mapping[str, NDArray[Any]], values: Mapping[str, object]) -> bytes:
    lists = [
        pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), pa.array(column))
        for column in columns.values()
    ]
    metadata = {_VERSION: VERSION, **values}
    row = pa.RecordBatch.from_arrays(lists, [*columns]).replace_schema_metadata(
        {name: str(value) for name, value in metadata.items()}
    )
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, row.schema, options=options) as writer:
        writer.write_batch(row)
    data: bytes = sink.getvalue().to_pybytes()
    return data + _CRC.pack(object_crc32c(data, 0))


def _unpacked(data: bytes, segment: Segment) -> tuple[Columns, dict[str, str]]:
    """The columns and values of a file; the checksum is compared before anything is parsed."""
    body, crc = data[: -_CRC.size], data[-_CRC.size :]
    if len(crc) < _CRC.size or _CRC.unpack(crc)[0] != object_crc32c(body, 0):
        raise UnsoundIndex("its checksum does not match")
    try:
        with pa.ipc.open_file(pa.BufferReader(body)) as reader:
            row = reader.get_batch(0)
        values = {
            name.decode(): text.decode() for name, text in (row.schema.metadata or {}).items()
        }
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnsoundIndex(str(error)) from error
    if values.pop(_VERSION, None) != str(VERSION):
        raise UnsoundIndex("it has another version")
    if [values.get(name) for name in _OF_SEGMENT] != [
        str(getattr(segment, name)) for name in _OF_SEGMENT
    ]:
        raise UnsoundIndex("it belongs to another segment")
    columns = {
        name: column.flatten().to_numpy(zero_copy_only=False)
        for name, column in zip(row.schema.names, row.columns, strict=True)
    }
    return columns, values


def _number(text: str) -> Any:  # noqa: ANN401 - an int, or None where the field allows it
    return None if text == "None" else int(text)
