"""`upload` of a real broker's log directory: what the broker itself would upload, byte by byte."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import tierfold
from tests.brokers.cluster import KafkaCluster
from tests.brokers.filled_topic import Filling, create_filled
from tests.brokers.topics import Record, Topic
from tests.jobs.commands import tierfold as command
from tests.jobs.tiers import records_in
from tests.storage.emulators import IDENTITY, new_bucket, versitygw_server
from tierfold.storage.log_dirs.offset_checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER

TURNS = 100


def objects(folder: Path) -> dict[tuple[int, str], bytes]:
    """The objects of a partition, by start offset and suffix; ids differ."""
    return {
        (int(file.name.partition("-")[0]), file.suffix): file.read_bytes()
        for file in folder.iterdir()
    }


def test_the_same_bytes_as_the_broker_uploads(kafka: KafkaCluster, tmp_path: Path) -> None:
    filling = Filling(seed=60, records=1_200)
    topic = create_filled(kafka, "uploaded", filling, local_retention_ms="-2")
    data = kafka.brokers[0].data

    def are_copied() -> bool:
        rolled = sorted(int(file.stem) for file in (data / "uploaded-0").glob("*.log"))[:-1]
        last = {file.name[:20] for file in topic.folder().glob("*.leader_epoch_checkpoint")}
        return len(rolled) > 1 and {f"{start:020d}" for start in rolled} == last

    kafka.wait(are_copied, "the copy of all rolled segments")
    # What the broker still has, and shows to be what it uploaded, is not read from the tier.
    tier = topic.folder().parents[1]
    (sound,) = tierfold.verify(tier, topics=["uploaded"], engine="local", log_dirs=data).partitions
    assert (sound.outcome, sound.segments_near) == ("sound", sound.segments)
    by_broker = objects(topic.folder())
    # A tiered topic is refused, so this is a copy without what shows that it is one.
    (logs := tmp_path / "data").mkdir()
    shutil.copy(data / "meta.properties", logs)
    shutil.copytree(data / "uploaded-0", logs / "uploaded-0")
    _, end = topic.offsets()
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        (logs / name).write_text(f"0\n1\nuploaded 0 {end}\n")
    (tier := tmp_path / "tier").mkdir()
    (found,) = tierfold.upload(logs, tier).partitions
    assert found.outcome == "uploaded"
    uploaded = objects(tier / TIER_FOLDER / topic.folder().name)
    assert uploaded.keys() == by_broker.keys()
    assert ".txnindex" in {suffix for _, suffix in uploaded}
    assert [name for name in uploaded if uploaded[name] != by_broker[name]] == []


@pytest.fixture(scope="module")
def cleaning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker that cleans and writes its checkpoints all the time."""
    settings = {
        "log.cleaner.backoff.ms": "100",
        "log.flush.offset.checkpoint.interval.ms": "200",
        "replica.high.watermark.checkpoint.interval.ms": "200",
    }
    folder = tmp_path_factory.mktemp("cleaning")
    with KafkaCluster(folder, settings=settings) as running:
        yield running


@pytest.fixture(params=["folder", "bucket"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Path]:
    """A new tier: its address, and the folder in which its objects are files."""
    if request.param == "folder":
        (tier := tmp_path / "tier").mkdir()
        return str(tier), tier
    server = versitygw_server()
    for name, value in (*IDENTITY.items(), ("AWS_ENDPOINT_URL", server.endpoint)):
        monkeypatch.setenv(name, value)
    bucket = new_bucket(server.endpoint)
    return f"s3://{bucket}/tier", server.folder / bucket / "tier"


def latest(records: Iterable[Record], below: int) -> dict[bytes | None, bytes | None]:
    """The value of each key's newest record, of keys without one from `below` on."""
    newest = {one.key: one for one in records}
    return {key: one.value for key, one in newest.items() if one.offset < below}


@pytest.mark.soak
def test_a_hundred_uploads_beside_a_broker_that_writes_rolls_and_cleans(
    cleaning: KafkaCluster, place: tuple[str, Path]
) -> None:
    tier, folder = place
    name = "busy-in-bucket" if tier.startswith("s3:") else "busy"
    topic = cleaning.create(
        name,
        remote_storage_enable="false",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
        segment_bytes=str(1 << 20),
    )
    stopping = threading.Event()
    writer = threading.Thread(target=write, args=(topic, stopping))
    writer.start()
    data = cleaning.brokers[0].data
    cleaning.wait((data / f"{name}-0" / "partition.metadata").exists, "the partition's folder")
    outcomes = []
    try:
        for turn in range(TURNS):
            (found,) = tierfold.upload(data, tier, topics=[name]).partitions
            outcomes.append(found.outcome)
            assert found.outcome in {"uploaded", "nothing_to_do", "left"}, (turn, found.reason)
            if turn % 10 == 9:
                # Every other time as far as possible by what the broker has, which it cleans.
                near = [data] if turn % 20 == 9 else []
                (sound,) = tierfold.verify(tier, engine="local", log_dirs=near).partitions
                assert sound.outcome in {"sound", "ok", "nothing_to_do"}, sound.reason
    finally:
        stopping.set()
        writer.join()
    assert outcomes.count("uploaded") > 10
    time.sleep(1)  # The checkpoints follow.
    tierfold.upload(data, tier, topics=[name])
    # A consumer that reads to the end has, of each key, what the tier has.
    segments = command("status", tier, "--json", "--segments").partitions[name, 0]["segments"]
    logs = [str(folder / one["log"].removeprefix(f"{tier}/")) for one in segments]
    uploaded = sorted(records_in(logs))
    found = {key: value for _, key, value in uploaded}
    wanted = latest(topic.read(), segments[-1]["end_offset"] + 1)
    assert {key: found[key] for key in wanted} == wanted
    assert len(wanted) > 1_000


def write(topic: Topic, stopping: threading.Event) -> None:
    """Write values of 2 kB for 2,000 keys, an hour apart, so that each call rolls a segment."""
    written = 0
    while not stopping.is_set():
        numbers = range(written, written + 300)
        topic.append([(b"k%d" % (n % 2_000), b"%d " % n + bytes(2000)) for n in numbers])
        written += 300
