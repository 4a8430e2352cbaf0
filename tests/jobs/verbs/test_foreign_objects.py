"""What may be another cluster's, in Aiven's layout: neither read nor deleted, and reported.

With the key prefix "" the topics of a cluster with the prefix "x-" are in the same folders.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.aiven import PLAIN
from tests.jobs.claims import catalog_of, own_id_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran, tierfold
from tests.jobs.tiers import NOW_MS, files_below, key_of, updated_tier
from tests.spread import most_in_soak
from tests.storage.emulators import s3, s3_client, s3_environment, uploaded
from tests.storage.new_ids import own_id
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.aiven.object_names import Suffix
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

ORDERS: Final = key_of("orders", 0)
DETACHED: Final = ("--set", "tier.binding=detached", "--json")
FIRST_MANIFEST: Final = re.compile(rf"tier/orders-.*/0{{20}}-.*\.{Suffix.MANIFEST}")
ANOTHER_ID: Final = "zzzzzzzzzzzzzzzzzzzzzw"
A_BROKERS_ID: Final = "xkx6IDUAQ0iGr3JsI9k8Fw"
Objects = dict[Suffix, bytes]
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def uploads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tier of LocalTieredStorage: one partition with three segments."""
    return updated_tier(tmp_path_factory.mktemp("local") / "tier", (ORDERS,), segments=3)


@pytest.fixture(scope="module")
def compacted(uploads: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compacted tier of Aiven's layout in a folder; its live range begins at offset 0."""
    tier = aiven_tier(uploads, tmp_path_factory.mktemp("compacted") / "tier", PLAIN.variant)
    found = tierfold("compact", tier, *ALWAYS, *DETACHED, CLOCK, str(NOW_MS))
    assert (found.code, found.entry["outcome"]) == (0, "compacted"), found
    return tier


@pytest.fixture
def tier(compacted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(compacted, tmp_path / "tier"))


def vacuum(tier: Path) -> Ran:
    """`vacuum` on a detached tier, 90 days later: everything is old."""
    return tierfold("vacuum", tier, *DETACHED, CLOCK, str(NOW_MS + 90 * 86_400_000))


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

NAMES: Final = [change.__name__ for change, _ in FOREIGN]


def changed(objects: Objects, change: Change) -> Objects:
    fields = json.loads(objects[Suffix.MANIFEST])
    change(fields)
    return objects | {Suffix.MANIFEST: json.dumps(fields).encode()}


INCOMPLETE: Final = (
    (Suffix.MANIFEST,),
    (Suffix.INDEXES, Suffix.MANIFEST),
    (Suffix.LOG, Suffix.MANIFEST),
)


LEFT_OVERS: Final = tuple(product(FOREIGN, INCOMPLETE, (A_BROKERS_ID, own_id())))


def id_of(left: tuple[tuple[Change, str], tuple[Suffix, ...], str]) -> str:
    (change, _), suffixes, segment_id = left
    who = "broker" if segment_id == A_BROKERS_ID else "tierfold"
    return "-".join((change.__name__, *suffixes, who))


@pytest.mark.parametrize("left", most_in_soak(LEFT_OVERS, 12), ids=id_of)
def test_what_is_left_of_a_foreign_segment_stays_and_is_reported(
    tier: Path, left: tuple[tuple[Change, str], tuple[Suffix, ...], str]
) -> None:
    (change, says), suffixes, segment_id = left
    planted(tier, segment_id, changed(of_a_segment(tier, segment_id), change), suffixes)
    before = named(tier, segment_id)
    assert len(before) == len(suffixes)
    status = tierfold("status", tier, "--json", "--segments").entry
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
    assert tierfold("status", tier, "--json", "--segments").entry["orphans"] == [A_BROKERS_ID]
    assert vacuum(tier).code == 0
    assert named(tier, A_BROKERS_ID) == {}


def unproved(tier: Path) -> set[str]:
    """Write what dead runs and brokers leave, none of which says whose it is; its names."""
    before = set(files_below(tier))
    ours, theirs = own_id_of(catalog_of(tier)), "B" * 21 + "A"
    objects = of_a_segment(tier, ours)
    planted(tier, ours, objects, [Suffix.LOG, Suffix.INDEXES])
    planted(tier, theirs, objects, [Suffix.INDEXES])
    (folder,) = {path.parent for path in tier.rglob("*.rsm-manifest")}
    for segment_id in (ours, A_BROKERS_ID):
        path = folder / f".{0:020d}-{segment_id}.log.0123.staged"
        path.write_bytes(b"half")
        os.utime(path, (NOW_MS / 1000, NOW_MS / 1000))
    return set(files_below(tier)) - before


@pytest.mark.parametrize(("change", "says"), FOREIGN, ids=NAMES)
def test_beside_a_foreign_segment_nothing_goes_that_does_not_say_whose_it_is(
    tier: Path, change: Change, says: str
) -> None:
    # One that is complete and below the live end: compaction goes on.
    names = unproved(tier)
    assert len(names) == 5
    planted(tier, A_BROKERS_ID, changed(of_a_segment(tier, A_BROKERS_ID), change), Suffix)
    assert tierfold("status", tier, "--json", "--segments").entry["orphans"] == []
    entry = vacuum(tier).entry
    assert entry["outcome"] == "vacuumed", "retired segments are named by the row"
    notes = "; ".join(entry["notes"])
    assert says in notes
    assert "2 unfinished uploads kept: a segment in the same folder may be another" in notes
    assert names <= set(files_below(tier))
    assert len(named(tier, A_BROKERS_ID)) == 4
    for path in tier.rglob(f"0*{A_BROKERS_ID}*"):
        path.unlink()
    vacuum(tier)
    assert not names & set(files_below(tier))


def test_a_hidden_file_is_ours_by_the_mark_in_its_id(tier: Path) -> None:
    unproved(tier)
    serving = ("--json", CLOCK, str(NOW_MS + 90 * 86_400_000))
    found = tierfold("vacuum", tier, *serving)
    assert found.code == 0, found
    (left,) = tier.rglob("*.staged")
    assert A_BROKERS_ID in left.name, "a broker may serve the tier"


@pytest.fixture
def shared(uploads: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of two clusters, with the prefixes "" and "x-", that both have a topic orders."""
    for name, value in s3_environment(s3()).items():
        monkeypatch.setenv(name, value)
    other = updated_tier(tmp_path / "other", (key_of("orders", 1),), segments=3)
    aiven_tier(uploads, tmp_path / "both", PLAIN.variant)
    aiven_tier(other, tmp_path / "both", replace(PLAIN.variant, key_prefix="x-"))
    return uploaded(tmp_path / "both", s3())


def keys_of(client: Any, bucket: str) -> dict[str, str]:
    """The objects of segments, and the unfinished uploads."""
    found = client.list_objects_v2(Bucket=bucket)["Contents"]
    objects = {one["Key"]: one["ETag"] for one in found if "_tierfold" not in one["Key"]}
    uploads = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return objects | {one["Key"]: one["UploadId"] for one in uploads}


@pytest.mark.parametrize("is_anonymous", [False, True])
def test_with_the_shorter_prefix_nothing_of_the_other_cluster_goes(
    shared: str, is_anonymous: bool
) -> None:
    client, bucket = s3_client(s3()), shared.removeprefix("s3://").partition("/")[0]
    theirs = [name for name in keys_of(client, bucket) if name.startswith("tier/x-")]
    folder = theirs[0].rpartition("/")[0]
    for segment_id in (own_id(), A_BROKERS_ID):
        name = f"{folder}/{0:020d}-{segment_id}.log"
        client.create_multipart_upload(Bucket=bucket, Key=name)
        client.put_object(Bucket=bucket, Key=name.replace(".log", ".indexes"), Body=b"half")
    for name in theirs if is_anonymous else ():
        if name.endswith(Suffix.MANIFEST):
            fields = json.loads(client.get_object(Bucket=bucket, Key=name)["Body"].read())
            anonymous(fields)
            client.put_object(Bucket=bucket, Key=name, Body=json.dumps(fields).encode())
    before = {
        name: tag for name, tag in keys_of(client, bucket).items() if name.startswith("tier/x-")
    }
    assert len(before) == len(theirs) + 4
    for verb in (("compact", shared, *ALWAYS), ("vacuum", shared, "--orphan-age", "0s")):
        found = tierfold(*verb, *DETACHED)
        outcomes = {entry["topic"]: entry["outcome"] for entry in found.entries}
        assert outcomes["x-orders"] == "refused"
        assert outcomes["orders"] in {"compacted", "nothing_to_do"}
    assert before.items() <= keys_of(client, bucket).items()


def test_unfinished_uploads_to_a_bucket_stay_beside_a_foreign_segment(shared: str) -> None:
    client, bucket = s3_client(s3()), shared.removeprefix("s3://").partition("/")[0]
    (source,) = [name for name in keys_of(client, bucket) if FIRST_MANIFEST.fullmatch(name)]
    folder = source.rpartition("/")[0]
    now = ("--orphan-age", "0s", "--topic", "orders")
    assert tierfold("compact", shared, *ALWAYS, *DETACHED, "--topic", "orders").code == 0
    foreign = f"{folder}/{0:020d}-{A_BROKERS_ID}.{Suffix.MANIFEST}"
    client.copy_object(Bucket=bucket, Key=foreign, CopySource={"Bucket": bucket, "Key": source})
    ours = own_id_of(Catalog(f"{shared}/{CATALOG_FOLDER}"))
    for segment_id in (ours, A_BROKERS_ID):
        name = f"{folder}/{0:020d}-{segment_id}.{Suffix.LOG}"
        client.create_multipart_upload(Bucket=bucket, Key=name)
    before = keys_of(client, bucket)
    notes = "; ".join(tierfold("vacuum", shared, *DETACHED, *now).entry["notes"])
    assert "2 unfinished uploads kept" in notes
    assert before.items() <= keys_of(client, bucket).items()
    client.delete_object(Bucket=bucket, Key=foreign)
    assert tierfold("vacuum", shared, *DETACHED, *now).code == 0
    assert client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
