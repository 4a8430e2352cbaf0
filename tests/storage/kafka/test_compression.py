"""Every codec round-trips, in the frames that Kafka's readers accept."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.kafka_payloads import PAYLOADS
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.kafka.compression import (
    LZ4_RATIO_MAX,
    PLAIN_BYTES_MAX,
    PLAIN_BYTES_TRUSTED,
    Codec,
    compress,
    decompress,
    plain_bytes_max,
)
from tierfold.storage.kafka.gzip_members import TooMuch

TEXT = b'{"name":"value","other":12345}' * 3000
PACKED = [codec for codec in Codec if codec != Codec.NONE]


@given(st.sampled_from(Codec), st.binary(max_size=500) | st.just(TEXT))
def test_compression_round_trips(codec: Codec, payload: bytes) -> None:
    assert decompress(codec, compress(codec, payload), where="here") == payload


@pytest.mark.parametrize("codec", Codec)
def test_every_kind_of_buffer_can_be_decompressed(codec: Codec) -> None:
    stored = compress(codec, np.frombuffer(TEXT, np.uint8))
    kinds = (stored, bytearray(stored), memoryview(stored), np.frombuffer(stored, np.uint8))
    assert {decompress(codec, kind, where="here") for kind in kinds} == {TEXT}


@pytest.mark.parametrize("codec", PACKED)
def test_text_gets_smaller(codec: Codec) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) / 3


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("corrupt", ["cut", "nothing", "noise"])
def test_a_payload_that_cannot_be_decompressed_is_corrupt(codec: Codec, corrupt: str) -> None:
    stored = compress(codec, TEXT)
    broken = {"cut": stored[:-5], "nothing": b"", "noise": b"\xfe\x01\x02\x03" * 9}[corrupt]
    with pytest.raises(CorruptLog, match=f"a log: the {codec.name.lower()} payload cannot be"):
        decompress(codec, broken, where="a log")


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    with pytest.raises(CorruptLog, match=f"codec is {codec}; Kafka has 0 to 4"):
        decompress(codec, b"", where="a log")


def test_snappy_is_framed_in_blocks_of_32_kib() -> None:
    stored = compress(Codec.SNAPPY, TEXT)
    assert stored[:16] == bytes.fromhex("82534e4150505900 00000001 00000001")
    sizes, at = [], 16
    while at < len(stored):
        (size_bytes,) = struct.unpack_from(">i", stored, at)
        sizes.append(
            len(decompress(Codec.SNAPPY, stored[at + 4 : at + 4 + size_bytes], where="here"))
        )
        at += 4 + size_bytes
    assert sizes == [32768, 32768, len(TEXT) - 65536]


def test_raw_snappy_is_read_too() -> None:
    raw = pa.compress(TEXT, "snappy", asbytes=True)
    assert decompress(Codec.SNAPPY, raw, where="here") == TEXT


def test_raw_snappy_that_claims_gigabytes_is_refused() -> None:
    with pytest.raises(CorruptLog, match="claim to hold 4294967295"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00" * 20, where="here")


@pytest.mark.parametrize("blocks", ["00000005", "0000ffff 00", "ffffffff"])
def test_a_snappy_frame_with_broken_blocks_is_a_corrupt_log(blocks: str) -> None:
    frame = bytes.fromhex("82534e4150505900 00000001 00000001" + blocks)
    with pytest.raises(CorruptLog, match="snappy"):
        decompress(Codec.SNAPPY, frame, where="here")


def test_lz4_blocks_are_independent() -> None:
    flags = compress(Codec.LZ4, TEXT)[4]
    assert flags & 0x20


@pytest.mark.parametrize("has_content_size", [False, True])
def test_the_broken_lz4_checksum_of_magic_0_is_mended(has_content_size: bool) -> None:
    frame = bytearray(compress(Codec.LZ4, TEXT))
    if has_content_size:
        frame[4] |= 0x08
        frame[6:6] = len(TEXT).to_bytes(8, "little")
    frame[14 if has_content_size else 6] ^= 0x55
    with pytest.raises(CorruptLog):
        decompress(Codec.LZ4, frame, where="here")
    assert decompress(Codec.LZ4, frame, where="here", mend_lz4_header=True) == TEXT


@pytest.mark.parametrize("length", [0, 3, 6, 7])
def test_a_cut_lz4_header_is_a_corrupt_log(length: int) -> None:
    cut = compress(Codec.LZ4, TEXT)[:length]
    with pytest.raises(CorruptLog):
        decompress(Codec.LZ4, cut, where="here", mend_lz4_header=True)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_there_may_be_several_members_or_frames(codec: Codec) -> None:
    members = compress(codec, b"one ") + compress(codec, b"two")
    assert decompress(codec, members, where="here") == b"one two"


@pytest.mark.parametrize(
    ("codec", "stored", "plain"), PAYLOADS.values(), ids=PAYLOADS
)
def test_what_lies_behind_a_member_or_frame(
    codec: Codec, stored: bytes, plain: bytes | None
) -> None:
    if plain is None:
        with pytest.raises(CorruptLog, match="payload cannot be decompressed"):
            decompress(codec, stored, where="here")
    else:
        assert decompress(codec, stored, where="here") == plain


def test_a_cut_zstd_frame_is_refused() -> None:
    # Kafka finds that or not, as its read buffers happen to end.
    whole = compress(Codec.ZSTD, TEXT)
    with pytest.raises(CorruptLog, match="it ends before its end mark"):
        decompress(Codec.ZSTD, whole + whole[:20], where="here")


def test_all_members_together_keep_to_the_limit() -> None:
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.ZSTD):
        twice = 2 * compress(codec, TEXT)
        assert decompress(codec, twice, where="here", budget_bytes=2 * len(TEXT)) == 2 * TEXT
        with pytest.raises(TooMuch):
            decompress(codec, twice, where="here", budget_bytes=2 * len(TEXT) - 1)


def test_zstd_may_leave_out_its_size() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    stored = stream.compress(TEXT) + stream.flush()
    assert decompress(Codec.ZSTD, stored, where="here") == TEXT


BOMB_BYTES = 2**30
MIB = 2**20


def gzip_bomb() -> bytes:
    """After a flush every mebibyte of zeros has the same bytes, so it is compressed once."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
    begun = deflater.compress(b"") + deflater.flush(zlib.Z_FULL_FLUSH)
    stretch = deflater.compress(bytes(MIB)) + deflater.flush(zlib.Z_FULL_FLUSH)
    return begun + stretch * (BOMB_BYTES // MIB) + deflater.flush()


def zstd_bomb() -> bytes:
    """A frame without a size, with a window of 128 KiB and run-length blocks."""
    block_bytes = 128 * 1024
    block = (block_bytes << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return bytes.fromhex("28b52ffd 00 38") + block * (BOMB_BYTES // block_bytes)


def lz4_bomb() -> bytes:
    frame = compress(Codec.LZ4, bytes(64 * 1024))
    header, block = frame[:7], frame[7:-4]
    return header + block * (BOMB_BYTES // (64 * 1024)) + bytes(4)


def snappy_bomb() -> bytes:
    """One zero, and copies of it; then as many blocks in a xerial frame."""
    copies = MIB // 64
    size = bytes([(MIB + 1) & 0x7F | 0x80, (MIB + 1) >> 7 & 0x7F | 0x80, (MIB + 1) >> 14])
    block = size + b"\0\0" + bytes([63 << 2 | 2, 1, 0]) * copies
    frame = compress(Codec.SNAPPY, b"")
    return frame + (struct.pack(">i", len(block)) + block) * (BOMB_BYTES // MIB)


BOMBS = {
    Codec.GZIP: gzip_bomb,
    Codec.ZSTD: zstd_bomb,
    Codec.LZ4: lz4_bomb,
    Codec.SNAPPY: snappy_bomb,
}


@pytest.mark.parametrize(("codec", "bomb"), BOMBS.items(), ids=lambda it: getattr(it, "name", ""))
def test_decompression_of_a_bomb_stops_at_the_limit(
    codec: Codec, bomb: Callable[[], bytes]
) -> None:
    stored = bomb()
    tracemalloc.start()
    try:
        with pytest.raises(TooMuch):
            decompress(codec, stored, where="a log", budget_bytes=16 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_a_small_bomb_has_its_own_bound(codec: Codec) -> None:
    bound = plain_bytes_max(len(BOMBS[codec]()))
    with pytest.raises(CorruptLog, match=f"holds more than {bound} when") as caught:
        decompress(codec, BOMBS[codec](), where="a log")
    assert "leave the topic out" in caught.value.remedy


@pytest.mark.parametrize("codec", PACKED)
def test_a_payload_of_exactly_the_limit_is_read(codec: Codec) -> None:
    stored = compress(codec, TEXT)
    assert decompress(codec, stored, where="here", budget_bytes=len(TEXT)) == TEXT
    with pytest.raises(TooMuch):
        decompress(codec, stored, where="here", budget_bytes=len(TEXT) - 1)


def test_the_bounds_accept_every_lz4_payload_that_kafka_accepts() -> None:
    for stored_bytes in (0, 100, MIB, 100 * MIB, PLAIN_BYTES_MAX):
        bound = plain_bytes_max(stored_bytes)
        assert PLAIN_BYTES_TRUSTED <= bound <= PLAIN_BYTES_MAX
        assert bound >= min(LZ4_RATIO_MAX * stored_bytes, PLAIN_BYTES_MAX)


def test_an_lz4_frame_that_claims_an_exbibyte_is_refused() -> None:
    frame = bytearray(compress(Codec.LZ4, TEXT))
    frame[4] |= 0x08
    frame[6:6] = (2**60).to_bytes(8, "little")
    with pytest.raises(CorruptLog, match=f"claim to hold {2**60}"):
        decompress(Codec.LZ4, frame, where="here", mend_lz4_header=True)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_very_many_empty_members_are_read_fast(codec: Codec) -> None:
    # Copying the rest of the input for each of them would take over 100 gigabytes.
    stored = compress(codec, b"") * 100_000 + compress(codec, b"end")
    assert decompress(codec, stored, where="here") == b"end"
