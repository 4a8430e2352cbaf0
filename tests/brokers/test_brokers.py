"""A real cluster tiers, restarts, changes leaders, deletes, and ends with the test run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.brokers.broker import BrokerFailed
from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.versions import NEWEST
from tests.jobs.commands import ROOT

MANAGER = "remote.log.metadata.manager.class.name"
STARTS_BROKER = """
import sys
from pathlib import Path
from tests.brokers.cluster import KafkaCluster
with KafkaCluster(Path(sys.argv[1]), sys.argv[2]) as kafka:
    print(kafka.brokers[0].pid, flush=True)
    sys.stdin.read()
"""


def events(kafka: KafkaCluster) -> int:
    """How many events of remote segments there are."""
    return sum(kafka.metadata.offsets(part)[1] for part in range(METADATA_PARTITIONS))


def test_a_topic_is_tiered_and_read_from_the_tier(kafka: KafkaCluster) -> None:
    before = events(kafka)
    topic = kafka.create("tiered", partitions=2)
    written = [[(b"key-%d" % n, b"%d of %d" % (n, turn)) for n in range(5)] for turn in range(4)]
    for records in written:
        topic.append(records, partition=1)
    topic.wait_until_tiered()
    starts = [int(path.name.partition("-")[0]) for path in topic.logs(1)]
    assert starts == [0, 5, 10, 15]
    assert topic.logs(0) == []
    kinds = {path.suffix for path in topic.folder(1).iterdir()}
    assert kinds == {".log", ".index", ".timeindex", ".snapshot", ".leader_epoch_checkpoint"}
    (local,) = (kafka.brokers[0].data / "tiered-1").glob("*.log")
    assert int(local.stem) == 20  # So the records below are read from the tier.
    flat = [record for records in written for record in records]
    assert [(record.key, record.value) for record in topic.read(partition=1)] == flat
    assert [record.offset for record in topic.read(7, partition=1)] == list(range(7, 20))
    assert events(kafka) - before == 2 * len(starts)


@pytest.mark.soak
def test_a_tier_is_read_after_a_restart(kafka: KafkaCluster) -> None:
    topic = kafka.create("restarted")
    for value in (b"1", b"2", b"3"):
        topic.append([(b"key", value)])
    topic.wait_until_tiered()
    old = kafka.brokers[0].pid
    kafka.restart(kafka.brokers[0])
    assert kafka.brokers[0].pid != old
    since = kafka.brokers[0].log.read_text().rpartition("Kafka Server started")[2]
    assert "Initialized for all the" in since  # It has read what its remote segments are.
    assert [record.value for record in topic.read()] == [b"1", b"2", b"3"]


def test_records_and_topics_are_deleted(kafka: KafkaCluster) -> None:
    topic = kafka.create("deleted")
    for value in (b"1", b"2", b"3"):
        topic.append([(b"key", value)] * 2)
    topic.wait_until_tiered()
    first, second, _ = topic.logs()
    topic.delete_records(3)
    kafka.wait(lambda: not first.exists(), "the first segment's deletion")
    assert second.exists()
    assert topic.offsets() == (3, 6)
    assert [record.offset for record in topic.read()] == [3, 4, 5]
    topic.delete()
    assert topic.logs() == []
    again = kafka.create("deleted")
    assert again.id != topic.id
    assert again.offsets() == (0, 0)


@pytest.mark.soak
def test_a_second_broker_takes_over(kafka: KafkaCluster) -> None:
    second = kafka.broker(2)
    topic = kafka.create("led", replicas=[1, 2])
    assert topic.leader() == 1
    topic.append([(b"key", b"1")])
    topic.append([(b"key", b"2")])
    topic.move_leader(2)
    topic.append([(b"key", b"3")])
    topic.append([(b"key", b"4")])
    topic.wait_until_tiered()
    servers = kafka.servers
    second.stop()
    assert servers.startswith(f"{kafka.servers},")
    kafka.wait(lambda: topic.leader() == 1, "the leader's change")
    topic.append([(b"key", b"5")])
    topic.wait_until_tiered()
    assert [record.value for record in topic.read()] == [b"1", b"2", b"3", b"4", b"5"]
    newest = topic.logs()[-1].with_suffix(".leader_epoch_checkpoint")
    assert len(newest.read_text().splitlines()) == 2 + 3  # A version, a count, three leaders.


@pytest.mark.jvm
@pytest.mark.parametrize("broker_version", [NEWEST])
@pytest.mark.soak
def test_an_error_shows_the_end_of_the_log(tmp_path: Path, broker_version: str) -> None:
    cluster = KafkaCluster(tmp_path, broker_version, settings={MANAGER: "an.unheard.Class"})
    cluster._id = "-" * 22  # One id in 64 begins like an option, and is one all the same.
    with pytest.raises(BrokerFailed, match=r"ended(?s:.*)an.unheard.Class") as failed, cluster:
        raise AssertionError("it runs")
    assert str(tmp_path / "broker-1" / "broker.log") in str(failed.value)


@pytest.mark.jvm
@pytest.mark.parametrize("broker_version", [NEWEST])
@pytest.mark.soak
def test_a_killed_test_run_leaves_no_broker(tmp_path: Path, broker_version: str) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", STARTS_BROKER, str(tmp_path), broker_version],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    status = Path(f"/proc/{pid}/status")
    assert re.search(r"Name:\s+java", status.read_text())
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    deadline = time.monotonic() + 10
    while status.exists() and "State:\tZ" not in status.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
