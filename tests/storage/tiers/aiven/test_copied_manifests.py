"""The manifest of a copy is its source's with another id, on tiers that brokers wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.storage.deleted_segments import delete_segment
from tests.storage.new_ids import own_id
from tests.storage.tiers.aiven_samples import ENCRYPTED, KEY_FILE, SAMPLES, Sample
from tests.storage.tiers.aiven_tiers import segments_in
from tests.storage.tiers.remote_tier_contract import described
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.ownership import OF_PARTITION
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.storage.tiers.aiven.aiven_tier import AivenTier
from tierfold.storage.tiers.layout_options import KeyFile, Layout, LayoutOptions
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.remote_tier import Part, address_of

METADATA: Final = "remoteLogSegmentMetadata"


def opened(folder: Path, sample: Sample, *, has_key: bool = True) -> AivenTier:
    keys = (KeyFile(key_id="key-1", path=str(KEY_FILE)),) if sample.keys and has_key else ()
    return AivenTier(
        LocalStore(folder),
        LayoutOptions(layout=Layout.AIVEN, key_prefix=sample.key_prefix, key_files=keys),
    )


def copied_tier(tmp_path: Path, sample: Sample) -> tuple[Path, AivenTier]:
    folder = Path(shutil.copytree(sample.bucket, tmp_path / "tier"))
    return folder, opened(folder, sample)


def first(tier: AivenTier) -> tuple[PartitionKey, ListedSegment]:
    key = tier.partitions()[0]
    return key, next(one for one in tier.listing(key) if one.is_complete)


def as_copy(key: PartitionKey, listed: ListedSegment) -> Segment:
    return replace(described(address_of(key, listed)), segment_id=own_id())


def manifest(folder: Path, segment_id: str) -> dict[str, Any]:
    (path,) = folder.rglob(f"*{segment_id}.rsm-manifest")
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_only_the_id_and_the_writer_differ(tmp_path: Path, sample: Sample) -> None:
    folder, tier = copied_tier(tmp_path, sample)
    key, listed = first(tier)
    copy = tier.copy_segment(key, listed, as_copy(key, listed))
    source, found = (manifest(folder, one.segment_id) for one in (listed, copy))
    assert list(found) == list(source)
    assert list(found[METADATA]) == list(source[METADATA])
    expected = json.loads(json.dumps(source))
    expected[METADATA]["remoteLogSegmentId"]["id"] = copy.segment_id
    expected[METADATA]["brokerId"] = -1
    assert found[METADATA]["eventTimestampMs"] > source[METADATA]["eventTimestampMs"]
    expected[METADATA]["eventTimestampMs"] = found[METADATA]["eventTimestampMs"]
    assert found == expected
    for suffix in ("log", "indexes"):
        (old,), (new,) = (
            folder.rglob(f"*{one.segment_id}.{suffix}") for one in (listed, copy)
        )
        assert new.read_bytes() == old.read_bytes()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_another_reader_finds_the_same_parts_in_the_copy(tmp_path: Path, sample: Sample) -> None:
    folder, tier = copied_tier(tmp_path, sample)
    key, listed = first(tier)
    copy = tier.copy_segment(key, listed, as_copy(key, listed))
    delete_segment(tier, address_of(key, listed))
    found = {one.segment_id: one for one in segments_in(folder, sample.key_prefix, sample.keys)}
    before = {one.segment_id: one for one in sample.segments()}[listed.segment_id]
    assert found[copy.segment_id] == replace(before, segment_id=copy.segment_id)
    again = opened(folder, sample)
    for part in Part:
        if part in before.parts:
            data = again.read_part(address_of(key, copy), part).tobytes()
            assert data == before.parts[part]


def test_no_private_key_is_needed_to_copy(tmp_path: Path) -> None:
    folder, _ = copied_tier(tmp_path, ENCRYPTED)
    tier = opened(folder, ENCRYPTED, has_key=False)
    key, listed = first(tier)
    copy = tier.copy_segment(key, listed, as_copy(key, listed))
    found = opened(folder, ENCRYPTED)
    logs = [found.read_part(address_of(key, one), Part.LOG).tobytes() for one in (listed, copy)]
    assert logs[0] == logs[1]


def changed(folder: Path, segment_id: str, change: Callable[[dict[str, Any]], object]) -> None:
    (path,) = folder.rglob(f"*{segment_id}.rsm-manifest")
    fields = json.loads(path.read_bytes())
    change(fields)
    path.write_text(json.dumps(fields))


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.pop(METADATA),
        lambda fields: fields.update({METADATA: None}),
        lambda fields: fields.update({METADATA: "text"}),
        lambda fields: fields[METADATA].pop("startOffset"),
        lambda fields: fields[METADATA].pop("remoteLogSegmentId"),
    ],
)
def test_a_copy_says_whose_it_is_also_where_its_source_does_not(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    folder, tier = copied_tier(tmp_path, ENCRYPTED)
    key, listed = first(tier)
    changed(folder, listed.segment_id, change)
    new = as_copy(key, listed)
    new = replace(new, start_offset=new.start_offset + 2, skipped_offsets=2)
    copy = tier.copy_segment(key, listed, new)
    (found,) = [one for one in tier.listing(key) if one.segment_id == copy.segment_id]
    assert tier.ownership(key, found) == OF_PARTITION
    assert manifest(folder, copy.segment_id)[METADATA]["startOffset"] == listed.start_offset


def test_what_is_another_segments_is_not_copied(tmp_path: Path) -> None:
    folder, tier = copied_tier(tmp_path, ENCRYPTED)
    key, listed = first(tier)
    other = own_id()
    changed(
        folder,
        listed.segment_id,
        lambda fields: fields[METADATA]["remoteLogSegmentId"].update(id=other),
    )
    copy = as_copy(key, listed)
    with pytest.raises(UnreadableObject, match=f"its manifest names segment '{other}'"):
        tier.copy_segment(key, listed, copy)
    assert not list(folder.rglob(f"*{copy.segment_id}.rsm-manifest"))


def test_a_manifest_that_contradicts_the_objects_is_not_copied(tmp_path: Path) -> None:
    folder, tier = copied_tier(tmp_path, SAMPLES[0])
    key, listed = first(tier)

    def longer(fields: dict[str, Any]) -> None:
        index = fields["chunkIndex"]
        index["originalFileSize"] += 1
        index["finalTransformedChunkSize"] += 1

    changed(folder, listed.segment_id, longer)
    copy = as_copy(key, listed)
    with pytest.raises(CorruptLog, match="its manifest says"):
        tier.copy_segment(key, listed, copy)
    assert not list(folder.rglob(f"*{copy.segment_id}.rsm-manifest"))
