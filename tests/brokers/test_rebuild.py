"""The metadata topic is lost on a real broker: what `rebuild` says, sends, and refuses to send.

Each row is one of docs/kafka.md, "The metadata topic was lost", played to its end: the broker
restarts, and consumers read, or the objects that they no longer read are all there.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import NewTopic

from tests.brokers.altered_settings import alter, set_as_printed
from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.test_status_of_brokers import tierfold
from tests.brokers.topics import CALL_S, METADATA_TOPIC
from tests.faults.publishing_kills.forked_runs import ForkServer
from tests.faults.publishing_kills.publishing_instants import Instant
from tests.jobs.commands import ALWAYS, Ran, told

pytestmark = pytest.mark.soak

RECORDS: Final = [(b"key-%d" % (number % 60), b"value %d" % number) for number in range(200)]

_MORE: Final = {
    "plan": ALWAYS,
    "compact": (*ALWAYS, "--engine", "local", "--publish"),
    "vacuum": ("--publish",),
}
"""Arguments by verb."""


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A cluster of its own: the metadata topic is lost, again and again."""
    with KafkaCluster(tmp_path_factory.mktemp("lossy")) as kafka:
        yield kafka


class Partition:
    """A partition of one topic, and what consumers read of it before the loss."""

    def __init__(self, kafka: KafkaCluster, name: str, **settings: str) -> None:
        self.kafka = kafka
        self.topic = kafka.create(name, **settings)
        self.scope: tuple[str | Path, ...] = (kafka.tier, "--topic", name)
        for _ in range(4):
            self.topic.append(RECORDS)

    def verb(self, name: str, *arguments: str) -> Ran:
        return tierfold(self.kafka, name, *self.scope, *arguments, "--json")

    def compact(self) -> None:
        """Compact and publish what is tiered, all of it: versions do not matter here."""
        ran = self.verb("compact", *ALWAYS, "--engine", "local", "--publish", "--canary", "off")
        assert ran.code == 0, ran.document["reason"]
        assert ran.entries[0]["outcome"] in {"compacted", "published"}, ran

    def remember(self) -> None:
        self.read, self.objects = self.topic.read(), self.topic.logs()

    def assert_served(self) -> None:
        assert self.topic.read() == self.read
        assert self.topic.offsets()[0] == 0

    def assert_refused(self, verb: str) -> None:
        """The verb changes nothing: the metadata are lost."""
        ran = self.verb(verb, *_MORE.get(verb, ()))
        assert [one["code"] for one in ran.entries[0]["refusals"]] == ["metadata_lost"], ran

    def rebuild(self, *arguments: str) -> dict[str, Any]:
        (entry,) = self.verb("rebuild", *arguments).entries
        return entry


def compacted(kafka: KafkaCluster, name: str) -> Partition:
    """One whose four uploads are compacted to a segment, and published."""
    partition = Partition(kafka, name)
    partition.topic.wait_until_tiered()
    partition.compact()
    partition.remember()
    return partition


def truncate(kafka: KafkaCluster) -> None:
    """Let the metadata topic lose all that it says."""
    for number in range(METADATA_PARTITIONS):
        kafka.metadata.delete_records(kafka.metadata.offsets(number)[1], number)


def delete(kafka: KafkaCluster) -> None:
    """Delete the metadata topic."""
    admin = kafka.admin()
    admin.delete_topics([METADATA_TOPIC])[METADATA_TOPIC].result(CALL_S)
    kafka.wait(lambda: METADATA_TOPIC not in admin.list_topics(timeout=CALL_S).topics, "no topic")


def create(kafka: KafkaCluster, partitions: int = METADATA_PARTITIONS) -> None:
    """Create the metadata topic as brokers do."""
    config = {"retention.ms": "-1", "cleanup.policy": "delete"}
    again = NewTopic(METADATA_TOPIC, partitions, 1, config=config)
    admin = kafka.admin()
    admin.create_topics([again])[METADATA_TOPIC].result(CALL_S)


def create_again(kafka: KafkaCluster) -> None:
    """Delete the metadata topic and create it as brokers do."""
    delete(kafka)
    create(kafka)


def restart(kafka: KafkaCluster) -> None:
    """Restart the broker, whether its topics can be read or not, and let its tasks run."""
    (broker,) = kafka.brokers
    broker.stop()
    kafka.broker(1)
    time.sleep(3)


def events_in(kafka: KafkaCluster) -> list[int]:
    return [kafka.metadata.offsets(number)[1] for number in range(METADATA_PARTITIONS)]


def test_truncated_and_published_before_any_restart(lossy: KafkaCluster) -> None:
    partition = compacted(lossy, "in-time")
    truncate(lossy)
    before = events_in(lossy)
    (status,) = partition.verb("status").entries
    assert [one["code"] for one in status["refusals"]] == ["metadata_lost"]
    look = partition.rebuild()
    assert (look["outcome"], look["order"], look["is_served"]) == ("planned", "from_memory", True)
    assert events_in(lossy) == before
    done = partition.rebuild("--publish")
    assert (done["outcome"], done["events_sent"]) == ("published", look["events_planned"])
    assert partition.rebuild("--publish")["outcome"] == "nothing_to_do"
    partition.assert_served()
    restart(lossy)
    partition.assert_served()
    # All goes on: what was replaced is dropped, new data are compacted.
    partition.topic.append(RECORDS)
    partition.topic.wait_until_tiered()
    partition.compact()
    newest = {record.key: record.value for record in partition.topic.read()}
    assert newest == dict(RECORDS)
    assert partition.verb("vacuum", "--publish", "--canary", "off").code == 0
    (status,) = partition.verb("status", "--segments").entries
    assert (status["outcome"], status["brokers"]["open_step"]) == ("ok", None)
    assert not status["brokers"]["beside_catalog"]["not_served"]


def test_killed_before_all_is_named(lossy: KafkaCluster, tmp_path: Path) -> None:
    """Every other verb still refuses, and `rebuild` goes on."""
    partition = compacted(lossy, "killed")
    truncate(lossy)
    again = ("--publish", "--if-held", "take-over")
    rebuild = ("rebuild", *partition.scope, "--bootstrap-server", lossy.servers, *again)
    with ForkServer() as server:
        for name, at in (("first", "before look 1"), ("second", "after send 1")):
            before = events_in(lossy)
            run = server.started(tmp_path / name, *rebuild, at=Instant.parsed(at))
            assert run.ended().code == -signal.SIGKILL
            assert (events_in(lossy) == before) is (name == "first")
            for verb in ("plan", "compact", "vacuum", "status"):
                partition.assert_refused(verb)
            forget = tierfold(lossy, "forget", lossy.tier, "killed-0", "--json")
            assert [one["code"] for one in forget.entries[0]["refusals"]] == ["metadata_lost"]
        assert partition.rebuild(*again)["outcome"] == "published"
        # Lost once more: a consumer reads before the decision, and before each of the two batches.
        truncate(lossy)
        run = server.started(tmp_path / "third", *rebuild)
        assert run.ended().code == 0
        assert Instant("probe", 3, is_after=True) in run.passed
    restart(lossy)
    partition.assert_served()
    assert partition.verb("status").entries[0]["outcome"] == "ok"


def test_truncated_and_restarted(lossy: KafkaCluster, tmp_path: Path) -> None:
    partition = compacted(lossy, "too-late")
    truncate(lossy)
    restart(lossy)
    log_start, end = partition.topic.offsets()
    assert (log_start, end) == (800, 800)
    before = events_in(lossy)
    found = partition.rebuild("--publish")
    assert [one["code"] for one in found["refusals"]] == ["log_start_moved"]
    assert found["lost_offsets"] == [{"start_offset": 0, "end_offset": 799}]
    assert (events_in(lossy), partition.topic.logs()) == (before, partition.objects)
    # Somebody keeps the objects elsewhere, and goes on without them.
    for path in partition.topic.folder().iterdir():
        shutil.move(path, tmp_path)
    again = partition.rebuild("--publish")
    assert (again["outcome"], again["events_sent"]) == ("published", 0)
    partition.topic.append(RECORDS)
    partition.topic.wait_until_tiered()
    (status,) = partition.verb("status").entries
    assert (status["outcome"], partition.topic.offsets()) == ("ok", (800, 1000))
    assert {record.key: record.value for record in partition.topic.read()} == dict(RECORDS)


def test_truncated_and_restarted_with_copying_stopped(lossy: KafkaCluster) -> None:
    partition = compacted(lossy, "stopped")
    truncate(lossy)
    alter(lossy, "stopped", {"remote.log.copy.disable": "true", "local.retention.ms": "-2"})
    restart(lossy)
    look = partition.rebuild()
    assert (look["outcome"], look["order"]) == ("planned", "copying_stopped")
    assert (look["is_served"], look["is_copying"]) == (False, False)
    done = partition.rebuild("--publish")
    assert done["outcome"] == "published"
    (again,) = done["commands"]
    set_as_printed(lossy, again)
    partition.assert_served()
    restart(lossy)
    partition.assert_served()
    assert partition.topic.logs() == partition.objects


def test_half_of_it_is_local(lossy: KafkaCluster) -> None:
    """Without a row: the listing alone says what is there."""
    settings = {"local_retention_ms": "-2", "local_retention_bytes": "6000"}
    partition = Partition(lossy, "half", **settings)
    lossy.wait(lambda: len(partition.topic.logs()) == 3, "three uploads")
    time.sleep(2)  # Local retention.
    partition.remember()
    truncate(lossy)
    restart(lossy)
    log_start, end = partition.topic.offsets()
    assert 0 < log_start < end
    before = set(partition.objects)
    found = partition.rebuild("--publish")
    assert [one["code"] for one in found["refusals"]] == ["log_start_moved"]
    assert found["lost_offsets"] == [{"start_offset": 0, "end_offset": log_start - 1}]
    assert "on nothing is lost" in found["reason"]
    assert before <= set(partition.topic.logs())


def created_by(kafka: KafkaCluster, remedy: str) -> None:
    """Carry out the command that creates the metadata topic, for one replica."""
    (command,) = re.findall(r"`(kafka-topics\.sh [^`]*)`", remedy)
    program, *arguments = shlex.split(command.replace("-factor N", "-factor 1"))
    assert (program, *arguments[:2]) == ("kafka-topics.sh", "--bootstrap-server", kafka.servers)
    kafka.run_tool("org.apache.kafka.tools.TopicCommand", *arguments[2:])


def test_deleted_then_made_with_another_number_of_partitions(lossy: KafkaCluster) -> None:
    """Each verb says at once that it was deleted, and how it was; another number is refused."""
    partition = compacted(lossy, "deleted")
    delete(lossy)
    for verb in ("status", "plan", "compact", "vacuum", "rebuild"):
        ran = partition.verb(verb, *_MORE.get(verb, ()))
        assert (ran.code, ran.document["outcome"]) == (3, "unreadable"), ran
        missing = told(
            ran.stderr,
            "the catalog has noted one: it was deleted",
            "Do not restart a broker.",
            f"--partitions {METADATA_PARTITIONS} ",
        )
        assert not missing, ran.stderr
    create(lossy, partitions=METADATA_PARTITIONS + 2)
    for options in ((), ("--publish",)):
        found = partition.rebuild(*options)
        assert [one["code"] for one in found["refusals"]] == ["metadata_partitions"]
    assert not any(lossy.metadata.offsets(number)[1] for number in range(METADATA_PARTITIONS))
    delete(lossy)
    created_by(lossy, found["reason"])
    assert partition.rebuild("--publish")["outcome"] == "published"
    again = partition.rebuild()
    assert again["outcome"] == "nothing_to_do"
    assert "brokers that have not restarted since are to restart" in again["reason"]
    restart(lossy)
    partition.assert_served()


def test_created_again_and_restarted_after_publishing(lossy: KafkaCluster) -> None:
    """What brokers upload meanwhile they serve only after that restart."""
    partition = compacted(lossy, "created-again")
    create_again(lossy)
    partition.topic.append(RECORDS)
    partition.topic.wait_until_tiered()
    done = partition.rebuild("--publish")
    assert (done["outcome"], done["is_created_again"]) == ("published", True)
    restart(lossy)
    now = partition.topic.read()
    assert now[: len(partition.read)] == partition.read
    assert len(now) == len(partition.read) + len(RECORDS)
    partition.compact()
    assert {record.key: record.value for record in partition.topic.read()} == dict(RECORDS)
