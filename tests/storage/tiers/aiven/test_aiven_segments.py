"""Segments in Aiven's layout are discovered, rewritten, checked and cleaned up like others."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.compaction.builders import a_state
from tests.compaction.hash_keys import FINGERPRINT
from tests.storage.deleted_segments import delete_segment
from tests.storage.emulators import new_name
from tests.storage.live_segments import (
    KEY,
    NOW_MS,
    a_check_order,
    a_group_task,
    an_abort,
    data,
    marker,
    put_segment,
)
from tests.storage.new_ids import own_id
from tests.storage.tiers.aiven.rsa_keys import key_file, private_pem
from tierfold.compaction.cleaning.offset_map import SUPERSEDED
from tierfold.compaction.commits.receipts import GroupReceipt, listing_violations
from tierfold.compaction.discovery.candidates import Candidate, EndFrom, is_orphan
from tierfold.compaction.discovery.listing import classify, corrupted_parts
from tierfold.compaction.model.errors import BadSettings, CorruptLog, UnreadableObject
from tierfold.compaction.model.segments import Segment
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.segments.segment_check import read_and_check
from tierfold.storage.segments.segment_inspection import inspected
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.aiven.aiven_tier import AivenTier
from tierfold.storage.tiers.aiven.data_keys import unwrapped_key, wrapped_key
from tierfold.storage.tiers.aiven.object_names import Suffix
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.layout_options import LayoutOptions
from tierfold.storage.tiers.object_store import StoredChecksum
from tierfold.storage.tiers.remote_tier import Part, address_of
from tierfold.storage.tiers.store_options import StoreOptions

ABORT = an_abort(5, 2, 4)
BATCHES = [
    data(0, (b"a", b"1"), (b"b", b"1")),
    data(2, (b"c", b"1"), (b"d", b"1"), producer_id=5),
    marker(4, 5, ControlType.ABORT),
]
MORE = [data(5, (b"a", b"2"), (b"e", b"1" * 200))]


@pytest.fixture(params=["plain", "zstd", "encrypted", "both"])
def tier(request: pytest.FixtureRequest, tmp_path: Path) -> AivenTier:
    """The brokers' tier, as their configuration says."""
    return a_tier(request.param, tmp_path)


def a_tier(variant: str, folder: Path) -> AivenTier:
    is_encrypted = variant in {"encrypted", "both"}
    options = LayoutOptions(
        key_prefix="cluster-a/",
        key_files=(key_file(folder),) if is_encrypted else (),
        chunk_bytes=64,
        is_compressed=variant in {"zstd", "both"},
        is_encrypted=is_encrypted,
    )
    return AivenTier(BucketStore("memory", new_name(), "t", StoreOptions()), options)


def as_found(tier: AivenTier, **options: object) -> AivenTier:
    """The tier as tierfold opens it: what is not given is as in the sources."""
    unknown = {"chunk_bytes": None, "is_compressed": None, "is_encrypted": None}
    found = replace(tier.options, **(unknown | options))  # type: ignore[arg-type]
    return replace(tier, options=found)


def uploaded(tier: AivenTier) -> tuple[Segment, Segment]:
    first = put_segment(tier, BATCHES, offsets=(0, 4), aborted=(ABORT,))
    return first, put_segment(tier, MORE, offsets=(5, 6))


def rewritten(tier: AivenTier, segments: tuple[Segment, ...]) -> GroupReceipt:
    """The group as one segment, without the first record."""

    def bits(segment: Segment) -> np.ndarray:
        of_records = np.zeros(9, np.uint8)
        of_records[0] = SUPERSEDED if segment.start_offset == 0 else 0
        return of_records

    task = a_group_task(segments, listed=(ABORT,), aborted=(ABORT,))
    return rewrite_group(tier, task, bits)


def manifest_of(tier: AivenTier, segment: Segment) -> dict[str, object]:
    key = tier.names.object_key(address_of(KEY, segment), Suffix.MANIFEST)
    found: dict[str, object] = json.loads(tier.store.read(key).tobytes())
    return found


def rewrite_object(tier: AivenTier, segment: Segment, suffix: Suffix, content: bytes) -> None:
    key = tier.names.object_key(address_of(KEY, segment), suffix)
    tier.store.delete(key)
    tier.store.create(key, content)


def test_an_upload_is_discovered_as_it_was_described(tier: AivenTier) -> None:
    segments = uploaded(tier)
    found = [inspected(tier, KEY, listed) for listed in tier.listing(KEY)]
    assert tuple(one.segment for one in found) == segments
    assert all(one.is_readable and one.checkpoint for one in found)
    assert {one.end_from for one in found} == {EndFrom.MANIFEST}
    assert classify(tier.listing(KEY), a_state(segments)).corruptions == ()


def test_a_group_is_written_as_its_sources_are(tier: AivenTier) -> None:
    segments = uploaded(tier)
    opened = as_found(tier)
    receipt = rewritten(opened, segments)
    assert receipt.segment is not None
    assert listing_violations((receipt,), opened.listing(KEY)) == ()
    assert corrupted_parts([receipt.segment], opened.listing(KEY), kind="live segment") == ()
    before, after = manifest_of(tier, segments[-1]), manifest_of(tier, receipt.segment)
    assert list(before) == list(after)
    assert after["compression"] == before["compression"]
    chunks = after["chunkIndex"]
    assert isinstance(chunks, dict)
    assert chunks["originalChunkSize"] == 64
    assert chunks["originalFileSize"] == receipt.segment.size_bytes == receipt.bytes_written
    if "encryption" in before:
        assert after["encryption"] != before["encryption"]
    checked = read_and_check(opened, a_check_order(receipt.segment)).checked
    assert checked.corruptions == ()
    log = opened.read_part(address_of(KEY, receipt.segment), Part.LOG).tobytes()
    records = [r.key for batch in read_segment(log).batches() for r in batch.records]
    assert records == [b"b", b"\0\0\0\0", b"a", b"e"]


def test_the_metadata_of_a_manifest_describes_the_segment(tier: AivenTier) -> None:
    receipt = rewritten(as_found(tier), uploaded(tier))
    assert receipt.segment is not None
    metadata = manifest_of(tier, receipt.segment)["remoteLogSegmentMetadata"]
    assert isinstance(metadata, dict)
    assert metadata.pop("eventTimestampMs") > NOW_MS
    assert metadata == {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": KEY.topic_id,
                "topicPartition": {"topic": "orders", "partition": 0},
            },
            "id": receipt.segment.segment_id,
        },
        "startOffset": 0,
        "endOffset": 6,
        "maxTimestampMs": NOW_MS + 6,
        "brokerId": -1,
        "segmentLeaderEpochs": {"3": 0},
        "txnIdxEmpty": False,
    }


def test_given_options_override_the_sources(tmp_path: Path) -> None:
    tier = a_tier("plain", tmp_path)
    opened = as_found(
        tier,
        chunk_bytes=100,
        is_compressed=True,
        is_encrypted=True,
        key_files=(key_file(tmp_path, 1),),
    )
    receipt = rewritten(opened, uploaded(tier))
    assert receipt.segment is not None
    manifest = opened._read(address_of(KEY, receipt.segment)).manifest
    assert (manifest.chunks.chunk_bytes, manifest.is_compressed) == (100, True)
    assert manifest.encryption is not None
    assert manifest.encryption.wrapped_key.startswith("key-1:")


def test_encoded_chunks_are_never_larger_than_what_is_held(tmp_path: Path) -> None:
    tier = a_tier("both", tmp_path)
    large = replace(tier, options=replace(tier.options, chunk_bytes=2**30 - 1))
    segments = uploaded(large)
    assert large._read(address_of(KEY, segments[0])).manifest.chunks.chunk_bytes == 16 * 2**20
    plain = as_found(a_tier("plain", tmp_path), chunk_bytes=2**30 - 1)
    segments = uploaded(plain)
    assert plain._read(address_of(KEY, segments[0])).manifest.chunks.chunk_bytes == 2**30 - 1


def test_an_encrypted_source_is_never_written_without_encryption(tmp_path: Path) -> None:
    tier = a_tier("encrypted", tmp_path)
    first, _ = uploaded(tier)
    plain = as_found(tier, is_encrypted=False)
    second = put_segment(plain, MORE, offsets=(5, 6))
    assert "encryption" not in manifest_of(tier, second)
    with pytest.raises(BadSettings, match="would be written without encryption") as caught:
        rewritten(plain, (first, second))
    assert caught.value.where.endswith(f"{first.segment_id}.rsm-manifest")
    # The first source is encrypted, the last is not.
    receipt = rewritten(as_found(tier), (first, second))
    assert receipt.segment is not None
    assert "encryption" in manifest_of(tier, receipt.segment)


def test_without_a_key_an_encrypted_segment_is_not_read(tmp_path: Path) -> None:
    tier = a_tier("encrypted", tmp_path)
    uploaded(tier)
    (listed, _) = tier.listing(KEY)
    found = inspected(as_found(tier, key_files=()), KEY, listed)
    assert "is encrypted under key 'key-0', and no file is named for it" in found.corruption
    assert not found.is_readable
    assert "only for" not in found.obstacle
    wrong = replace(key_file(tmp_path / "wrong", 0, private_pem(1)), key_id="key-0")
    other = replace(wrong, key_id="key-7")
    found = inspected(as_found(tier, key_files=(other,)), KEY, listed)
    assert "no file is named for it, only for 'key-7'. " in found.obstacle
    found = inspected(as_found(tier, key_files=(wrong,)), KEY, listed)
    assert "cannot be unwrapped with key 'key-0'" in found.corruption


def test_a_manifest_under_a_new_key_changes_nothing_in_the_plan(tmp_path: Path) -> None:
    tier = a_tier("both", tmp_path)
    segments = uploaded(tier)
    state = a_state(segments)
    manifest = manifest_of(tier, segments[0])
    encryption = manifest["encryption"]
    assert isinstance(encryption, dict)
    data_key = unwrapped_key(encryption["dataKey"], tier.options.key_files, "here")
    rotated = replace(key_file(tmp_path, 1), key_id="a-key-with-a-longer-name")
    encryption["dataKey"] = wrapped_key(data_key, (rotated,))
    rewrite_object(tier, segments[0], Suffix.MANIFEST, json.dumps(manifest).encode())
    assert classify(tier.listing(KEY), state).corruptions == ()
    opened = as_found(tier, key_files=(rotated, *tier.options.key_files))
    assert read_and_check(opened, a_check_order(segments[0], is_last=False)).checked
    receipt = rewritten(opened, segments)
    assert receipt.segment is not None
    assert "a-key-with-a-longer-name" in str(manifest_of(tier, receipt.segment)["encryption"])


@pytest.mark.parametrize("suffix", [Suffix.LOG, Suffix.INDEXES])
def test_another_stored_size_is_a_corruption(tier: AivenTier, suffix: Suffix) -> None:
    segments = uploaded(tier)
    key = tier.names.object_key(address_of(KEY, segments[0]), suffix)
    stored = tier.store.read(key).tobytes()
    rewrite_object(tier, segments[0], suffix, stored + b"x")
    (found,) = classify(tier.listing(KEY), a_state(segments)).corruptions
    expected = f"has a .{suffix.value} of {len(stored) + 1} bytes, the catalog says {len(stored)}"
    assert found.endswith(expected)


@pytest.mark.parametrize("suffix", list(Suffix))
def test_every_object_of_a_live_segment_is_required(tier: AivenTier, suffix: Suffix) -> None:
    segments = uploaded(tier)
    tier.store.delete(tier.names.object_key(address_of(KEY, segments[0]), suffix))
    (found,) = classify(tier.listing(KEY), a_state(segments)).corruptions
    assert found.endswith(f"lacks .{suffix.value}")


def test_a_wrong_index_is_named_as_the_tier_names_it(tmp_path: Path) -> None:
    tier = a_tier("plain", tmp_path)
    first, _ = uploaded(tier)
    address = address_of(KEY, first)
    stored = bytearray(tier.store.read(tier.names.object_key(address, Suffix.INDEXES)).tobytes())
    stored[7] ^= 1  # The position of the first entry of the offset index.
    rewrite_object(tier, first, Suffix.INDEXES, bytes(stored))
    found = read_and_check(as_found(tier), a_check_order(first, is_last=False)).checked
    (corruption,) = found.corruptions
    assert corruption.startswith(f"{tier.uri(address, Part.OFFSET_INDEX)}: 1 of ")


def left_behind(
    tier: AivenTier, suffixes: Collection[Suffix], segment: Segment
) -> Candidate:
    """What is inspected of an upload of which only these objects are left."""
    for suffix in Suffix:
        if suffix not in suffixes:
            tier.store.delete(tier.names.object_key(address_of(KEY, segment), suffix))
    (listed,) = [one for one in tier.listing(KEY) if one.segment_id == segment.segment_id]
    return inspected(tier, KEY, listed, fingerprint=FINGERPRINT)


@pytest.mark.parametrize("suffixes", [[Suffix.LOG], [Suffix.LOG, Suffix.INDEXES]], ids=repr)
def test_a_log_without_its_manifest_is_an_orphan_only_if_it_is_ours(
    tier: AivenTier, suffixes: list[Suffix]
) -> None:
    state = a_state(uploaded(tier))
    brokers = left_behind(tier, suffixes, put_segment(tier, MORE, offsets=(5, 6)))
    assert (brokers.is_own_unfinished, brokers.end_offset, brokers.corruption) == (False, None, "")
    assert not is_orphan(brokers, state)
    marked = replace(brokers.listed, segment_id=own_id())
    ours = inspected(tier, KEY, marked, fingerprint=FINGERPRINT)
    assert not is_orphan(inspected(tier, KEY, marked, fingerprint=FINGERPRINT + 1), state)
    assert not ours.is_readable
    assert is_orphan(ours, state)
    assert not is_orphan(ours, None)


@pytest.mark.parametrize("suffixes", [[Suffix.INDEXES], [Suffix.MANIFEST]], ids=repr)
def test_an_upload_without_its_log_is_an_orphan(tier: AivenTier, suffixes: list[Suffix]) -> None:
    state = a_state(uploaded(tier))
    found = left_behind(tier, suffixes, put_segment(tier, MORE, offsets=(5, 6)))
    assert is_orphan(found, state)


@pytest.mark.parametrize("stops", [1, 2])
def test_an_interrupted_deletion_looks_incomplete_and_the_next_vacuum_ends_it(
    tier: AivenTier, monkeypatch: pytest.MonkeyPatch, stops: int
) -> None:
    first, second = uploaded(tier)
    state = a_state([first, second])
    deleted: list[str] = []
    delete = BucketStore.delete

    def stopped(store: BucketStore, key: str) -> None:
        if len(deleted) == stops:
            raise KeyboardInterrupt
        deleted.append(key)
        delete(store, key)

    monkeypatch.setattr(BucketStore, "delete", stopped)
    with pytest.raises(KeyboardInterrupt):
        delete_segment(tier, address_of(KEY, first))
    (left,) = [one for one in tier.listing(KEY) if one.segment_id == first.segment_id]
    assert not left.is_complete
    found = inspected(as_found(tier), KEY, left)
    assert not found.is_own_unfinished, "of a broker's segment the id would not show it"
    assert is_orphan(found, state), "the next vacuum would leave it for ever"


class _StatingStore(BucketStore):
    """A store whose checksum of every object is wrong."""

    def stored_checksum(self, key: str) -> StoredChecksum | None:
        return StoredChecksum(size_bytes=len(self.read(key)), crc32c=1)


def test_what_the_store_says_of_encoded_bytes_is_not_compared_with_records(
    tier: AivenTier,
) -> None:
    stating = replace(tier, store=_StatingStore("memory", new_name(), "t", StoreOptions()))
    assert isinstance(stating.store, BucketStore)
    segments = uploaded(stating)
    manifest = stating._read(address_of(KEY, segments[0])).manifest
    for part in Part:
        stated = stating.stored_checksum(address_of(KEY, segments[0]), part)
        assert (stated is not None) == (part is Part.LOG and manifest.is_plain)
    # All parts are read back, and they are right.
    assert rewritten(as_found(stating), segments).segment is not None


@pytest.mark.parametrize("suffix", list(Suffix))
def test_what_is_stored_wrongly_is_found_before_a_commit(
    tier: AivenTier, suffix: Suffix, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = uploaded(tier)
    own = {segment.segment_id for segment in segments}
    read = BucketStore.read_range

    def rotten(store: BucketStore, key: str, start: int, length: int) -> np.ndarray:
        found = read(store, key, start, length).copy()
        if key.endswith(suffix.value) and not any(name in key for name in own) and len(found) > 8:
            found[8] ^= 1
        return found

    monkeypatch.setattr(BucketStore, "read_range", rotten)
    with pytest.raises((UnreadableObject, CorruptLog)) as caught:
        rewritten(as_found(tier), segments)
    assert suffix.value in caught.value.where


@pytest.fixture(autouse=True)
def _no_plain_text(request: pytest.FixtureRequest) -> Iterator[None]:
    """No object of an encrypted tier holds the value of a record."""
    # Not a parameter: a test that makes its own tier would run once for each variant.
    tier = request.getfixturevalue("tier") if "tier" in request.fixturenames else None
    yield
    if tier is None or not tier.options.is_encrypted:
        return
    for entry in tier.store.list(tier.names.partition_folder(KEY)):
        assert b"1" * 50 not in tier.store.read(entry.key).tobytes()
