"""Every codec there and back, in the frames that Kafka's readers accept."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from compaction.errors import CorruptLog
from storage.compression import Codec, compress, decompress

TEXT = b'{"name":"value","other":12345}' * 3000
PACKED = [codec for codec in Codec if codec != Codec.NONE]


@given(st.sampled_from(Codec), st.binary(max_size=500) | st.just(TEXT))
def test_what_is_compressed_comes_back(codec: Codec, payload: bytes) -> None:
    assert decompress(codec, compress(codec, payload), where="here") == payload


@pytest.mark.parametrize("codec", Codec)
def test_every_kind_of_buffer_will_do(codec: Codec) -> None:
    stored = compress(codec, np.frombuffer(TEXT, np.uint8))
    kinds = (stored, bytearray(stored), memoryview(stored), np.frombuffer(stored, np.uint8))
    assert {decompress(codec, kind, where="here") for kind in kinds} == {TEXT}


@pytest.mark.parametrize("codec", PACKED)
def test_text_gets_smaller(codec: Codec) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) / 3


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("harm", ["cut", "nothing", "noise"])
def test_what_cannot_be_decompressed_is_a_corrupt_log(codec: Codec, harm: str) -> None:
    stored = compress(codec, TEXT)
    broken = {"cut": stored[:-5], "nothing": b"", "noise": b"\xfe\x01\x02\x03" * 9}[harm]
    with pytest.raises(CorruptLog, match=f"a log: the {codec.name.lower()} payload cannot be"):
        decompress(codec, broken, where="a log")


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    with pytest.raises(CorruptLog, match=f"codec {codec} is none"):
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


def test_raw_snappy_that_claims_gigabytes_is_not_believed() -> None:
    with pytest.raises(CorruptLog, match="claim to hold 4294967295"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00" * 20, where="here")


@pytest.mark.parametrize("blocks", ["00", "0000ffff 00", "ffffffff"])
def test_a_snappy_frame_with_broken_blocks_is_a_corrupt_log(blocks: str) -> None:
    frame = bytes.fromhex("82534e4150505900 00000001 00000001" + blocks)
    with pytest.raises(CorruptLog, match="snappy"):
        decompress(Codec.SNAPPY, frame, where="here")


def test_lz4_blocks_are_independent_for_kafka_reads_no_others() -> None:
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


def test_gzip_may_have_several_members() -> None:
    members = compress(Codec.GZIP, b"one ") + compress(Codec.GZIP, b"two")
    assert decompress(Codec.GZIP, members, where="here") == b"one two"


def test_zstd_may_have_several_frames() -> None:
    frames = compress(Codec.ZSTD, b"one ") + compress(Codec.ZSTD, b"two")
    assert decompress(Codec.ZSTD, frames, where="here") == b"one two"


def test_zstd_may_leave_its_size_untold() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    stored = stream.compress(TEXT) + stream.flush()
    assert decompress(Codec.ZSTD, stored, where="here") == TEXT
