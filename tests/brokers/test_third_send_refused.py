"""`vacuum --publish` does nothing for a tier, cluster or catalog that may be the wrong one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AclOperation

from tests.brokers.access import PASSWORD, USER, Right, granted
from tests.brokers.cluster import KafkaCluster
from tests.brokers.published import send, swaps_of
from tests.brokers.test_remedies_on_a_broker import (
    BROKER_SETTINGS,
    METADATA_SETTINGS,
    READ_METADATA,
)
from tests.brokers.test_status_of_brokers import RECORDS, topic_of
from tests.brokers.test_third_send import Published
from tests.brokers.test_whose_cluster import ANOTHER, ids_in
from tests.brokers.topics import METADATA_TOPIC
from tests.jobs.commands import Ran
from tests.jobs.commands import tierfold as command

pytestmark = pytest.mark.usefixtures("own_note")

WRITE_METADATA: Final = Right(AclOperation.WRITE, METADATA_TOPIC)
LOGIN: Final = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    f' username="{USER}" password="{PASSWORD}";\n'
)


class Due(Published):
    """A topic whose uploads may go; its row names the cluster."""

    def vacuum_on(self, tier: Path, server: str, *more: str) -> Ran:
        words = (*self._scope, "--grace-period", "1h", *self.clock, *more, "--json")
        return command("vacuum", str(tier), *words, "--publish", "--bootstrap-server", server)

    def refuses(self, ran: Ran, *words: str) -> None:
        """Assert that nothing went, that nothing was sent, and why."""
        (entry,) = ran.entries
        assert entry["outcome"] in {"refused", "failed"}, entry
        assert all(word in entry["reason"] for word in words), entry["reason"]
        assert entry["events_sent"] == 0
        assert self.states()["DELETE_STARTED"] == 3


def due(kafka: KafkaCluster, folder: Path, name: str) -> Due:
    found = Due(kafka, folder, topic_of(kafka, name))
    found.publish()
    found.hours = 1.5
    return found


@pytest.mark.soak
def test_a_copy_of_the_tier_or_another_catalog(kafka: KafkaCluster, tmp_path: Path) -> None:
    served = due(kafka, tmp_path, "third-copied")
    before = ids_in(served.topic.folder())
    copy = tmp_path / "copy"
    shutil.copytree(kafka.tier, copy)
    ran = served.vacuum_on(copy, kafka.servers)
    served.refuses(ran, str(copy))
    assert ids_in(copy / "kafka-tiered-storage" / served.topic.folder().name) == before
    other = Due(kafka, tmp_path / "other", served.topic)
    other.hours = 1.5
    served.refuses(other.vacuum_on(kafka.tier, kafka.servers), "this catalog is none yet")
    assert ids_in(served.topic.folder()) == before
    assert served.clean("--publish").code == 0
    assert served.is_clean()


@pytest.mark.soak
def test_a_catalog_that_was_set_back(kafka: KafkaCluster, tmp_path: Path) -> None:
    served = due(kafka, tmp_path, "third-set-back")
    backup = shutil.copytree(tmp_path / "catalog", tmp_path / "backup")
    served.topic.append(RECORDS)
    served.topic.wait_until_tiered()
    served.publish()
    shutil.rmtree(tmp_path / "catalog")
    backup.rename(tmp_path / "catalog")
    before = ids_in(served.topic.folder())
    served.hours = 3
    (entry,) = served.clean("--publish").entries
    assert (entry["outcome"], entry["events_sent"]) == ("refused", 0), entry
    assert "set back" in entry["reason"]
    assert ids_in(served.topic.folder()) == before


@pytest.mark.soak
def test_a_row_of_another_cluster(kafka: KafkaCluster, tmp_path: Path) -> None:
    served = Due(kafka, tmp_path, topic_of(kafka, "third-two-clusters"))
    served.compact()
    for events in swaps_of(served.row):
        send(kafka, events)
    served.note(cluster_id=ANOTHER)
    served.hours = 1.5
    before = ids_in(served.topic.folder())
    served.refuses(served.vacuum_on(kafka.tier, kafka.servers), "the brokers given are those of")
    assert ids_in(served.topic.folder()) == before


@pytest.mark.soak
def test_a_right_that_is_missing(kafka: KafkaCluster, tmp_path: Path) -> None:
    served = due(kafka, tmp_path, "third-denied")
    before = ids_in(served.topic.folder())
    login = tmp_path / "login.properties"
    login.write_text(LOGIN)
    words = (kafka.servers_of("SASL"), "--command-config", str(login))
    asked = (READ_METADATA, METADATA_SETTINGS, BROKER_SETTINGS)
    describe = Right(AclOperation.DESCRIBE, served.topic.name)
    for rights, lacks in (
        ((*asked, WRITE_METADATA), "Describe"),
        ((*asked, describe), "Write"),
    ):
        with granted(kafka, *rights):
            served.refuses(served.vacuum_on(kafka.tier, *words), lacks)
        assert ids_in(served.topic.folder()) == before
        assert served.row.marked_ids == frozenset()
    with granted(kafka, *asked, WRITE_METADATA, describe):
        ran = served.vacuum_on(kafka.tier, *words)
    assert ran.code == 0, ran
    # What the topic's settings say was not asked.
    (note,) = ran.entries[0]["notes"]
    assert "no canary was read" in note
    assert "or DescribeConfigs on the topic is missing" in note
    assert served.is_clean()


@pytest.mark.soak
def test_without_the_right_to_read_a_person_has_to_do_without_a_canary(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Once no broker should have it locally: what consumers get then is not known."""
    served = due(kafka, tmp_path, "third-unread")
    served.hours = 5
    before = ids_in(served.topic.folder())
    login = tmp_path / "login.properties"
    login.write_text(LOGIN)
    words = (kafka.servers_of("SASL"), "--command-config", str(login))
    # With them it is known since when no broker has it locally.
    settings = Right(AclOperation.DESCRIBE_CONFIGS, served.topic.name)
    describe = Right(AclOperation.DESCRIBE, served.topic.name)
    asked = (READ_METADATA, METADATA_SETTINGS, BROKER_SETTINGS)
    with granted(kafka, *asked, WRITE_METADATA, describe, settings):
        served.refuses(
            served.vacuum_on(kafka.tier, *words), "the right Read on topic third-unread is missing"
        )
        assert ids_in(served.topic.folder()) == before
        assert served.row.marked_ids == frozenset()
        ran = served.vacuum_on(kafka.tier, *words, "--canary", "off")
    assert ran.code == 0, ran
    assert any("no canary was read" in note for note in ran.entries[0]["notes"])
    assert served.is_clean()
