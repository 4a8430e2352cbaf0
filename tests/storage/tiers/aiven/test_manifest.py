"""Manifests: written as the plugin writes them, and refused with one sentence if it would not."""

from __future__ import annotations

import json
import tracemalloc
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.tiers.remote_tier_contract import KEY
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey, Segment
from tierfold.storage.tiers.aiven.chunk_index import (
    CHUNKS_MAX,
    FixedChunks,
    VariableChunks,
    encoded_sizes,
)
from tierfold.storage.tiers.aiven.kept import Kept
from tierfold.storage.tiers.aiven.manifest import (
    MANIFEST_BYTES_MAX,
    Encryption,
    Manifest,
    Piece,
    read_manifest,
    write_manifest,
)
from tierfold.storage.tiers.aiven.segment_owner import Owner
from tierfold.storage.tiers.remote_tier import Part, SegmentAddress

FIXED = (
    b'{"version":"1","chunkIndex":{"type":"fixed","originalChunkSize":100,"originalFileSize":1000,'
    b'"transformedChunkSize":128,"finalTransformedChunkSize":128},"segmentIndexes":{"offset":'
    b'{"position":0,"size":36},"timestamp":{"position":36,"size":40},"producerSnapshot":'
    b'{"position":76,"size":0},"leaderEpoch":{"position":76,"size":36},"transaction":null},'
    b'"compression":false,"encryption":{"dataKey":"key-1:AAAA","aad":"CgsMDQ=="},'
    b'"remoteLogSegmentMetadata":{"remoteLogSegmentId":{"topicIdPartition":{"topicId":'
    b'"lZ6vvmajTWKDBUTV6SQAtQ","topicPartition":{"topic":"topic1","partition":42}},"id":'
    b'"adh9f8BMS4anaUnD8KWfWg"},"startOffset":0,"endOffset":1000,"maxTimestampMs":1000000000,'
    b'"brokerId":-1,"eventTimestampMs":2000000000,"segmentLeaderEpochs":{"0":100,"1":200,"2":300},'
    b'"txnIdxEmpty":true}}'
)
"""As Aiven's `SegmentManifestV1SerdeTest` has it, with this writer's broker id (LANDSCAPE 3.4)."""

ADDRESS = SegmentAddress(
    PartitionKey(topic="topic1", partition=42, topic_id="lZ6vvmajTWKDBUTV6SQAtQ"),
    "adh9f8BMS4anaUnD8KWfWg",
    0,
)
SEGMENT = Segment(
    segment_id=ADDRESS.segment_id,
    start_offset=0,
    end_offset=1000,
    size_bytes=1000,
    offset_index_bytes=8,
    time_index_bytes=12,
    max_timestamp_ms=1_000_000_000,
    leader_epochs=tuple(LeaderEpoch(epoch=e, start_offset=100 * (e + 1)) for e in (2, 0, 1)),
    has_transaction_index=False,
    first_timestamp_ms=5,
)
PIECES = {
    Part.OFFSET_INDEX: Piece(position=0, size_bytes=36),
    Part.TIME_INDEX: Piece(position=36, size_bytes=40),
    Part.SNAPSHOT: Piece(position=76, size_bytes=0),
    Part.LEADER_EPOCH_CHECKPOINT: Piece(position=76, size_bytes=36),
}
CHUNKS = FixedChunks(
    chunk_bytes=100, log_bytes=1000, stored_chunk_bytes=128, last_stored_bytes=128
)
ENCRYPTED = Manifest(
    chunks=CHUNKS,
    pieces=PIECES,
    is_compressed=False,
    encryption=Encryption(wrapped_key="key-1:AAAA", aad=b"\n\x0b\x0c\r"),
)


def test_a_manifest_is_written_as_the_plugin_writes_it() -> None:
    assert write_manifest(ENCRYPTED, ADDRESS, SEGMENT, event_ms=2_000_000_000) == FIXED


def test_a_manifest_is_read_as_it_was_written() -> None:
    found = read_manifest(FIXED, "here")
    assert found == ENCRYPTED
    assert found.indexes_bytes == 112
    assert (found.part_bytes(Part.LOG), found.part_bytes(Part.OFFSET_INDEX)) == (1000, 8)
    assert (found.part_bytes(Part.SNAPSHOT), found.part_bytes(Part.TRANSACTION_INDEX)) == (0, None)


def test_a_variable_chunk_index_is_as_the_plugin_writes_it() -> None:
    chunks = VariableChunks.of(100, 250, np.array([10, 20, 30], np.int64))
    manifest = Manifest(chunks=chunks, pieces=PIECES, is_compressed=True, encryption=None)
    fields = json.loads(write_manifest(manifest, ADDRESS, SEGMENT, event_ms=0))
    assert list(fields) == [
        "version",
        "chunkIndex",
        "segmentIndexes",
        "compression",
        "remoteLogSegmentMetadata",
    ]
    index = fields["chunkIndex"]
    assert list(index) == ["type", "originalChunkSize", "originalFileSize", "transformedChunks"]
    found = read_manifest(json.dumps(fields).encode(), "here").chunks
    assert [found.stored_start(chunk) for chunk in range(4)] == [0, 10, 30, 60]
    assert [found.size_of(chunk) for chunk in range(3)] == [100, 100, 50]
    # From Aiven's own test (LANDSCAPE 3.4).
    index["transformedChunks"] = "KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAAe"
    assert read_manifest(json.dumps(fields).encode(), "here").chunks.stored_bytes == 60


@given(order=st.permutations(list(json.loads(FIXED))))
def test_fields_may_have_any_order_and_white_space(order: list[str]) -> None:
    fields = json.loads(FIXED)
    shuffled = json.dumps({name: fields[name] for name in order}, indent=1)
    assert read_manifest(shuffled.encode(), "here") == ENCRYPTED


NESTED = {"remoteLogSegmentId": {"topicIdPartition": {"topicPartition": {"topic": 7}}}}


def owner_in(fields: dict[str, Any]) -> Owner:
    """Whose objects they are by a manifest of these fields."""
    found = read_manifest(json.dumps(fields).encode(), "here")
    assert found == ENCRYPTED
    assert found.owner is not None
    return found.owner


def test_the_metadata_say_whose_the_objects_are() -> None:
    owner = owner_in(json.loads(FIXED))
    assert owner.is_known
    assert owner.differences(ADDRESS) == ()


@pytest.mark.parametrize("anything", [None, 7, {"remoteLogSegmentId": []}, {"x": {}}, NESTED])
def test_the_metadata_may_be_anything_and_may_be_missing(anything: object) -> None:
    fields = json.loads(FIXED)
    fields["remoteLogSegmentMetadata"] = anything
    unknown = Owner(topic=None, topic_id=None, partition=None, segment_id=None, start_offset=None)
    assert owner_in(fields) == unknown
    del fields["remoteLogSegmentMetadata"]
    assert owner_in(fields) == unknown
    assert not unknown.is_known
    assert unknown.differences(ADDRESS) == ()


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"topic": "t"}, "its manifest names topic 't', and its key topic 'topic1'"),
        ({"topic_id": "x"}, "its manifest names topic id 'x'"),
        ({"partition": 41}, "its manifest names partition 41, and its key partition 42"),
        ({"segment_id": "y"}, "its manifest names segment 'y'"),
        ({"start_offset": 7}, "its manifest names start offset 7"),
    ],
)
def test_each_of_them_is_compared(changed: dict[str, Any], what: str) -> None:
    owner = owner_in(json.loads(FIXED))
    (difference,) = replace(owner, **changed).differences(ADDRESS)
    assert difference.startswith(what)
    assert not replace(owner, **dict.fromkeys(changed)).is_known


@pytest.mark.parametrize("bomb", [b"[" * 300_000, b'{"a":' * 300_000, b"[0" + b",0" * 300_000])
def test_a_manifest_of_very_many_values_is_not_parsed(bomb: bytes) -> None:
    with pytest.raises(CorruptLog, match="it has more than 50000 values"):
        read_manifest(bomb, "here")


def variable_chunks(chunks: int) -> bytes:
    """The manifest of a log of so many compressed chunks of 100 bytes, each stored in 10."""
    sizes = np.full(chunks, 10, np.int64)
    index = VariableChunks.of(100, 100 * chunks, sizes)
    manifest = Manifest(chunks=index, pieces=PIECES, is_compressed=True, encryption=None)
    return write_manifest(manifest, ADDRESS, SEGMENT, event_ms=0)


def test_a_small_manifest_does_not_become_a_large_chunk_index() -> None:
    largest = variable_chunks(CHUNKS_MAX)
    bomb = variable_chunks(10 * CHUNKS_MAX)
    assert max(len(largest), len(bomb)) < 2**11
    tracemalloc.start()
    assert read_manifest(largest, "here").chunks.held_bytes == 8 * (CHUNKS_MAX + 1)
    _, of_largest = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    with pytest.raises(CorruptLog, match="the log has 10485760 chunks, and at most 1048576 are"):
        read_manifest(bomb, "here")
    _, of_bomb = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert of_largest < 64 * 2**20
    assert of_bomb < 2**20


@pytest.mark.parametrize("added", [0, 1])
def test_encrypted_chunks_of_one_size_are_counted_too(added: int) -> None:
    fields = json.loads(FIXED)
    chunks = CHUNKS_MAX + added
    fields["chunkIndex"] |= {"originalFileSize": chunks, "originalChunkSize": 1}
    fields["chunkIndex"] |= {"transformedChunkSize": 29, "finalTransformedChunkSize": 29}
    if not added:
        assert read_manifest(json.dumps(fields).encode(), "here").chunks.count == chunks
        return
    with pytest.raises(CorruptLog, match="has 1048577 chunks, and at most 1048576 are read"):
        read_manifest(json.dumps(fields).encode(), "here")


def test_kept_chunk_indexes_are_bounded_in_all() -> None:
    manifest = read_manifest(variable_chunks(CHUNKS_MAX // 2), "here")
    kept = Kept().manifests
    reads: list[int] = []

    def read(number: int) -> Manifest:
        reads.append(number)
        return manifest

    for number in (*range(9), *range(2, 9), 0):
        kept.get(str(number), partial(read, number))
    assert reads == [*range(9), 0]


def plain() -> dict[str, Any]:
    """A plain manifest's fields."""
    fields: dict[str, Any] = json.loads(FIXED)
    fields["encryption"] = None
    fields["chunkIndex"] |= {"transformedChunkSize": 100, "finalTransformedChunkSize": 100}
    return fields


def test_a_null_encryption_is_none() -> None:
    assert read_manifest(json.dumps(plain()).encode(), "here").encryption is None


def changed(*path: str, to: object) -> Callable[[dict[str, Any]], None]:
    """What sets a field."""

    def change(fields: dict[str, Any]) -> None:
        for name in path[:-1]:
            fields = fields[name]
        fields[path[-1]] = to

    return change


def without(*path: str) -> Callable[[dict[str, Any]], None]:
    """What removes a field."""

    def change(fields: dict[str, Any]) -> None:
        for name in path[:-1]:
            fields = fields[name]
        del fields[path[-1]]

    return change


SIZES = ("originalChunkSize", "originalFileSize", "transformedChunkSize")
NUMBERS = [
    *(("chunkIndex", name) for name in (*SIZES, "finalTransformedChunkSize")),
    *(("segmentIndexes", "offset", name) for name in ("position", "size")),
]
VARIABLE = {"type": "variable", "originalChunkSize": 100, "originalFileSize": 250}


def packed(data: bytes, more: bytes = b"", *, has_size: bool = True) -> str:
    frame = zstandard.ZstdCompressor(write_content_size=has_size).compress(data)
    return b64encode(frame + more).decode()


def variable(text: object, log_bytes: int = 250) -> Callable[[dict[str, Any]], None]:
    """What sets a variable chunk index, of a compressed log."""

    def change(fields: dict[str, Any]) -> None:
        fields["chunkIndex"] = VARIABLE | {"transformedChunks": text, "originalFileSize": log_bytes}
        fields["compression"] = True

    return change


WRONG: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (changed("version", to="2"), 'its version is "2", and only'),
    (changed("version", to=1), "its version is 1, and only '1' is known"),
    (without("version"), "its version is null"),
    (changed("more", to=1), "it has an unknown field 'more'"),
    (changed("chunkIndex", "more", to=1), "chunkIndex has an unknown field 'more'"),
    (changed("segmentIndexes", "more", to=1), "segmentIndexes has an unknown field"),
    (changed("segmentIndexes", "offset", "more", to=1), "offset has an unknown field"),
    (without("compression"), "it lacks the field 'compression'"),
    (changed("compression", to="false"), "compression is neither true nor false"),
    (without("chunkIndex"), "it lacks the field 'chunkIndex'"),
    (without("segmentIndexes", "transaction"), "segmentIndexes lacks the field 'transaction'"),
    (changed("segmentIndexes", "offset", to=None), "offset is not a JSON object"),
    (changed("segmentIndexes", "offset", "size", to=0), "timestamp is at byte 36, but byte 0"),
    (changed("segmentIndexes", "timestamp", "position", to=30), "timestamp is at byte 30, but"),
    (changed("segmentIndexes", "producerSnapshot", "position", to=0), "producerSnapshot is at"),
    (changed("segmentIndexes", "transaction", to={"position": 0, "size": 112}), "transaction is"),
    (changed("segmentIndexes", to=[]), "segmentIndexes is not a JSON object"),
    (changed("chunkIndex", "type", to="other"), 'the type of chunkIndex is "other"'),
    (changed("chunkIndex", "type", to=["fixed"]), "the type of chunkIndex is"),
    (changed("chunkIndex", to=7), "the type of chunkIndex is null"),
    (without("chunkIndex", "transformedChunkSize"), "chunkIndex lacks the field"),
    (changed("chunkIndex", "originalChunkSize", to=0), "not a whole number from 1 to 1073741823"),
    (changed("chunkIndex", "originalChunkSize", to=2**30), "not a whole number from 1 to"),
    *((changed(*path, to=to), "not a whole number") for path in NUMBERS
      for to in (-1, 2**31, 1.0, True, "1", None)),
    (changed("chunkIndex", "transformedChunkSize", to=99), "991 stored bytes, but 1000 bytes in"),
    (changed("chunkIndex", "finalTransformedChunkSize", to=101), "1001 stored bytes"),
    (changed("chunkIndex", "originalChunkSize", to=101), "chunks of 101 bytes in 100 each, not in"),
    (changed("encryption", to={"dataKey": "a:AAAA"}), "encryption lacks the field 'aad'"),
    (changed("encryption", to={"dataKey": 1, "aad": ""}), "dataKey or aad is not a string"),
    (changed("encryption", to={"dataKey": "a:b", "aad": "?"}), "aad is not base64"),
    (changed("encryption", to={"dataKey": "a:b", "aad": ""}), "1000 stored bytes, but"),
    (variable(7), "transformedChunks is not a string"),
    (variable("?"), "transformedChunks cannot be decoded: it is not base64"),
    (variable("AAAA"), "cannot be decoded: it cannot be decompressed"),
    (variable(packed(b"\0\0\0\0", more=b"x"), log_bytes=0), "it cannot be decompressed"),
    (variable(packed(b"")), "it has no count of chunks"),
    (variable(packed(b"\0\0\0\1" + bytes(5)), log_bytes=1), "1 chunks, and bytes that do not fit"),
    (variable(packed(b"\0\0\0\0\0"), log_bytes=0), "0 chunks in 5 bytes"),
    (variable(packed(b"\xff\xff\xff\xff")), "it has -1 chunks, but the log has 3"),
    (variable(packed(b"\0\0\0\3\0\0\0\1")), "it ends within its header"),
    (variable(packed(b"\0\0\0\3\0\0\0\1\5" + bytes(14))), "in 5 bytes each"),
    (variable(packed(b"\0\0\0\3\0\0\0\1\0" + bytes(4))), "in 0 bytes each"),
    (variable(packed(b"\0\0\0\3\xff\xff\xff\xff\1" + bytes(6))), "sizes from -1 on"),
    (variable(packed(b"\0\0\0\3\0\0\0\1\1" + bytes(7))), "3 chunks in 16 bytes"),
    (variable(packed(b"\0\0\0\3\0\0\0\0\1" + bytes(6))), "is not positive, or too large"),
    (variable(packed(b"\0\0\0\3\0\0\0\1\4" + b"\xff" * 8 + b"\0\0\0\1")), "or too large"),
    (variable(packed(bytes(9), has_size=False)), "its frame claims -1 bytes"),
    (variable(packed(b"\0\0\0\1\0\0\0\1", b"x"), log_bytes=1), "it cannot be decompressed"),
    (changed("encryption", to={}), "encryption lacks the field 'aad'"),
    (changed("encryption", to=False), "encryption is not a JSON object"),
    (variable(packed(bytes(77))), "its frame claims 77 bytes"),
    (variable("?", log_bytes=100 * CHUNKS_MAX + 1), "has 1048577 chunks, and at most 1048576"),
    (changed("encryption", to={"dataKey": "a" * 8193, "aad": ""}), "dataKey has 8193 characters"),
    (changed("encryption", to={"dataKey": "a:b", "aad": "A" * 1028}), "aad 1028 of at most 1024"),
    (variable(encoded_sizes(np.array([10, 20]))), "it has 2 chunks, but the log has 3"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), WRONG)
def test_what_the_plugin_would_not_write_is_refused_with_one_sentence(
    change: Callable[[dict[str, Any]], None], says: str
) -> None:
    fields = plain()
    change(fields)
    with pytest.raises(CorruptLog) as caught:
        read_manifest(json.dumps(fields).encode(), "here")
    assert says in caught.value.what
    assert caught.value.what.startswith("the manifest cannot be used: ")
    assert caught.value.where == "here"
    assert "Restore it from a copy" in caught.value.remedy


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "it is not valid JSON"),
        (b"{", "it is not valid JSON"),
        (b"[]", "its version is null"),
        (b"\xff{}", "it is not valid JSON"),
        (FIXED + b"x", "it is not valid JSON"),
        (b'{"version":"1","version":"1"}', "a field twice"),
        (b"[" * 10_000, "too deeply nested"),
        (b'{"version":' + b"[" * 900 + b"]" * 900 + b"}", "its version is [[["),
        (b"PFA1\0\0", "kept as an Iceberg table"),
        (b" " * (MANIFEST_BYTES_MAX + 1), "more than 8388608 bytes"),
    ],
)
def test_what_is_no_manifest_is_refused(raw: bytes, says: str) -> None:
    with pytest.raises(CorruptLog) as caught:
        read_manifest(raw, "here")
    assert says in caught.value.what


def test_an_encrypted_piece_is_not_smaller_than_what_encryption_adds() -> None:
    fields = json.loads(FIXED)
    fields["segmentIndexes"]["leaderEpoch"]["size"] = 27
    with pytest.raises(CorruptLog, match="leaderEpoch is encrypted, but has only 27 bytes"):
        read_manifest(json.dumps(fields).encode(), "here")


def test_a_segment_too_large_for_the_plugin_is_not_written() -> None:
    chunks = FixedChunks(
        chunk_bytes=2**20, log_bytes=2**31, stored_chunk_bytes=2**20, last_stored_bytes=2**20
    )
    manifest = Manifest(chunks=chunks, pieces=PIECES, is_compressed=False, encryption=None)
    with pytest.raises(ValueError, match="2147483648 bytes is too large"):
        write_manifest(manifest, SegmentAddress(KEY, ADDRESS.segment_id, 0), SEGMENT, event_ms=0)
