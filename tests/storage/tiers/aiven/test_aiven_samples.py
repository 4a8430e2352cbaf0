"""The objects that a real broker wrote with the real plugin decode to what the broker had."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.segments.segment_inspection import inspected
from tierfold.storage.tiers.aiven.aiven_tier import AivenTier
from tierfold.storage.tiers.aiven.chunk_index import VariableChunks, decoded_sizes
from tierfold.storage.tiers.aiven.manifest import read_manifest, write_manifest
from tierfold.storage.tiers.aiven.object_names import Suffix
from tierfold.storage.tiers.layout_options import AS_FOUND, KeyFile, LayoutOptions
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, address_of
from tierfold.storage.tiers.tier_uris import open_tier

SAMPLES: Final = Path(__file__).resolve().parents[3] / "data" / "aiven"
KEY_FILE: Final = KeyFile(key_id="key-1", path=str(SAMPLES / "encrypted/keys/key-1.jwk.json"))
OPTIONS: Final = {
    "plain": AS_FOUND,
    "zstd": LayoutOptions(key_prefix="cluster-a/tiered/"),
    "encrypted": LayoutOptions(key_files=(KEY_FILE,)),
}
LOCAL_NAMES: Final = {
    Part.OFFSET_INDEX: "index",
    Part.TIME_INDEX: "timeindex",
    Part.TRANSACTION_INDEX: "txnindex",
}


@pytest.fixture(params=sorted(OPTIONS))
def sample(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tier(sample: str) -> RemoteTier:
    return open_tier(str(SAMPLES / sample / "bucket"), layout_options=OPTIONS[sample])


@pytest.fixture
def key(tier: RemoteTier, sample: str) -> PartitionKey:
    (found,) = tier.partitions()
    assert (found.topic, found.partition) == (sample, 0)
    return found


def test_the_logs_are_those_that_were_on_the_brokers_disk(
    tier: RemoteTier, key: PartitionKey, sample: str
) -> None:
    lines = (SAMPLES / sample / "original-logs.sha256").read_text().splitlines()
    logs = [tier.read_part(address_of(key, one), Part.LOG) for one in tier.listing(key)]
    assert [sha256(log).hexdigest() for log in logs] == [line.split()[0] for line in lines]


def test_the_indexes_are_those_that_were_on_the_brokers_disk(
    tier: RemoteTier, key: PartitionKey, sample: str
) -> None:
    compared = 0
    for listed in tier.listing(key):
        for part, suffix in LOCAL_NAMES.items():
            path = SAMPLES / sample / "local" / f"{listed.start_offset:020d}.{suffix}"
            if path.exists():
                found = tier.read_part(address_of(key, listed), part)
                assert found.tobytes() == path.read_bytes()
                compared += 1
        end_offset = inspected(tier, key, listed).end_offset
        assert end_offset is not None
        # The snapshot is that of the next segment's start.
        path = SAMPLES / sample / "local" / f"{end_offset + 1:020d}.snapshot"
        if path.exists():
            found = tier.read_part(address_of(key, listed), Part.SNAPSHOT)
            assert found.tobytes() == path.read_bytes()
            compared += 1
    assert compared >= 4


def test_the_metadata_are_those_of_the_manifests(tier: RemoteTier, key: PartitionKey) -> None:
    """The broker's own description, which is not read otherwise."""
    assert isinstance(tier, AivenTier)
    for listed in tier.listing(key):
        address = address_of(key, listed)
        raw = tier.store.read(tier.names.object_key(address, Suffix.MANIFEST)).tobytes()
        stated = json.loads(raw)["remoteLogSegmentMetadata"]
        found = inspected(tier, key, listed).segment
        assert found is not None
        assert {
            "startOffset": found.start_offset,
            "endOffset": found.end_offset,
            "maxTimestampMs": found.max_timestamp_ms,
            "segmentLeaderEpochs": {str(e.epoch): e.start_offset for e in found.leader_epochs},
            "txnIdxEmpty": not found.has_transaction_index,
        }.items() <= stated.items()
        assert stated["remoteLogSegmentId"]["id"] == found.segment_id
        stored = found.stored_log_bytes, found.stored_indexes_bytes
        assert stored == (listed.part_bytes("log"), listed.part_bytes("indexes"))


def test_a_manifest_is_written_as_the_plugin_wrote_it(tier: RemoteTier, key: PartitionKey) -> None:
    """All but what the broker adds: its id, the time, and white space."""
    assert isinstance(tier, AivenTier)
    for listed in tier.listing(key):
        address = address_of(key, listed)
        raw = tier.store.read(tier.names.object_key(address, Suffix.MANIFEST)).tobytes()
        stated = json.loads(raw)["remoteLogSegmentMetadata"]
        segment = inspected(tier, key, listed).segment
        assert segment is not None
        manifest = read_manifest(raw, "here")
        again = write_manifest(manifest, address, segment, event_ms=stated["eventTimestampMs"])
        expected = raw.replace(b'"brokerId":1,', b'"brokerId":-1,')
        if isinstance(manifest.chunks, VariableChunks):
            expected, again = (_with_plain_sizes(data) for data in (expected, again))
        assert again == expected


def _with_plain_sizes(raw: bytes) -> bytes:
    """A manifest whose chunk sizes are not compressed: zstd's versions differ."""
    fields = json.loads(raw)
    index = fields["chunkIndex"]
    chunks = -(-index["originalFileSize"] // index["originalChunkSize"])
    index["transformedChunks"] = decoded_sizes(index["transformedChunks"], chunks).tolist()
    return json.dumps(fields, separators=(",", ":")).encode()
