"""The tier's folder layout is read and written as Kafka's `LocalTieredStorage` does."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.deleted_segments import delete_segment
from tests.storage.new_ids import new_address
from tests.storage.tiers.remote_tier_contract import KEY, TOPIC_ID
from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.local_tiered_storage import (
    NAMES,
    TIER_FOLDER,
    LocalTieredStorage,
    StagedFiles,
    part_key,
    partition_folder,
    partition_key,
)
from tierfold.storage.tiers.remote_tier import PARTS, Part, SegmentAddress
from tierfold.storage.tiers.tier_uris import open_tier

SEGMENT_ID = "_34H7UIIQwe_OC5C9U2L_w"
DASHED_ID = "b-rYALz1SVy5UuZo40Eebg"


@pytest.fixture
def tier(tmp_path: Path) -> LocalTieredStorage:
    (tmp_path / TIER_FOLDER).mkdir()
    return LocalTieredStorage(LocalStore(tmp_path))


def touch(tmp_path: Path, folder: str, *names: str) -> None:
    (tmp_path / TIER_FOLDER / folder).mkdir(parents=True, exist_ok=True)
    for name in names:
        (tmp_path / TIER_FOLDER / folder / name).write_bytes(name.encode())


@pytest.mark.parametrize(
    ("name", "topic", "partition", "topic_id"),
    [
        (f"tiered-0-{TOPIC_ID}", "tiered", 0, TOPIC_ID),
        (f"a-1-2-10-{DASHED_ID}", "a-1-2", 10, DASHED_ID),
        (f"_-_.-2147483647-{SEGMENT_ID}", "_-_.", 2147483647, SEGMENT_ID),
        (f"{'t' * 249}-3--{'A' * 21}", "t" * 249, 3, "-" + "A" * 21),
    ],
)
def test_a_partitions_folder_is_cut_by_length(
    name: str, topic: str, partition: int, topic_id: str
) -> None:
    key = PartitionKey(topic=topic, partition=partition, topic_id=topic_id)
    assert partition_key(name) == key
    assert partition_folder(key) == f"{TIER_FOLDER}/{name}"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "tiered-0",
        TOPIC_ID,
        f"-0-{TOPIC_ID}",
        f"0-{TOPIC_ID}",
        f"tiered-{TOPIC_ID}",
        f"tiered-00-{TOPIC_ID}",
        f"tiered-x-{TOPIC_ID}",
        f"tiered-2147483648-{TOPIC_ID}",
        f"tiered-0_{TOPIC_ID}",
        f"tiered-0-{TOPIC_ID[:-1]}",
        f"tiered-0-{TOPIC_ID[:-1]}+",
        f".-0-{TOPIC_ID}",
        f"..-0-{TOPIC_ID}",
        f"sp ace-0-{TOPIC_ID}",
        f"{'t' * 250}-0-{TOPIC_ID}",
        f"tiered-0-{TOPIC_ID}.deleted",
        f"../b-0-{TOPIC_ID}",
        f"a/../b-0-{TOPIC_ID}",
        f"..-1-0-{TOPIC_ID}/x",
        f"tiered\n-0-{TOPIC_ID}",
        f"tiered-0-{TOPIC_ID}\n",
        f"tiered-0\n-{TOPIC_ID}",
        f"tiered-0-{TOPIC_ID[:-1]}\n",
        f"\x1b[2J-0-{TOPIC_ID}",
        f"t\N{CYRILLIC SMALL LETTER IE}red-0-{TOPIC_ID}",
        f"tiered-\N{ARABIC-INDIC DIGIT THREE}-{TOPIC_ID}",
        f"tiered\N{FULLWIDTH HYPHEN-MINUS}0-{TOPIC_ID}",
        f"tiered-0-{TOPIC_ID[:-1]}\N{FULLWIDTH LATIN SMALL LETTER W}",
        f"no utf-8 \udcff-0-{TOPIC_ID}",
    ],
)
def test_other_folder_names_are_no_partitions(name: str) -> None:
    assert partition_key(name) is None


@given(
    topic=st.text("aZ09._-", min_size=1, max_size=20).filter(lambda text: text not in {".", ".."}),
    partition=st.integers(0, 2**31 - 1),
)
def test_every_partition_has_a_folder_of_its_own(topic: str, partition: int) -> None:
    key = PartitionKey(topic=topic, partition=partition, topic_id=new_kafka_uuid())
    assert partition_key(partition_folder(key).removeprefix(f"{TIER_FOLDER}/")) == key


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("segment_id", [SEGMENT_ID, DASHED_ID, "-" + "A" * 21])
def test_an_objects_name_is_cut_by_length(
    part: Part, segment_id: str
) -> None:
    key = part_key(SegmentAddress(KEY, segment_id, 4437), part)
    assert key == f"{partition_folder(KEY)}/00000000000000004437-{segment_id}.{part}"
    assert NAMES.parse(key.rpartition("/")[2]) == (4437, segment_id, part)


@pytest.mark.parametrize(
    "name",
    [
        "",
        f"00000000000000004437-{SEGMENT_ID}",
        f"00000000000000004437-{SEGMENT_ID}.tmp",
        f"00000000000000004437-{SEGMENT_ID}.log.tmp",
        f"00000000000000004437_{SEGMENT_ID}.log",
        f"0000000000000004437-{SEGMENT_ID}.log",
        f"0000000000000000443x-{SEGMENT_ID}.log",
        f"00000000000000004437-{SEGMENT_ID[:-1]}.log",
        "00000000000000004437.log",
        f"99999999999999999999-{SEGMENT_ID}.log",  # No offset: it takes more than 63 bits.
        f"{2**63:020d}-{SEGMENT_ID}.log",
        f"0000000000000000443\N{ARABIC-INDIC DIGIT SEVEN}-{SEGMENT_ID}.log",
        f"00000000000000004437-{SEGMENT_ID}.log\n",
        f"00000000000000004437-{SEGMENT_ID[:-1]}\n.log",
        f"00000000000000004437-{'../' * 7}A.log",
        f"00000000000000004437-{SEGMENT_ID}.LOG",
    ],
)
def test_other_file_names_are_no_parts(name: str) -> None:
    assert NAMES.parse(name) is None


def test_the_largest_offset_names_a_segment() -> None:
    name = f"{2**63 - 1:020d}-{SEGMENT_ID}.log"
    assert NAMES.parse(name) == (2**63 - 1, SEGMENT_ID, Part.LOG)


def test_partitions_are_sorted_and_other_entries_are_none(
    tier: LocalTieredStorage, tmp_path: Path
) -> None:
    for name in (f"b-10-{TOPIC_ID}", f"b-9-{TOPIC_ID}", f"a-0-{TOPIC_ID}", "lost+found"):
        touch(tmp_path, name)
    (tmp_path / TIER_FOLDER / "notes.txt").write_text("x")
    (tmp_path / "_tierfold").mkdir()
    assert [str(key) for key in tier.partitions()] == ["a-0", "b-9", "b-10"]


def test_a_listing_gathers_each_segments_parts(tier: LocalTieredStorage, tmp_path: Path) -> None:
    first = f"{0:020d}-{DASHED_ID}"
    touch(
        tmp_path,
        f"orders-7-{TOPIC_ID}",
        *(f"{first}.{part}" for part in PARTS),
        f"{99:020d}-{SEGMENT_ID}.log",
        "readme",
    )
    complete, partial = tier.listing(KEY)
    assert (complete.segment_id, complete.start_offset) == (DASHED_ID, 0)
    assert complete.is_complete
    assert complete.parts == tuple(sorted((str(part), len(f"{first}.{part}")) for part in PARTS))
    assert (partial.segment_id, partial.start_offset) == (SEGMENT_ID, 99)
    assert partial.missing_parts == ("index", "timeindex", "snapshot", "leader_epoch_checkpoint")


@pytest.mark.parametrize("newest", PARTS)
def test_a_segments_time_is_that_of_its_newest_part(
    tier: LocalTieredStorage, tmp_path: Path, newest: Part
) -> None:
    names = {part: f"{0:020d}-{SEGMENT_ID}.{part}" for part in PARTS}
    touch(tmp_path, f"orders-7-{TOPIC_ID}", *names.values())
    for part, name in names.items():
        written_s = 2000 if part is newest else 1000
        os.utime(tmp_path / TIER_FOLDER / f"orders-7-{TOPIC_ID}" / name, (written_s, written_s))
    (listed,) = tier.listing(KEY)
    assert listed.modified_ms == 2_000_000


def test_the_name_of_a_part_is_its_path(tier: LocalTieredStorage) -> None:
    staged = tier.new_segment(new_address(KEY, 42))
    with staged.open_log() as log:
        log.write(b"batches")
    assert Path(tier.uri(staged.address, Part.LOG)).read_bytes() == b"batches"


@pytest.mark.parametrize(
    ("key", "segment_id"),
    [
        (replace(KEY, topic="../x"), SEGMENT_ID),
        (replace(KEY, topic="a/b"), SEGMENT_ID),
        (replace(KEY, topic_id="../../y"), SEGMENT_ID),
        (KEY, "../../y"),
        (KEY, "/"),
        (KEY, f"x/../{SEGMENT_ID}"),
    ],
)
def test_no_name_in_the_catalog_leads_out_of_the_partitions_folder(
    tier: LocalTieredStorage, key: PartitionKey, segment_id: str, tmp_path: Path
) -> None:
    (tmp_path / TIER_FOLDER / "y.log").write_bytes(b"another's")
    address = SegmentAddress(key, segment_id, 0)
    staged = StagedFiles(tier, address)
    with pytest.raises(UnreadableObject, match="the name leaves the"):
        tier.read_part(address, Part.LOG)
    with pytest.raises(UnreadableObject, match="the name leaves the"):
        staged.put(Part.LOG, b"x")
    with pytest.raises(UnreadableObject, match="the name leaves the"), staged.open_log():
        pass
    if key != KEY:
        with pytest.raises(UnreadableObject, match="the name leaves the tier"):
            tier.listing(key)
    assert [path.name for path in tmp_path.rglob("*")] == [TIER_FOLDER, "y.log"]


def test_an_operators_link_is_followed(
    tier: LocalTieredStorage, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("another disk")
    name = partition_folder(KEY).rpartition("/")[2]
    (tmp_path / TIER_FOLDER / name).symlink_to(elsewhere)
    (elsewhere / f"{0:020d}-{SEGMENT_ID}.log").write_bytes(b"batches")
    assert tier.partitions() == (KEY,)
    assert [listed.segment_id for listed in tier.listing(KEY)] == [SEGMENT_ID]
    assert tier.read_part(SegmentAddress(KEY, SEGMENT_ID, 0), Part.LOG).tobytes() == b"batches"
    with pytest.raises(UnreadableObject, match="symbolic link"):
        delete_segment(tier, SegmentAddress(KEY, SEGMENT_ID, 0))
    assert [path.read_bytes() for path in elsewhere.iterdir()] == [b"batches"]


def test_a_path_or_a_file_uri_names_a_tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my tier"
    (folder / TIER_FOLDER).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    quoted = str(folder).replace(" ", "%20")
    for text in (str(folder), "my tier", f"file://{quoted}", f"FILE://localhost{quoted}"):
        assert open_tier(text) == LocalTieredStorage(LocalStore(folder))


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        ([], "nor any other folder."),
        (["a", "b"], "but a, b."),
        (list("abcdefg"), "but a, b, c, d, e, …."),
    ],
)
def test_a_folder_without_a_tier_is_refused_with_its_content(
    tmp_path: Path, inside: list[str], message: str
) -> None:
    for name in inside:
        (tmp_path / name).mkdir()
    (tmp_path / "a file").touch()
    with pytest.raises(BadSettings) as caught:
        open_tier(str(tmp_path))
    assert "there is no folder kafka-tiered-storage in it" in str(caught.value)
    assert message in str(caught.value)
    assert "the brokers' key.prefix with --key-prefix" in str(caught.value)


def test_a_tier_that_disappears_does_not_look_empty(
    tier: LocalTieredStorage, tmp_path: Path
) -> None:
    (tmp_path / TIER_FOLDER).rmdir()
    with pytest.raises(BadSettings, match="there is no folder kafka-tiered-storage") as caught:
        tier.partitions()
    assert caught.value.where == str(tmp_path)
