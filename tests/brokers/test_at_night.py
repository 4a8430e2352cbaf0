"""docs/kafka.md, what leads out of trouble: its commands, typed as it prints them."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Final

import pytest

from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.cut_logs import CUT_AT, NEW_END, cut_log
from tests.brokers.kafka_page import commands_of, settings_of
from tests.brokers.nights import Night, compacted, records, uploaded
from tests.brokers.test_rebuild import truncate
from tests.brokers.test_whose_cluster import copied_as
from tests.brokers.topics import CALL_S, METADATA_TOPIC

pytestmark = [pytest.mark.soak, pytest.mark.jvm]

LOST: Final = "The metadata topic was lost"
STRANGE: Final = "S" * 21 + "Q"


def test_the_questions(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    night = compacted(own_kafka, tmp_path, "sales-asked")
    (tmp_path / "client.properties").write_text("client.id=tierfold\n")
    for command in commands_of("Brokers"):
        assert "orders-0" in night.runs(command)
    night.is_well()


def test_segments_that_brokers_never_had(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    night = compacted(own_kafka, tmp_path, "sales-strange")
    copied_as(night.topic.folder(), night.topic.logs()[-1].stem[21:], STRANGE)
    night.is_refused(f"--leave-alone {STRANGE}")
    (forget,) = commands_of("Segments that brokers never had")
    ran = night.types(re.sub(r"(?<=--leave-alone )\S+", STRANGE, forget))
    assert ran.code == 0, ran
    history, _, _ = commands_of("A run is undone")
    assert "consented" in night.types(history).stdout
    night.is_well()


def test_a_run_is_undone(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    night = uploaded(own_kafka, tmp_path, "sales-undone")
    before = night.topic.read()
    night.compact()
    assert night.topic.read() != before
    history, dry, restore = commands_of("A run is undone")
    *_, first = re.findall(r"(\S+Z) .* found ", night.types(history).stdout)
    for command in (dry, restore):
        ran = night.types(re.sub(r"(?<=--to )\S+", first, command))
        assert ran.code == 0, ran
    own_kafka.wait(lambda: night.topic.read() == before, "the state before the run")
    (out,) = settings_of("A run is undone")
    night.opts_in(out)
    night.compact()
    assert night.topic.read() == before
    night.is_well()


def test_a_lost_catalog(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    night = compacted(own_kafka, tmp_path, "sales-forgotten")
    before = night.topic.read()
    shutil.rmtree(catalog := own_kafka.tier / "_tierfold")
    night.is_refused("another catalog")
    dry, forget = commands_of("A lost catalog")
    assert night.types(dry).code == 0
    assert not catalog.exists()
    ran = night.types(forget)
    assert ran.code == 0, ran
    night.is_well()
    assert night.topic.read() == before


def test_a_tier_that_moved(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    night = compacted(own_kafka, tmp_path, "sales-moved")
    before = night.newest()
    (broker,) = own_kafka.brokers
    broker.stop()
    own_kafka.tier = Path(shutil.move(own_kafka.tier, tmp_path / "elsewhere"))
    broker.settings["rsm.config.dir"] = str(own_kafka.tier)
    own_kafka.restart(broker)
    assert night.newest() == before
    night.is_refused("tier.binding=moved")
    (vacuum,) = commands_of("A tier that moved")
    night.runs(vacuum)
    night.adds(9)
    night.compact("--set", "min.cleanable.dirty.ratio=0")
    night.is_well()
    assert night.newest() == before | dict(records(9))


def restarted(kafka: KafkaCluster) -> None:
    """Restart the broker, whether its topics can be read or not, and let its tasks run."""
    kafka.brokers[0].stop()
    kafka.broker(1)
    time.sleep(3)


def printed(output: str, program: str) -> str:
    """The command that was printed in a line of its own."""
    (line,) = re.findall(rf"^  ({program} .*)$", output, re.MULTILINE)
    return str(line)


def offsets(night: Night) -> list[int]:
    """What the last two commands of the page's section say: the local log start, the log start."""
    *_, local, earliest = commands_of(LOST)
    found = [night.types(command).stdout.strip() for command in (local, earliest)]
    return [int(text.removeprefix(f"{night.topic.name}:0:")) for text in found]


def test_copying_is_stopped_before_a_restart(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    night = compacted(own_kafka, tmp_path, "sales-stopped")
    before = night.topic.read()
    truncate(own_kafka)
    stop, _, rebuild, _, _ = commands_of(LOST)
    night.types(stop)
    restarted(own_kafka)
    assert offsets(night) == [400, 0]
    look = night.runs(rebuild)
    assert "Copying was stopped in time" in look
    publish, go_on = printed(look, "tierfold rebuild"), printed(look, "kafka-configs.sh")
    assert "--publish" in publish
    night.runs(publish)
    assert "orders-0: nothing to do" in night.runs(rebuild)
    night.types(re.sub(r"(?<=local\.retention\.ms=)\d+", "1", go_on))
    assert night.topic.read() == before
    restarted(own_kafka)
    assert night.topic.read() == before
    night.compact()  # What was replaced is listed for deletion again.
    night.is_well()


def test_the_topic_is_created_again(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    night = compacted(own_kafka, tmp_path, "sales-again")
    before = night.topic.read()
    admin = own_kafka.admin()
    admin.delete_topics([METADATA_TOPIC])[METADATA_TOPIC].result(CALL_S)
    own_kafka.wait(lambda: METADATA_TOPIC not in admin.list_topics(timeout=CALL_S).topics, "none")
    _, create, rebuild, _, _ = commands_of(LOST)
    create = create.replace("--partitions 50", f"--partitions {METADATA_PARTITIONS}")
    night.types(create.replace("--replication-factor 3", "--replication-factor 1"))
    look = night.runs(rebuild)
    assert "brokers go on from memory" in look
    assert "created again" in look
    night.runs(printed(look, "tierfold rebuild"))
    restarted(own_kafka)
    assert night.topic.read() == before
    assert "orders-0: nothing to do" in night.runs(rebuild)
    night.compact()
    night.is_well()


def test_an_unclean_election(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    with cut_log(own_kafka, "sales-cut") as log:
        night = Night(own_kafka, tmp_path, log.topic)
        original = night.topic.read()[:CUT_AT]
        # The first one is of both logs: behind it brokers keep what they list for deletion.
        night.compact("--set", "segment.bytes=700")
        assert len(log.topic.read()) < NEW_END - CUT_AT
        log.depose()
        log.elect()
        log.write_on()
        log.upload()
        night.topic = log.topic
        night.is_refused("tierfold forget")
        dry, forget = commands_of("Whether the log is still the same")
        for command in (dry, forget):
            ran = night.types(command)
            assert ran.code == 0, ran
        own_kafka.wait(lambda: night.topic.read()[:CUT_AT] == original, "the log before the cut")
        night.is_well()
