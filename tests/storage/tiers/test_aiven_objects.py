"""The second reader and writer agree with a real broker, and with openssl, about Aiven's layout."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.tiers.aiven_keys import new_key_pair
from tests.storage.tiers.aiven_objects import (
    NotAiven,
    Variant,
    objects_of,
    packed_sizes,
    segment_of,
    unpacked_sizes,
)
from tests.storage.tiers.aiven_samples import ENCRYPTED, KEY_FILE, SAMPLES, ZSTD, Sample, digest
from tests.storage.tiers.aiven_tiers import (
    local_segments_in,
    rotated,
    segments_in,
    write_aiven,
    write_local,
)
from tierfold.storage.segments.segment_reader import read_segment

WHOLE: Final = (ZSTD, ENCRYPTED)
KEY: Final = ENCRYPTED.keys[0]
VARIANTS: Final = (
    Variant(),
    Variant(is_compressed=True, key_prefix="a/b-"),
    Variant(key=KEY, chunk_bytes=100_001),
    Variant(is_compressed=True, key=KEY),
)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_the_logs_are_those_of_the_broker(sample: Sample) -> None:
    found = {segment.start_offset: segment.parts["log"] for segment in sample.segments()}
    assert {start: digest(log) for start, log in found.items()} == sample.log_digests()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_the_indexes_are_those_of_the_broker(sample: Sample) -> None:
    segments = sample.segments()
    ends = [segment.start_offset for segment in segments[1:]]
    compared = 0
    for segment, end in zip(segments, ends, strict=False):
        for suffix in ("index", "timeindex", "txnindex"):
            path = sample.folder / "local" / f"{segment.start_offset:020d}.{suffix}"
            assert path.exists() == (suffix in segment.parts)
            if path.exists():
                assert segment.parts[suffix] == path.read_bytes()
                compared += 1
        snapshot = sample.folder / "local" / f"{end:020d}.snapshot"
        assert segment.parts["snapshot"] == snapshot.read_bytes()
    assert compared >= 3 * len(ends) - 2
    checkpoint = (sample.folder / "local" / "leader-epoch-checkpoint").read_bytes()
    assert segments[-1].parts["leader_epoch_checkpoint"] == checkpoint


@pytest.mark.parametrize("sample", WHOLE, ids=lambda sample: sample.name)
def test_the_records_are_those_of_a_stock_consumer(sample: Sample, tmp_path: Path) -> None:
    found = hashlib.sha256()
    count = 0
    for segment in sample.segments():
        log = tmp_path / f"{segment.start_offset:020d}.log"
        log.write_bytes(segment.parts["log"])
        for batch in read_segment(log).batches():
            for record in batch.records:
                if record.control_type is None:
                    count += 1
                    found.update(record.offset.to_bytes(8, "big"))
                    found.update(record.timestamp_ms.to_bytes(8, "big"))
                    found.update((record.key or b"") + (record.value or b"\0"))
                    for name, value in record.headers:
                        found.update(name + (value or b""))
    consumed = json.loads((sample.folder / "consumed.json").read_text())["read_uncommitted"]
    assert (count, found.hexdigest()) == (consumed["records"], consumed["sha256"])


@pytest.mark.parametrize("sample", WHOLE, ids=lambda sample: sample.name)
def test_it_writes_the_manifest_that_the_broker_wrote(sample: Sample) -> None:
    """All but what is drawn at random, and what only the broker knows."""
    key = sample.keys[0] if sample.keys else None
    variant = Variant(key_prefix=sample.key_prefix, is_compressed=key is None, key=key)
    for segment in sample.segments():
        for name, data in objects_of(segment, variant).items():
            theirs = (sample.bucket / name).read_bytes()
            if name.endswith(".rsm-manifest"):
                ours, others = _comparable(data), _comparable(theirs)
                assert ours == others
                assert list(ours) == list(others)
                assert list(ours["chunkIndex"]) == list(others["chunkIndex"])
            elif key is None and name.endswith(".indexes"):
                assert data == theirs
            elif key is not None:
                assert len(data) == len(theirs)


def _comparable(manifest: bytes) -> dict[str, Any]:
    """The manifest without random numbers, frame sizes of another zstd, and times."""
    found: dict[str, Any] = json.loads(manifest)
    if "encryption" in found:
        data_key = found["encryption"].pop("dataKey")
        assert data_key.startswith("key-1:")
        found["encryption"].pop("aad")
    if "transformedChunks" in found["chunkIndex"]:
        sizes = unpacked_sizes(found["chunkIndex"]["transformedChunks"])
        found["chunkIndex"]["transformedChunks"] = len(sizes)
    found["remoteLogSegmentMetadata"].pop("eventTimestampMs")
    return found


@pytest.mark.parametrize("variant", VARIANTS, ids=["plain", "zstd", "encrypted", "both"])
def test_what_it_writes_it_reads(variant: Variant, tmp_path: Path) -> None:
    segments = ZSTD.segments()
    keys = [variant.key] if variant.key is not None else []
    folder = write_aiven(tmp_path / "aiven", segments, variant)
    assert segments_in(folder, variant.key_prefix, keys) == segments
    assert local_segments_in(write_local(tmp_path / "local", segments)) == segments


def test_openssl_unwraps_what_it_wraps_and_the_other_way_round(tmp_path: Path) -> None:
    private, public = KEY.write_files(tmp_path)
    secret = bytes(range(32))
    oaep = ["rsa_padding_mode:oaep", "rsa_oaep_md:sha3-512", "rsa_mgf1_md:sha3-512"]
    options = [word for option in oaep for word in ("-pkeyopt", option)]

    def openssl(*words: str | Path, data: bytes) -> bytes:
        return subprocess.run(
            ["openssl", "pkeyutl", *words, *options], input=data, capture_output=True, check=True
        ).stdout

    assert openssl("-decrypt", "-inkey", private, data=KEY.wrapped(secret)) == secret
    wrapped = openssl("-encrypt", "-pubin", "-inkey", public, data=secret)
    assert KEY.unwrapped(wrapped) == secret


def test_a_rotated_manifest_opens_with_the_new_key_only(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ENCRYPTED.bucket, tmp_path / "bucket"))
    new = new_key_pair("key-2")
    for path in folder.rglob("*.rsm-manifest"):
        path.write_bytes(rotated(path.read_bytes(), KEY, new))
    assert segments_in(folder, "", [new]) == ENCRYPTED.segments()
    imposter = replace(KEY, key_id="key-2")
    with pytest.raises(ValueError, match="another key wrapped it"):
        segments_in(folder, "", [imposter])


@given(st.lists(st.integers(1, 2**31 - 1), max_size=20))
def test_sizes_are_packed_as_the_plugin_does(sizes: list[int]) -> None:
    assert unpacked_sizes(packed_sizes(sizes)) == sizes


def test_the_plugins_own_example_of_sizes() -> None:
    assert unpacked_sizes("KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAAe") == [10, 20, 30]


def _without(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest.pop(name)


@pytest.mark.parametrize(
    "change",
    [
        _without("compression"),
        lambda manifest: manifest["segmentIndexes"].pop("transaction"),
        lambda manifest: manifest.update(more=1),
        lambda manifest: manifest["chunkIndex"].update(more=1),
        lambda manifest: manifest["segmentIndexes"].update(more=None),
        lambda manifest: manifest.update(version="2"),
        lambda manifest: manifest.update(compression=False),
        lambda manifest: manifest["chunkIndex"].update(type="fixed"),
        lambda manifest: manifest["chunkIndex"].update(originalFileSize=1),
        lambda manifest: manifest["chunkIndex"].update(originalChunkSize=131073),
        lambda manifest: manifest["segmentIndexes"]["timestamp"].update(position=1),
        lambda manifest: manifest["segmentIndexes"]["leaderEpoch"].update(size=1),
        lambda manifest: manifest["remoteLogSegmentMetadata"]["remoteLogSegmentId"].update(id="x"),
    ],
)
def test_it_refuses_what_the_plugin_refuses_and_what_does_not_fit(
    change: Callable[[dict[str, Any]], object],
) -> None:
    segment = ZSTD.segments()[2]
    stem = ZSTD.key_prefix + segment.stem
    objects = {
        f"{stem}.{of}": (ZSTD.bucket / f"{stem}.{of}").read_bytes()
        for of in ("log", "indexes", "rsm-manifest")
    }
    assert segment_of(objects, stem, ZSTD.key_prefix) == segment
    manifest = json.loads(objects[f"{stem}.rsm-manifest"])
    change(manifest)
    objects[f"{stem}.rsm-manifest"] = json.dumps(manifest).encode()
    with pytest.raises(NotAiven):
        segment_of(objects, stem, ZSTD.key_prefix)


@pytest.mark.parametrize("of", ["log", "indexes"])
def test_a_changed_byte_of_an_encrypted_object_is_found(of: str) -> None:
    segment = ENCRYPTED.segments()[2]
    objects = objects_of(segment, Variant(key=KEY))
    changed = bytearray(objects[f"{segment.stem}.{of}"])
    changed[-1] ^= 1
    objects[f"{segment.stem}.{of}"] = bytes(changed)
    with pytest.raises(NotAiven, match="was changed"):
        segment_of(objects, segment.stem, "", [KEY])


def test_a_log_without_bytes_is_never_written() -> None:
    segment = ZSTD.segments()[0]
    empty = replace(segment, parts={**segment.parts, "log": b""})
    with pytest.raises(NotAiven, match="0 bytes"):
        objects_of(empty, Variant())


def test_the_samples_key_is_a_key_pair() -> None:
    assert KEY_FILE.is_file()
    assert KEY.key_id == "key-1"
    assert KEY.unwrapped(KEY.wrapped(b"x" * 32)) == b"x" * 32
