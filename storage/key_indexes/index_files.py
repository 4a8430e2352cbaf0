"""The files of a segment's key index: `.bloom` has its facts and Bloom filter, `.keys` its hashes.

A file is the length of its head (uint32, little-endian), the head (JSON with the version, all
numbers and the columns' types), a Zstandard frame, and the CRC32C of all that (like the length).
The frame holds the columns as Arrow tensors of bytes, which are read where they lie. It is no
Arrow IPC file, because the buffers of one unpack to whatever they say. The head has the segment's
random id, so it is not packed: equal segments have files of equal size. What does not fit raises
`UnsoundIndex`, and the caller reads the segment instead.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import zstandard
from numpy.typing import NDArray

from tierfold.compaction.model.segments import Segment
from tierfold.compaction.skipping.bloom_filter import BloomFilter
from tierfold.compaction.skipping.key_index import REST_BYTES_MAX, KeyIndex
from tierfold.compaction.skipping.segment_facts import SegmentFacts, WatchedBatches
from tierfold.storage.kafka.checksums import object_crc32c

VERSION: Final = 2
"""Of the hash and of all that is stored; a reader ignores files of another version."""

UNPACKED_BYTES_MIN: Final = 64 << 20
"""Any file may unpack to as much."""

UNPACKED_PER_BYTE: Final = 16
"""And so many times its size more. Hashes of different keys hardly shrink."""

_UINT32: Final = struct.Struct("<I")
_VERSION: Final = "tierfold.key_index_version"
_OF_SEGMENT: Final = ("segment_id", "start_offset", "size_bytes")
_FACTS: Final = (
    *_OF_SEGMENT,
    *("first_offset", "last_offset", "records", "record_bytes"),
    *("tombstones_due_ms", "has_undated_tombstones"),
)
_WATCHED: Final[Mapping[str, type[np.generic]]] = {
    **dict.fromkeys(("base_offset", "last_offset", "producer_id", "horizon_ms"), np.int64),
    **dict.fromkeys(("producer_epoch", "control_type"), np.int16),
    **dict.fromkeys(("is_transactional", "is_control", "has_records", "is_emptied"), np.bool_),
}
_FILTER: Final[Mapping[str, type[np.generic]]] = {**_WATCHED, "words": np.uint64}
_INDEX: Final[Mapping[str, type[np.generic]]] = {
    "counts": np.unsignedinteger,
    "rests": np.uint8,
    "sizes": np.uint8,
}
"""The columns of the files, and their types."""

_BITS_PER_KEY_MAX: Final = 64
"""A filter with more would keep a kernel busy; 0.01 needs 7."""

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
    columns, values = _unpacked(data, segment, _FILTER)
    try:
        words, bits_per_key = columns.pop("words"), int(values.pop("bits_per_key"))
        if not (len(words) and 1 <= bits_per_key <= _BITS_PER_KEY_MAX):
            raise ValueError(f"a filter of {len(words)} words and {bits_per_key} bits per key")
        if len({len(column) for column in columns.values()}) > 1:
            raise ValueError("its columns have different lengths")
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
    columns, _ = _unpacked(data, segment, _INDEX)
    counts, sizes = columns["counts"], columns["sizes"]
    records, slices = len(sizes), len(counts)
    if slices < 1 or slices & (slices - 1) or sum(counts.tolist()) != records:
        raise UnsoundIndex(f"its {slices} slices do not hold its {records} records")
    rest_bytes, left = divmod(len(columns["rests"]), max(1, records))
    if left or (records and not 1 <= rest_bytes <= REST_BYTES_MAX):
        raise UnsoundIndex(f"it has {len(columns['rests'])} bytes for {records} records")
    return KeyIndex(counts=counts, rests=columns["rests"].reshape(records, rest_bytes), sizes=sizes)


def _packed(columns: Mapping[str, NDArray[Any]], values: Mapping[str, object]) -> bytes:
    texts = {name: str(value) for name, value in {_VERSION: VERSION, **values}.items()}
    types = {name: column.dtype.str for name, column in columns.items()}
    head = json.dumps([texts, types]).encode()
    sink = pa.BufferOutputStream()
    for column in columns.values():
        packed = np.ascontiguousarray(column).view(np.uint8)
        pa.ipc.write_tensor(pa.Tensor.from_numpy(packed), sink)
    frame: bytes = zstandard.compress(sink.getvalue().to_pybytes())
    data = _UINT32.pack(len(head)) + head + frame
    return data + _UINT32.pack(object_crc32c(data, 0))


def _unpacked(
    data: bytes, segment: Segment, types: Mapping[str, type[np.generic]]
) -> tuple[Columns, dict[str, str]]:
    """The columns and values of a file; the checksum is compared before anything is unpacked."""
    body, crc = data[: -_UINT32.size], data[-_UINT32.size :]
    if len(body) < _UINT32.size or _UINT32.unpack(crc)[0] != object_crc32c(body, 0):
        raise UnsoundIndex("its checksum does not match")
    head_end = _UINT32.size + _UINT32.unpack_from(body)[0]
    try:
        texts, kinds = json.loads(body[_UINT32.size : head_end])
        values = {str(name): str(text) for name, text in texts.items()}
        if [*kinds] != [*types]:
            raise ValueError(f"its columns are {', '.join(map(str, kinds))}")
        source = pa.BufferReader(_decompressed(body[head_end:]))
        columns = {name: _column(source, kinds[name], kind) for name, kind in types.items()}
    except (
        *(pa.ArrowException, AttributeError, OSError),
        *(RecursionError, TypeError, ValueError),
    ) as error:
        raise UnsoundIndex(str(error)) from error
    if values.pop(_VERSION, None) != str(VERSION):
        raise UnsoundIndex("it has another version")
    if [values.get(name) for name in _OF_SEGMENT] != [
        str(getattr(segment, name)) for name in _OF_SEGMENT
    ]:
        raise UnsoundIndex("it belongs to another segment")
    return columns, values


def _decompressed(body: bytes) -> bytes:
    """The content, of at most a bounded size; raises ValueError."""
    bytes_max = UNPACKED_BYTES_MIN + UNPACKED_PER_BYTE * len(body)
    try:
        size_bytes = zstandard.frame_content_size(body)
        if not 0 <= size_bytes <= bytes_max:
            raise ValueError(f"it says that it unpacks to {size_bytes} bytes, not to {bytes_max}")
        content: bytes = zstandard.decompress(body)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    return content


def _column(source: pa.BufferReader, stored: object, kind: type[np.generic]) -> NDArray[Any]:
    found = np.dtype(str(stored))
    if not (np.issubdtype(found, kind) and found.isnative):
        raise ValueError(f"a column is of {found}, not of {kind.__name__}")
    return _tensor(source).view(found)


def _tensor(source: pa.BufferReader) -> NDArray[np.uint8]:
    """The bytes of the next column, which are not copied."""
    array: NDArray[np.uint8] = pa.ipc.read_tensor(source).to_numpy()
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError("a column is no list of bytes")
    return array


def _number(text: str) -> Any:  # noqa: ANN401 - an int, or None where the field allows it
    return None if text == "None" else int(text)
