"""The objects that a real broker wrote with the real plugin decode to what the broker had."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.storage.tiers.aiven_samples import KEY_FILE, SAMPLES, Sample, digest
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.storage.segments.segment_inspection import inspected
from tierfold.storage.tiers.aiven.aiven_tier import AivenTier
from tierfold.storage.tiers.aiven.chunk_index import VariableChunks, decoded_sizes
from tierfold.storage.tiers.aiven.manifest import read_manifest, write_manifest
from tierfold.storage.tiers.aiven.object_names import Suffix
from tierfold.storage.tiers.layout_options import KeyFile, LayoutOptions
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, address_of
from tierfold.storage.tiers.tier_uris import open_tier


@pytest.fixture(params=SAMPLES, ids=lambda sample: sample.name)
def sample(request: pytest.FixtureRequest) -> Sample:
    found: Sample = request.param
    return found


@pytest.fixture
def tier(sample: Sample) -> RemoteTier:
    key_files = (KeyFile(key_id="key-1", path=str(KEY_FILE)),) if sample.keys else ()
    options = LayoutOptions(key_prefix=sample.key_prefix, key_files=key_files)
    return open_tier(str(sample.bucket), layout_options=options)


@pytest.fixture
def key(tier: RemoteTier, sample: Sample) -> PartitionKey:
    (found,) = tier.partitions()
    assert (found.topic, found.partition) == (sample.name, 0)
    return found


def test_the_logs_are_those_that_were_on_the_brokers_disk(
    tier: RemoteTier, key: PartitionKey, sample: Sample
) -> None:
    logs = {
        one.start_offset: tier.read_part(address_of(key, one), Part.LOG)
        for one in tier.listing(key)
    }
    assert {start: digest(log.tobytes()) for start, log in logs.items()} == sample.log_digests()


def test_the_indexes_are_those_that_were_on_the_brokers_disk(
    tier: RemoteTier, key: PartitionKey, sample: Sample
) -> None:
    compared = 0
    for listed in tier.listing(key):
        for part in (Part.OFFSET_INDEX, Part.TIME_INDEX, Part.TRANSACTION_INDEX):
            path = sample.folder / "local" / f"{listed.start_offset:020d}.{part}"
            if path.exists():
                found = tier.read_part(address_of(key, listed), part)
                assert found.tobytes() == path.read_bytes()
                compared += 1
        end_offset = inspected(tier, key, listed).end_offset
        assert end_offset is not None
        # The snapshot is that of the next segment's start.
        path = sample.folder / "local" / f"{end_offset + 1:020d}.snapshot"
        if path.exists():
            found = tier.read_part(address_of(key, listed), Part.SNAPSHOT)
            assert found.tobytes() == path.read_bytes()
            compared += 1
    assert compared >= 4


def manifests(
    tier: RemoteTier, key: PartitionKey
) -> Iterator[tuple[ListedSegment, bytes, Segment]]:
    """Each segment: as it is listed, its manifest, and the metadata that are read of it."""
    assert isinstance(tier, AivenTier)
    for listed in tier.listing(key):
        name = tier.names.object_key(address_of(key, listed), Suffix.MANIFEST)
        segment = inspected(tier, key, listed).segment
        assert segment is not None
        yield listed, tier.store.read(name).tobytes(), segment


def test_the_metadata_are_those_of_the_manifests(tier: RemoteTier, key: PartitionKey) -> None:
    """The broker's own description, which is not read otherwise."""
    for listed, raw, found in manifests(tier, key):
        stated = json.loads(raw)["remoteLogSegmentMetadata"]
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
    for _, raw, segment in manifests(tier, key):
        event_ms = json.loads(raw)["remoteLogSegmentMetadata"]["eventTimestampMs"]
        manifest = read_manifest(raw, "here")
        again = write_manifest(manifest, address_of(key, segment), segment, event_ms=event_ms)
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
