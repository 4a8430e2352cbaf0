"""What may be another cluster's, in Aiven's layout: neither read nor deleted, and reported.

With the key prefix "" the topics of a cluster with the prefix "x-" are in the same folders.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.aiven import PLAIN
from tests.jobs.commands import ALWAYS, Ran, tierfold
from tests.jobs.tiers import NOW_MS, files_below, key_of, updated_tier
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.storage.kafka.kafka_uuid import new_segment_id
from tierfold.storage.tiers.aiven.object_names import Suffix

ORDERS: Final = key_of("orders", 0)
DETACHED: Final = ("--set", "tier.binding=detached", "--json")
ANOTHER_ID: Final = "zzzzzzzzzzzzzzzzzzzzzw"
A_BROKERS_ID: Final = "xkx6IDUAQ0iGr3JsI9k8Fw"
Objects = dict[Suffix, bytes]
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def uploads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tier of LocalTieredStorage: one partition with three segments."""
    return updated_tier(tmp_path_factory.mktemp("local") / "tier", (ORDERS,), segments=3)


@pytest.fixture
def tier(uploads: Path, tmp_path: Path) -> Path:
    """A compacted tier of Aiven's layout in a folder; its live range begins at offset 0."""
    tier = aiven_tier(uploads, tmp_path / "tier", PLAIN.variant)
    found = tierfold("compact", tier, *ALWAYS, *DETACHED, "--now", str(NOW_MS))
    assert (found.code, found.entry["outcome"]) == (0, "compacted"), found
    return tier


def vacuum(tier: Path) -> Ran:
    """`vacuum` on a detached tier, 90 days later: everything is old."""
    return tierfold("vacuum", tier, *DETACHED, "--now", str(NOW_MS + 90 * 86_400_000))


def of_a_segment(tier: Path, segment_id: str) -> Objects:
    """The objects of a segment that starts at offset 0, with that id in their manifest."""
    path = min(tier.rglob(f"{0:020d}-*.rsm-manifest"))
    fields = json.loads(path.read_text())
    fields["remoteLogSegmentMetadata"]["remoteLogSegmentId"]["id"] = segment_id
    objects = {suffix: path.with_suffix(f".{suffix}").read_bytes() for suffix in Suffix}
    return objects | {Suffix.MANIFEST: json.dumps(fields).encode()}


def planted(tier: Path, segment_id: str, objects: Objects, suffixes: Collection[Suffix]) -> None:
    """Write these of the objects as those of a segment of that id at offset 0, at `NOW_MS`."""
    (folder,) = {path.parent for path in tier.rglob("*.rsm-manifest")}
    for suffix in suffixes:
        path = folder / f"{0:020d}-{segment_id}.{suffix}"
        path.write_bytes(objects[suffix])
        os.utime(path, (NOW_MS / 1000, NOW_MS / 1000))


def named(tier: Path, segment_id: str) -> dict[str, str]:
    """The files whose name has that id."""
    return {name: text for name, text in files_below(tier).items() if segment_id in name}


def other_topic(fields: dict[str, Any]) -> None:
    of_segment = fields["remoteLogSegmentMetadata"]["remoteLogSegmentId"]
    of_segment["topicIdPartition"]["topicPartition"]["topic"] = "x-orders"


def other_partition(fields: dict[str, Any]) -> None:
    of_segment = fields["remoteLogSegmentMetadata"]["remoteLogSegmentId"]
    of_segment["topicIdPartition"]["topicPartition"]["partition"] = 7


def other_topic_id(fields: dict[str, Any]) -> None:
    of_segment = fields["remoteLogSegmentMetadata"]["remoteLogSegmentId"]
    of_segment["topicIdPartition"]["topicId"] = ANOTHER_ID


def other_segment(fields: dict[str, Any]) -> None:
    fields["remoteLogSegmentMetadata"]["remoteLogSegmentId"]["id"] = ANOTHER_ID


def anonymous(fields: dict[str, Any]) -> None:
    del fields["remoteLogSegmentMetadata"]


def unreadable(fields: dict[str, Any]) -> None:
    fields["version"] = "9"


FOREIGN: Final[tuple[tuple[Change, str], ...]] = (
    (other_topic, "its manifest names topic 'x-orders', and its key topic 'orders'"),
    (other_partition, "its manifest names partition 7, and its key partition 0"),
    (other_topic_id, "its manifest names topic id"),
    (other_segment, "its manifest names segment"),
    (anonymous, "does not say whose it is"),
    (unreadable, 'its version is "9"'),
)


def changed(objects: Objects, change: Change) -> Objects:
    fields = json.loads(objects[Suffix.MANIFEST])
    change(fields)
    return objects | {Suffix.MANIFEST: json.dumps(fields).encode()}


INCOMPLETE: Final = (
    (Suffix.MANIFEST,),
    (Suffix.INDEXES, Suffix.MANIFEST),
    (Suffix.LOG, Suffix.MANIFEST),
)


@pytest.mark.parametrize("suffixes", INCOMPLETE, ids="+".join)
@pytest.mark.parametrize(("change", "says"), FOREIGN, ids=[one.__name__ for one, _ in FOREIGN])
@pytest.mark.parametrize("segment_id", [A_BROKERS_ID, new_segment_id()], ids=["broker", "tierfold"])
def test_what_is_left_of_a_foreign_segment_stays_and_is_reported(
    tier: Path, segment_id: str, change: Change, says: str, suffixes: tuple[Suffix, ...]
) -> None:
    planted(tier, segment_id, changed(of_a_segment(tier, segment_id), change), suffixes)
    before = named(tier, segment_id)
    assert len(before) == len(suffixes)
    status = tierfold("status", tier, "--json").entry
    assert status["orphans"] == []
    for notes in (status["notes"], vacuum(tier).entry["notes"]):
        (note,) = [note for note in notes if segment_id in note]
        assert says in note
        assert "kept, not read" in note
    assert named(tier, segment_id) == before


@pytest.mark.parametrize("suffixes", INCOMPLETE[:2], ids="+".join)
def test_what_is_left_of_a_segment_of_this_partition_is_deleted(
    tier: Path, suffixes: tuple[Suffix, ...]
) -> None:
    planted(tier, A_BROKERS_ID, of_a_segment(tier, A_BROKERS_ID), suffixes)
    assert tierfold("status", tier, "--json").entry["orphans"] == [A_BROKERS_ID]
    assert vacuum(tier).code == 0
    assert named(tier, A_BROKERS_ID) == {}
