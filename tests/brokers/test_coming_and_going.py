"""The procedures of docs/kafka.md, "Coming and going", carried out on a real broker."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from tests.brokers.altered_settings import alter, carry_out
from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_plan_beside_brokers import NO_MARGIN
from tests.brokers.test_status_of_brokers import tierfold, topic_of
from tests.brokers.test_third_send import Published
from tests.brokers.topics import CALL_S, Topic
from tests.jobs.commands import ALWAYS, ROOT
from tierfold.storage.tiers.service_notes import FOLDER

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("own_note")]


def commands_of(heading: str) -> list[str]:
    """The shell commands below a heading of the page, as it prints them."""
    page = (ROOT / "docs" / "kafka.md").read_text(encoding="utf-8")
    section = page.partition(f"### {heading}\n")[2].partition("\n### ")[0]
    blocks: list[str] = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def newest(topic: Topic) -> dict[bytes | None, bytes | None]:
    """What a reader from the start ends with; tombstones and their keys are left out."""
    values = {record.key: record.value for record in topic.read()}
    return {key: value for key, value in values.items() if value is not None}


def test_a_topic_that_brokers_compact_becomes_a_tiered_one(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "60000",
        "message.timestamp.before.max.ms": str(2**63 - 1),
        "min.cleanable.dirty.ratio": "0.0",
        "file.delete.delay.ms": "20",
    }
    new = NewTopic("compacted-by-brokers", 1, config=config, replica_assignment=[[1]])
    admin = kafka.admin()
    admin.create_topics([new])[new.topic].result(CALL_S)
    topic = Topic(kafka, new.topic)
    for number in range(4):
        topic.append([(b"a", b"%d" % number), (b"b", b"%d" % number), (b"c-%d" % number, b"1")])
    kafka.wait(lambda: len(topic.read()) < 12, "the brokers' own compaction")
    before = newest(topic)
    (command,) = commands_of("A topic that brokers compact becomes a tiered one")
    server = kafka.servers.partition(",")[0]
    command = command.replace("broker-1:9092", server).replace("orders", topic.name)
    carry_out(kafka, command)
    alter(kafka, topic.name, {"local.retention.ms": "1"})  # An hour would be long for a test.
    topic.wait_until_tiered()
    assert newest(topic) == before
    served = Published(kafka, tmp_path, topic)
    assert served.publish()["publishing"] == "published"
    assert newest(topic) == before


def test_what_tierfold_wrote_does_not_need_tierfold(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = topic_of(kafka, "left-behind")
    served = Published(kafka, tmp_path, topic)
    served.publish()
    assert served.clean("--publish", hours=2).code == 0
    assert served.is_clean()
    before, ours = newest(topic), served.row.live_ids
    shutil.rmtree(tmp_path / "catalog")
    shutil.rmtree(kafka.tier / FOLDER)
    kafka.restart(kafka.brokers[0])
    assert newest(topic) == before
    topic.append([(b"later", b"1")])
    topic.wait_until_tiered()
    assert newest(topic) == before | {b"later": b"1"}
    # It comes back,
    words = (f"{topic.name}-0", "--catalog", tmp_path / "catalog")
    ran = tierfold(kafka, "forget", kafka.tier, *words, "--json")
    assert ran.code == 0, ran
    assert ours <= served.row.live_ids
    topic.append([(b"later", b"2")])
    topic.wait_until_tiered()
    again = Published(kafka, tmp_path, topic)
    again.hours = served.hours
    assert again.publish()["publishing"] == "published"
    assert newest(topic) == before | {b"later": b"2"}
    # and brokers delete by retention what it wrote, as they do theirs.
    alter(kafka, topic.name, {"retention.ms": "1"})
    kafka.wait(lambda: topic.logs() == [], "brokers' retention")


def test_a_topic_that_is_left_out_is_served_on(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = topic_of(kafka, "left-out")
    served = Published(kafka, tmp_path, topic)
    served.publish()
    assert served.clean("--publish", hours=2).code == 0
    (config := tmp_path / "left_out.toml").write_text(
        f'[cluster]\npublish = true\n[topics."{topic.name}"]\npublish = false\n'
    )
    topic.append([(b"later", b"1")])
    topic.wait_until_tiered()
    row, before = served.row, newest(topic)
    more = (*ALWAYS, *NO_MARGIN, *served.clock, "--config", config)
    ran = tierfold(kafka, "compact", kafka.tier, *served._scope, *more, "--json")
    assert ran.code == 0, ran
    assert ran.entries[0]["outcome"] == "left", ran
    assert served.row == row
    assert newest(topic) == before
