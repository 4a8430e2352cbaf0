"""What one call does for a window equals what the packages' functions do for each payload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tierfold.storage.kafka import native_codecs
from tierfold.storage.kafka.compression import PLAIN_BYTES_MAX, Codec, compress
from tierfold.storage.kafka.native_calls import c_function
from tierfold.storage.kafka.native_codecs import (
    LEFT,
    Payloads,
    Progress,
    compress_run,
    decompress_run,
)
from tierfold.storage.kafka.wire import as_kernel_input

CALLED = [Codec.LZ4, Codec.ZSTD]
TEXT = b"tierfold compacts the remote tier. " * 50
PLAIN = st.one_of(
    st.binary(max_size=200),
    st.integers(0, 150_000).map(bytes),
    st.integers(1, 4000).map(lambda times: b"some words %d " % times * times),
    st.integers(0, 99).map(
        lambda seed: np.random.default_rng(seed).integers(0, 256, 70_000, np.uint8).tobytes()
    ),
)


def payloads_of(codecs: Sequence[int], payloads: Sequence[bytes]) -> Payloads:
    sizes = np.array([len(payload) for payload in payloads], np.int64)
    end = np.cumsum(sizes)
    return Payloads(
        start=end - sizes,
        end=end,
        codec=np.array(codecs, np.int8),
        records=np.ones(len(sizes), np.int32),
        out_bytes=np.zeros(len(sizes), np.int64),
    )


def bytes_of(payloads: Sequence[bytes]) -> np.ndarray:
    return as_kernel_input(np.frombuffer(b"".join(payloads), np.uint8))


def begin(budget_bytes: int = PLAIN_BYTES_MAX) -> Progress:
    return Progress(batch=0, at=0, budget_bytes=budget_bytes)


@given(st.lists(st.tuples(st.sampled_from([Codec.NONE, *CALLED]), PLAIN), max_size=5))
def test_payloads_come_back_in_order(window: list[tuple[Codec, bytes]]) -> None:
    stored = [compress(codec, plain) for codec, plain in window]
    payloads = payloads_of([codec for codec, _ in window], stored)
    expected = b"".join(plain for _, plain in window)
    body = np.empty(len(expected), np.uint8)
    spent = sum(len(plain) for codec, plain in window if codec != Codec.NONE)
    done = decompress_run(bytes_of(stored), payloads, body, begin(spent))
    assert done == Progress(batch=len(window), at=len(expected), budget_bytes=0)
    assert body.tobytes() == expected
    assert payloads.out_bytes.tolist() == [len(plain) for _, plain in window]


@given(st.lists(st.tuples(st.sampled_from(CALLED), PLAIN), min_size=1, max_size=5))
def test_compressed_bytes_are_those_of_the_packages(window: list[tuple[Codec, bytes]]) -> None:
    plain = [content for _, content in window]
    payloads = payloads_of([codec for codec, _ in window], plain)
    room = np.array([len(content) + len(content) // 4 + 1024 for content in plain])
    at = np.cumsum(room) - room
    out = np.empty(int(room.sum()), np.uint8)
    compress_run(bytes_of(plain), payloads, out, at)
    found = [
        out[start : start + size].tobytes()
        for start, size in zip(at, payloads.out_bytes, strict=True)
    ]
    assert found == [compress(codec, content) for codec, content in window]


@pytest.mark.parametrize("codec", CALLED)
def test_a_payload_without_room_is_left_uncompressed(codec: Codec) -> None:
    plain = [TEXT, np.random.default_rng(1).bytes(5000), TEXT]
    payloads = payloads_of([codec, codec, Codec.GZIP], plain)
    compress_run(bytes_of(plain), payloads, np.empty(5000, np.uint8), np.array([0, 2000, 4000]))
    assert payloads.out_bytes.tolist() == [len(compress(codec, TEXT)), LEFT, LEFT]


def _zstd_without_size(plain: bytes) -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(plain) + stream.flush()


@pytest.mark.parametrize(
    "stored",
    [
        _zstd_without_size(TEXT),
        compress(Codec.ZSTD, TEXT[:7]) + _zstd_without_size(TEXT[7:]),
    ],
)
def test_zstd_may_leave_out_its_size_and_have_several_frames(stored: bytes) -> None:
    body = np.empty(len(TEXT), np.uint8)
    done = decompress_run(bytes_of([stored]), payloads_of([Codec.ZSTD], [stored]), body, begin())
    assert (done.batch, body.tobytes()) == (1, TEXT)


def _broken(sound: bytes, how: str) -> bytes:
    match how:
        case "empty":
            return b""
        case "cut":
            return sound[:-1]
        case "longer":
            return sound + b"x"
        case "a wrong byte":
            return sound[:9] + bytes([sound[9] ^ 0xFF]) + sound[10:]
    return b"neither lz4 nor zstd"


@pytest.mark.parametrize("codec", CALLED)
@pytest.mark.parametrize("broken", ["empty", "other bytes", "cut", "longer", "a wrong byte"])
def test_a_corrupt_payload_ends_the_run(codec: Codec, broken: str) -> None:
    sound = compress(codec, TEXT)
    stored = [sound, _broken(sound, broken), sound]
    payloads = payloads_of([codec] * 3, stored)
    body = np.empty(3 * len(TEXT), np.uint8)
    done = decompress_run(bytes_of(stored), payloads, body, begin())
    assert (done.batch, done.at) == (1, len(TEXT))
    after = decompress_run(bytes_of(stored), payloads, body, done._replace(batch=2))
    assert (after.batch, after.at) == (3, 2 * len(TEXT))
    assert body[: after.at].tobytes() == 2 * TEXT


@pytest.mark.parametrize("codec", [Codec.NONE, *CALLED])
@pytest.mark.parametrize("missing", [0, 1])
def test_a_payload_larger_than_the_body_ends_the_run(codec: Codec, missing: int) -> None:
    stored = [compress(codec, TEXT)]
    body = np.empty(len(TEXT) - missing, np.uint8)
    done = decompress_run(bytes_of(stored), payloads_of([codec], stored), body, begin())
    assert done.batch == 1 - missing


@pytest.mark.parametrize("codec", CALLED)
@pytest.mark.parametrize("missing", [0, 1])
def test_a_payload_beyond_the_budget_ends_the_run(codec: Codec, missing: int) -> None:
    stored = [compress(codec, TEXT)]
    body = np.empty(2 * len(TEXT), np.uint8)
    limit = begin(len(TEXT) - missing)
    done = decompress_run(bytes_of(stored), payloads_of([codec], stored), body, limit)
    assert done.batch == 1 - missing


@pytest.mark.parametrize("codec", CALLED)
def test_a_payload_beyond_its_own_bound_ends_the_run(codec: Codec) -> None:
    beyond = bytes(128 * 2**20 + 1)  # `PLAIN_BYTES_TRUSTED`, of a zstd payload of some kilobytes.
    stored = [compress(codec, beyond)]
    body = np.empty(len(beyond), np.uint8)
    done = decompress_run(bytes_of(stored), payloads_of([codec], stored), body, begin())
    assert done.batch == (0 if codec == Codec.ZSTD else 1)  # 256 times an lz4 payload is more.


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
def test_other_codecs_end_the_run(codec: Codec) -> None:
    stored = [compress(Codec.LZ4, TEXT), compress(codec, TEXT)]
    body = np.empty(2 * len(TEXT), np.uint8)
    payloads = payloads_of([Codec.LZ4, codec], stored)
    assert decompress_run(bytes_of(stored), payloads, body, begin()).batch == 1


def test_the_payload_of_a_batch_without_records_is_ignored() -> None:
    stored = [b"anything", compress(Codec.LZ4, TEXT)]
    payloads = payloads_of([Codec.LZ4] * 2, stored)
    payloads.records[0] = 0
    body = np.empty(len(TEXT), np.uint8)
    done = decompress_run(bytes_of(stored), payloads, body, begin())
    assert (done.batch, done.at) == (2, len(TEXT))


@pytest.mark.parametrize("missing", ["ZSTD_createDCtx", "LZ4F_createDecompressionContext"])
def test_a_library_without_memory_is_an_error(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def starved(module: str, name: str) -> Any:
        return (lambda *_: 0) if name == missing else c_function(module, name)

    monkeypatch.setattr(native_codecs, "c_function", starved)
    stored = [compress(Codec.LZ4, TEXT)]
    payloads = payloads_of([Codec.LZ4], stored)
    with pytest.raises(MemoryError):
        decompress_run(bytes_of(stored), payloads, np.empty(len(TEXT), np.uint8), begin())
