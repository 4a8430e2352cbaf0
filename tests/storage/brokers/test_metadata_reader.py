"""The metadata topic is read exactly to its end, as brokers read it, or not at all."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.topics import Topic
from tests.storage.brokers.secured import client
from tierfold.compaction.brokers.cluster_configs import ConfigSource, ConfigValue
from tierfold.compaction.brokers.metadata_fold import MetadataRecord
from tierfold.compaction.model.errors import BadSettings, CorruptLog, UnreadableObject
from tierfold.storage.brokers import metadata_reader
from tierfold.storage.brokers.cluster_setup import check_manager, cluster_setup
from tierfold.storage.brokers.connection import Connection, connected
from tierfold.storage.brokers.facts import (
    PartitionOffsets,
    broker_configs,
    partition_offsets,
    topic_configs,
    topic_facts,
)
from tierfold.storage.brokers.metadata_reader import metadata_starts, read_metadata

pytestmark = pytest.mark.jvm

ALL = dict.fromkeys(range(METADATA_PARTITIONS), 0)
MANAGER = "remote.log.metadata.manager.class.name"
TIMEOUT = {"request.timeout.ms": "5000"}


def all_of(connection: Connection, first: dict[int, int]) -> list[MetadataRecord]:
    return [record for chunk in read_metadata(connection, first) for record in chunk]


def test_each_record_is_read_once_and_the_next_reading_goes_on(kafka: KafkaCluster) -> None:
    topic = kafka.create("read", partitions=7)
    for value in (b"1", b"2", b"3"):
        for partition in range(7):
            topic.append([(b"key", value)], partition)
    topic.wait_until_tiered()
    counts_seen: list[tuple[int, int]] = []
    with connected(client(kafka.servers, TIMEOUT)) as connection:
        found = [
            record
            for chunk in read_metadata(connection, ALL, lambda *counts: counts_seen.append(counts))
            for record in chunk
        ]
        assert counts_seen[-1] == (len(found), len(found))
        for number in ALL:
            records = kafka.metadata.read(0, number)
            ours = [record for record in found if record.metadata_partition == number]
            assert [(one.offset, one.key, one.value) for one in ours] == records
            assert all(record.timestamp_ms > 1_700_000_000_000 for record in ours)
        assert len({record.metadata_partition for record in found}) > 1
        nexts = ALL | {record.metadata_partition: record.offset + 1 for record in found}
        assert all_of(connection, nexts) == []
        number, *_ = (number for number in nexts if nexts[number] > 2)
        rest = all_of(connection, nexts | {number: nexts[number] - 2})
        assert [record.offset for record in rest] == [nexts[number] - 2, nexts[number] - 1]
        assert cluster_setup(connection).metadata_topic.partitions == METADATA_PARTITIONS


@pytest.fixture
def stand_in(kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Topic:
    """A topic that no broker reads, which the reader takes for the metadata topic."""
    name = f"metadata-{uuid.uuid4()}"
    monkeypatch.setattr(metadata_reader, "METADATA_TOPIC", name)
    return kafka.create(name, remote_storage_enable="false")


def produced(producer: Producer, topic: Topic, values: Sequence[bytes]) -> None:
    for value in values:
        producer.produce(topic.name, value, key=b"key")
    assert producer.flush(30) == 0


def test_what_is_written_meanwhile_is_left_to_the_next_reading(
    kafka: KafkaCluster, stand_in: Topic
) -> None:
    producer = Producer(kafka.client_settings())
    produced(producer, stand_in, [b"1", b"2", b"3"])
    with connected(client(kafka.servers, TIMEOUT)) as connection:
        # So the last chunk has room for the new record.
        chunks = read_metadata(connection, {0: 0}, chunk_records=2)
        found = next(chunks)
        produced(producer, stand_in, [b"4"])
        time.sleep(0.5)  # The client fetches it ahead.
        found += [record for chunk in chunks for record in chunk]
        assert [record.value for record in found] == [b"1", b"2", b"3"]
        assert [record.value for record in all_of(connection, {0: 3})] == [b"4"]


def test_transactions_are_read_as_brokers_read_them(kafka: KafkaCluster, stand_in: Topic) -> None:
    producer = Producer(kafka.client_settings(transactional_id="test"))
    producer.init_transactions(30)
    finishes = (producer.commit_transaction, producer.abort_transaction)
    for end, finish in zip((0, 2), finishes, strict=True):
        producer.begin_transaction()
        produced(producer, stand_in, [b"1"])  # Flushed: an abort would drop it here.
        finish(30)
        # The marker behind it is the last record, and no consumer gets it.
        kafka.wait(lambda end=end: stand_in.offsets()[1] == end + 2, "the marker")
        with connected(client(kafka.servers, TIMEOUT)) as connection:
            (found,) = all_of(connection, {0: end})
        assert (found.offset, found.key, found.value) == (end, b"key", b"1")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_damaged_batch_is_one_clear_error(
    kafka: KafkaCluster, stand_in: Topic, number: int
) -> None:
    producer = Producer(kafka.client_settings(linger_ms=0))
    ends = []
    (log,) = (kafka.brokers[0].data / f"{stand_in.name}-0").glob("*.log")
    for value in (b"first", b"middle", b"last"):
        produced(producer, stand_in, [value])
        ends.append(log.stat().st_size)
    with log.open("r+b") as file:
        file.seek(ends[number] - 3)  # In the value.
        file.write(b"?")
    with (
        connected(client(kafka.servers, {})) as connection,
        pytest.raises(CorruptLog, match=f"{stand_in.name}-0: it has a batch that is damaged"),
    ):
        all_of(connection, {0: 0})


def test_facts_are_those_of_the_brokers(kafka: KafkaCluster) -> None:
    topic = kafka.create("facts", partitions=2, retention_bytes="12345")
    topic.append([(b"key", b"1")] * 3, 1)
    producer = Producer(kafka.client_settings(transactional_id="open"))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("facts", b"2", partition=1)
    assert producer.flush(30) == 0
    topic.delete_records(2, 1)
    with connected(client(kafka.servers, TIMEOUT)) as connection:
        facts = topic_facts(connection, ["facts", "missing"])
        assert set(facts) == {"facts"}
        assert facts["facts"].partitions == 2
        assert facts["facts"].topic_id in str(topic.folder(0))
        (known,) = topic_configs(connection, ["facts", "missing"]).values()
        own = broker_configs(connection)[1]
        assert not isinstance(known, UnreadableObject)
        assert [known["retention.bytes"], known["retention.ms"], known["cleanup.policy"]] == [
            ("12345", ConfigSource.TOPIC),
            ("-1", ConfigSource.TOPIC),
            ("delete", ConfigSource.KAFKA_DEFAULT),
        ]
        assert own["remote.log.storage.system.enable"] == ("true", ConfigSource.STATIC_BROKER)
        found = partition_offsets(connection, [("facts", 0), ("facts", 1), ("facts", 9)])
    assert found["facts", 0] == PartitionOffsets(log_start=0, high_watermark=0, last_stable=0)
    assert found["facts", 1] == PartitionOffsets(log_start=2, high_watermark=4, last_stable=3)
    assert isinstance(found["facts", 9], UnreadableObject)
    producer.abort_transaction(30)


def test_a_topic_that_ends_before_what_was_read_is_refused(
    kafka: KafkaCluster, stand_in: Topic
) -> None:
    produced(Producer(kafka.client_settings()), stand_in, [b"1"])
    with (
        connected(client(kafka.servers, TIMEOUT)) as connection,
        pytest.raises(CorruptLog, match="ends at offset 1, but was read to 2"),
    ):
        all_of(connection, {0: 2})


def test_a_topic_that_lost_its_beginning_is_refused(
    kafka: KafkaCluster, stand_in: Topic
) -> None:
    produced(Producer(kafka.client_settings()), stand_in, [b"1", b"2"])
    stand_in.delete_records(1)
    with (
        connected(client(kafka.servers, TIMEOUT)) as connection,
        pytest.raises(CorruptLog) as caught,
    ):
        all_of(connection, {0: 0})
    assert caught.value.where == f"{stand_in.name}-0"
    assert "begins at offset 1: earlier records are lost" in caught.value.what
    assert "Do not restart a broker" in caught.value.remedy


def test_a_topic_is_read_from_where_it_is_known_to_begin(
    kafka: KafkaCluster, stand_in: Topic
) -> None:
    produced(Producer(kafka.client_settings()), stand_in, [b"1", b"2", b"3"])
    stand_in.delete_records(2)
    with connected(client(kafka.servers, TIMEOUT)) as connection:
        starts = metadata_starts(connection, [0])
        assert starts == {0: 2}
        chunks = read_metadata(connection, starts, starts=starts)
        assert [record.value for chunk in chunks for record in chunk] == [b"3"]
        # It lost more since.
        stand_in.delete_records(3)
        with pytest.raises(CorruptLog, match="begins at offset 3: earlier records are lost"):
            list(read_metadata(connection, {0: 3}, starts=starts))


def test_a_reading_ends_in_time_if_the_brokers_fall_silent(
    kafka: KafkaCluster, stand_in: Topic
) -> None:
    """What the client has fetched ahead is read."""
    produced(Producer(kafka.client_settings()), stand_in, [bytes(900_000)] * 30)
    with connected(client(kafka.servers, {"request.timeout.ms": "1000"})) as connection:
        chunks = read_metadata(connection, {0: 0}, chunk_records=1)
        next(chunks)
        with kafka.halted(), pytest.raises(UnreadableObject) as caught:
            list(chunks)
    assert caught.value.where.startswith("broker 127.0.0.1:")


def test_a_broker_with_another_manager_is_refused() -> None:
    other = {MANAGER: ConfigValue("com.example.Manager", ConfigSource.STATIC_BROKER)}
    check_manager({1: {}})
    with pytest.raises(BadSettings, match=r"com\.example\.Manager") as caught:
        check_manager({1: {}, 2: other})
    assert caught.value.where == "broker 2"
