"""A look at brokers asks no more than what follows from it needs."""

from __future__ import annotations

from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_status_of_brokers import topic_of
from tests.storage.brokers.secured import client
from tierfold.compaction.brokers.epoch_ends import EpochEnd
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.beside_tier import BesideTier
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_progress import RunProgress


def test_leader_epochs_are_asked_for_beside_a_tier_alone(kafka: KafkaCluster) -> None:
    topic = topic_of(kafka, "looked-at")
    key = PartitionKey(topic=topic.name, partition=0, topic_id=topic.id)
    cluster = RunCluster(client(kafka.servers, {}))
    listed: list[str] = []
    tier = BesideTier(
        listed={key: ()},
        asked_by=7,
        list_again=lambda views: listed.extend(views[key].segments),
    )
    beside = cluster.look(RunProgress(), tier)
    assert len(listed) == 3
    assert beside.partitions[key].asked_by == 7
    assert beside.partitions[key].epoch_answers == {0: EpochEnd(epoch=0, end_offset=12)}
    alone = cluster.look(RunProgress())
    assert alone.partitions[key].known_offsets == beside.partitions[key].known_offsets
    assert dict(alone.partitions[key].epoch_answers) == {}
