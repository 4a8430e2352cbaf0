"""Logs in chunks: every size around chunk borders comes back, and a changed byte is found."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.storage.emulators import new_name
from tests.storage.new_ids import new_address
from tests.storage.tiers.aiven.rsa_keys import key_file
from tests.storage.tiers.remote_tier_contract import KEY, content, described
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.segments.log_windows import StoredObject, stored_object
from tierfold.storage.tiers.aiven import aiven_tier, large_chunks, stored_segment
from tierfold.storage.tiers.aiven.aiven_tier import AivenTier
from tierfold.storage.tiers.aiven.chunk_index import (
    FixedChunks,
    VariableChunks,
    decoded_sizes,
    encoded_sizes,
)
from tierfold.storage.tiers.aiven.chunk_transform import ChunkTransform, DataKey
from tierfold.storage.tiers.aiven.large_chunks import LargeChunk, OpenChunks
from tierfold.storage.tiers.aiven.object_names import Suffix
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.layout_options import LayoutOptions
from tierfold.storage.tiers.remote_tier import PARTS, Access, Part, SegmentAddress
from tierfold.storage.tiers.store_options import StoreOptions

PLANS = st.builds(
    lambda chunk_bytes, chunks, more: (chunk_bytes, max(1, chunk_bytes * chunks + more)),
    st.sampled_from([1, 2, 7, 64, 1000]),
    st.integers(0, 4),
    st.sampled_from([-1, 0, 1]),
)
"""(chunk size, log size), around the borders of chunks."""

SLOW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass
class Written:
    """A segment of random bytes in a memory store."""

    tier: AivenTier
    address: SegmentAddress
    log: bytes

    def read(self, start: int, length: int) -> bytes:
        return self.tier.read_range(self.address, Part.LOG, start, length).tobytes()

    def fresh(self) -> Written:
        """Read by another process."""
        return replace(self, tier=AivenTier(self.tier.store, self.tier.options))

    def key(self, suffix: Suffix) -> str:
        return self.tier.names.object_key(self.address, suffix)

    def stored(self, suffix: Suffix) -> bytes:
        return self.tier.store.read(self.key(suffix)).tobytes()

    def replaced(self, suffix: Suffix, data: bytes) -> Written:
        self.tier.store.delete(self.key(suffix))
        self.tier.store.create(self.key(suffix), data)
        return self.fresh()


@pytest.fixture(params=["plain", "zstd", "encrypted", "both"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> LayoutOptions:
    is_encrypted = request.param in {"encrypted", "both"}
    return LayoutOptions(
        key_files=(key_file(tmp_path),) if is_encrypted else (),
        is_compressed=request.param in {"zstd", "both"},
        is_encrypted=is_encrypted,
    )


def written(options: LayoutOptions, chunk_bytes: int, log_bytes: int) -> Written:
    store = BucketStore("memory", new_name(), "t", StoreOptions())
    tier = AivenTier(store, replace(options, chunk_bytes=chunk_bytes))
    log = np.random.default_rng(7).integers(0, 5, log_bytes, np.uint8).tobytes()
    staged = tier.new_segment(new_address(KEY, 0))
    with staged.open_log() as writer:
        for at in range(0, len(log), 17):
            writer.write(log[at : at + 17])
        assert writer.size_bytes == len(log)
    for part in PARTS[1:]:
        staged.put(part, content(part))
    staged.finish(described(staged.address))
    return Written(AivenTier(store, tier.options), staged.address, log)


@pytest.fixture(params=["whole", "streamed"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Chunks are decoded as a whole, or, being large, a stretch at a time."""
    if request.param == "streamed":
        monkeypatch.setattr(stored_segment, "CHUNK_BYTES_HELD", 0)
        monkeypatch.setattr(large_chunks, "FETCHED_BYTES", 13)
    return str(request.param)


@SLOW
@given(plan=PLANS, data=st.data())
def test_every_range_of_a_log_is_read_back(
    options: LayoutOptions, how: str, plan: tuple[int, int], data: st.DataObject
) -> None:
    made = written(options, *plan)
    assert made.read(0, len(made.log) + 1) == made.log
    assert made.tier.read_part(made.address, Part.LOG).tobytes() == made.log
    for _ in range(3):
        start = data.draw(st.integers(0, len(made.log) + 1))
        length = data.draw(st.integers(0, len(made.log) + 2))
        assert made.read(start, length) == made.log[start : start + length]
        assert made.read(start + length, 5) == made.log[start + length : start + length + 5]


@SLOW
@given(plan=PLANS, range_bytes=st.sampled_from([1, 6, 100]), start=st.integers(0, 10))
def test_a_log_is_read_in_ranges_that_end_where_chunks_do(
    options: LayoutOptions, how: str, plan: tuple[int, int], range_bytes: int, start: int
) -> None:
    made = written(options, *plan)
    log = stored_object(made.tier, made.address, Part.LOG, len(made.log))
    log = replace(log, range_bytes=range_bytes, start=min(start, len(made.log)))
    found = list(log.ranges())
    assert b"".join(data.tobytes() for data in found) == made.log[log.start :]
    unit_bytes = made.tier.access(made.address, Part.LOG).unit_bytes
    is_encoded = not made.tier._read(made.address).manifest.is_plain
    assert unit_bytes == (plan[0] if is_encoded and how == "whole" else 1)
    ends = np.cumsum([len(data) for data in found])[:-1] + log.start
    assert not (ends % unit_bytes).any()


@pytest.mark.parametrize(
    "access", [Access(), Access(is_in_order=True), Access(unit_bytes=10)], ids=repr
)
def test_the_next_range_is_fetched_ahead_and_in_order_if_need_be(access: Access) -> None:
    begun: list[int] = []
    is_second_begun = threading.Event()
    running = threading.Semaphore(1)

    def read(start: int, length: int) -> np.ndarray:
        assert not access.is_in_order or running.acquire(blocking=False)
        begun.append(start)
        if start:
            is_second_begun.set()
        running.release()
        return np.zeros(max(0, min(length, 40 - start)), np.uint8)

    log = StoredObject(read=read, end=40, where="a log", range_bytes=10, access=lambda: access)
    ranges = log.ranges()
    assert len(next(ranges)) == 10
    assert is_second_begun.wait(timeout=20)
    assert sum(map(len, ranges)) == 30
    assert sorted(begun) == begun or not access.is_in_order


@SLOW
@given(plan=PLANS, data=st.data())
def test_a_flipped_bit_of_an_encoded_log_is_found(
    options: LayoutOptions, how: str, plan: tuple[int, int], data: st.DataObject
) -> None:
    made = written(options, *plan)
    stored = bytearray(made.stored(Suffix.LOG))
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] ^= data.draw(st.sampled_from([1, 16, 128]))
    changed = made.replaced(Suffix.LOG, bytes(stored))
    manifest = made.tier._read(made.address).manifest
    if manifest.encryption is not None:
        # A streamed chunk is decompressed before its tag is reached.
        is_late = how == "streamed" and manifest.is_compressed
        says = None if is_late else "cannot be decrypted"
        with pytest.raises(CorruptLog, match=says) as caught:
            changed.read(0, len(made.log) + 1)
        assert f"{Suffix.LOG.value}, chunk " in caught.value.where
        return
    # Without encryption the checksums of the batches find what decodes to other bytes.
    with suppress(CorruptLog):
        assert len(changed.read(0, len(made.log) + 1)) == len(made.log)


@pytest.mark.parametrize("chunk_bytes", [64, 1000])
def test_a_log_of_another_size_than_its_manifest_says_is_refused(
    options: LayoutOptions, how: str, chunk_bytes: int
) -> None:
    made = written(options, chunk_bytes, 130)
    stored = made.stored(Suffix.LOG)
    with pytest.raises(CorruptLog, match=r"ends (at byte|within it)"):
        made.replaced(Suffix.LOG, stored[:-1]).read(0, 131)
    longer = made.replaced(Suffix.LOG, stored + b"x")
    with pytest.raises(CorruptLog, match=f"continues after byte {len(stored)}"):
        longer.read(0, 131)
    listed = longer.tier.listing(KEY)[0]
    with pytest.raises(CorruptLog, match=f"{len(stored) + 1} bytes, its manifest says"):
        longer.tier.part_sizes(KEY, listed)


def test_indexes_of_another_size_or_with_a_flipped_bit_are_refused(options: LayoutOptions) -> None:
    made = written(options, 10, 30)
    stored = made.stored(Suffix.INDEXES)
    shorter = made.replaced(Suffix.INDEXES, stored[:-1])
    with pytest.raises(CorruptLog, match="places data up to byte"):
        shorter.tier.read_part(made.address, Part.TRANSACTION_INDEX)
    with pytest.raises(CorruptLog, match=r"\d+ bytes, its manifest says"):
        shorter.tier.part_sizes(KEY, shorter.tier.listing(KEY)[0])
    if options.is_encrypted:
        flipped = made.replaced(Suffix.INDEXES, stored[:-1] + bytes([stored[-1] ^ 1]))
        with pytest.raises(CorruptLog, match="cannot be decrypted") as caught:
            flipped.tier.read_part(made.address, Part.TRANSACTION_INDEX)
        assert caught.value.where.endswith(".indexes (transaction)")


def in_frames(chunk: bytes, **parameters: Any) -> bytes:
    return zstandard.ZstdCompressor(**parameters).compress(chunk)


@pytest.mark.parametrize("fetched_bytes", [0, 13, 4 * 2**20], ids=["whole", "little", "much"])
@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (in_frames(b"x" * 30, write_content_size=False), "claims to hold -1, the manifest says 30"),
        (in_frames(b"x" * 31), "claims to hold 31, the manifest says 30"),
        (in_frames(b"x" * 30) + b"more", "cannot be decompressed|it is longer than"),
        (in_frames(b"x" * 30) + in_frames(b"y"), "cannot be decompressed|it is longer than"),
        (in_frames(b"x" * 30)[:-1], "cannot be decompressed|bytes when decoded"),
        (b"no frame at all", "cannot be decompressed"),
    ],
    ids=["no size", "other size", "more", "two frames", "torn", "no frame"],
)
def test_a_frame_that_is_not_what_the_plugin_writes_is_refused(
    monkeypatch: pytest.MonkeyPatch, fetched_bytes: int, frame: bytes, says: str
) -> None:
    if fetched_bytes:
        monkeypatch.setattr(stored_segment, "CHUNK_BYTES_HELD", 0)
        monkeypatch.setattr(large_chunks, "FETCHED_BYTES", fetched_bytes)
    made = written(LayoutOptions(is_compressed=True), 30, 30)
    manifest = made.stored(Suffix.MANIFEST)
    sizes = encoded_sizes(np.array([len(frame)], np.int64)).encode()
    before = encoded_sizes(np.array([len(made.stored(Suffix.LOG))], np.int64)).encode()
    made.replaced(Suffix.MANIFEST, manifest.replace(before, sizes))
    with pytest.raises(CorruptLog, match=says):
        made.replaced(Suffix.LOG, frame).read(0, 31)


def test_a_frame_that_claims_more_than_it_can_hold_is_refused() -> None:
    frame = bytearray(in_frames(b"x" * 2**20))
    made = written(LayoutOptions(is_compressed=True), 2**30 - 1, 2**20)
    transform = made.tier._read(made.address).transform
    with pytest.raises(CorruptLog, match=r"of 20 bytes claims to hold 1048576"):
        transform.decoded(bytes(frame[:20]), 2**20, "here")


@pytest.mark.parametrize("size_bytes", [0, 7, 8, 12, 27])
def test_what_is_too_short_to_be_encrypted_is_refused(how: str, size_bytes: int) -> None:
    key = DataKey.fresh()
    with pytest.raises(CorruptLog, match="cannot be decrypted"):
        key.opened(bytes(size_bytes), "here")
    chunk = LargeChunk(
        name=("log", 0),
        read=lambda start, length: np.zeros(max(0, min(length, size_bytes - start)), np.uint8),
        start=0,
        stored_bytes=size_bytes,
        size_bytes=1,
        where="here",
    )
    transform = ChunkTransform(is_compressed=False, data_key=key)
    with pytest.raises(CorruptLog, match="cannot be decrypted"):
        OpenChunks().read(chunk, transform, 0, 1)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_each_byte_of_a_large_chunk_is_fetched_once(is_encrypted: bool) -> None:
    key = DataKey.fresh() if is_encrypted else None
    transform = ChunkTransform(is_compressed=False, data_key=key)
    logs = {"a": bytes(range(90)), "b": bytes(range(90, 180))}
    stored = {
        name: np.frombuffer(bytes(transform.encoded(log)), np.uint8) for name, log in logs.items()
    }
    fetched: list[tuple[str, int, int]] = []

    def chunk(name: str) -> LargeChunk:
        def read(start: int, length: int) -> NDArray[np.uint8]:
            fetched.append((name, start, length))
            return stored[name][start : start + length]

        return LargeChunk(
            name=(name, 0),
            read=read,
            start=0,
            stored_bytes=len(stored[name]),
            size_bytes=90,
            where="here",
        )

    chunks = OpenChunks()
    for name, at in [("a", 0), ("b", 0), ("b", 30), ("a", 30), ("a", 60), ("b", 60)]:
        found = chunks.read(chunk(name), transform, at, at + 30)
        assert found.tobytes() == logs[name][at : at + 30]
    for name in logs:
        assert sum(length for of, _, length in fetched if of == name) == len(stored[name])


@pytest.mark.parametrize("window_log", [23, 24])
def test_a_large_chunk_whose_window_is_too_large_is_refused(window_log: int) -> None:
    log = np.random.default_rng(1).bytes(2**24 + 1)
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log, enable_ldm=False)
    frame = zstandard.ZstdCompressor(compression_params=parameters).compress(log)
    stored = np.frombuffer(frame, np.uint8)
    chunk = LargeChunk(
        name=("log", 0),
        read=lambda start, length: stored[start : start + length],
        start=0,
        stored_bytes=len(stored),
        size_bytes=len(log),
        where="here",
    )
    transform = ChunkTransform(is_compressed=True, data_key=None)
    if 2**window_log <= large_chunks.WINDOW_BYTES_MAX:
        assert OpenChunks().read(chunk, transform, 0, len(log)).tobytes() == log
        return
    with pytest.raises(CorruptLog, match="too much memory"):
        OpenChunks().read(chunk, transform, 0, 1)


def test_a_log_is_written_in_no_more_chunks_than_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiven_tier, "CHUNKS_MAX", 16)
    made = written(LayoutOptions(is_compressed=True), 7, 1000)
    again = made.tier.new_segment(new_address(KEY, 0), [made.address])
    assert again.chunk_bytes == 125
    unlike = replace(made.tier, options=LayoutOptions())
    assert unlike.new_segment(new_address(KEY, 0)).chunk_bytes > 125


def test_a_chunk_of_another_size_is_refused() -> None:
    key = DataKey.fresh()
    transform = ChunkTransform(is_compressed=False, data_key=key)
    assert transform.decoded(key.sealed(b"four"), 4, "here") == b"four"
    with pytest.raises(CorruptLog, match="4 bytes when decoded, the manifest says 5"):
        transform.decoded(key.sealed(b"four"), 5, "here")


def test_an_empty_piece_is_stored_as_0_bytes_though_it_is_encrypted() -> None:
    transform = ChunkTransform(is_compressed=False, data_key=DataKey.fresh())
    assert bytes(transform.stored_piece(b"")) == b""
    assert bytes(transform.read_piece(b"", "here")) == b""


def test_a_log_of_0_bytes_is_never_written(options: LayoutOptions) -> None:
    tier = AivenTier(BucketStore("memory", new_name(), "t", StoreOptions()), options)
    staged = tier.new_segment(new_address(KEY, 0))
    with pytest.raises(ValueError, match="0 bytes"), staged.open_log():
        pass
    assert tier.listing(KEY) == ()


@pytest.mark.parametrize("lacking", [part for part in PARTS if part is not Part.TRANSACTION_INDEX])
def test_a_segment_that_lacks_a_part_is_not_finished(options: LayoutOptions, lacking: Part) -> None:
    tier = AivenTier(BucketStore("memory", new_name(), "t", StoreOptions()), options)
    staged = tier.new_segment(new_address(KEY, 0))
    for part in PARTS:
        if part is not lacking:
            staged.put(part, content(part))
    with pytest.raises(ValueError, match="cannot be finished"):
        staged.finish(described(staged.address))
    assert not any(listed.is_complete for listed in tier.listing(KEY))


# Stored sizes in a manifest.


@given(sizes=st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=30))
def test_stored_sizes_are_read_as_written(sizes: list[int]) -> None:
    assert decoded_sizes(encoded_sizes(np.array(sizes)), len(sizes)).tolist() == sizes


def test_stored_sizes_are_read_as_the_plugin_writes_them() -> None:
    """Rule: the sample in LANDSCAPE 3.4, from Aiven's own test."""
    assert decoded_sizes("KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAAe", 3).tolist() == [10, 20, 30]


def test_an_empty_log_has_no_chunks() -> None:
    fixed = FixedChunks(chunk_bytes=4, log_bytes=0, stored_chunk_bytes=4, last_stored_bytes=4)
    variable = VariableChunks.of(4, 0, np.empty(0, np.int64))
    assert (fixed.count, fixed.stored_bytes) == (variable.count, variable.stored_bytes) == (0, 0)
