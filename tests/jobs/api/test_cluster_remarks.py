"""Remarks that a run's look at its cluster shows."""

from __future__ import annotations

from tierfold.compaction.brokers.cluster_configs import ConfigSource, ConfigValue
from tierfold.compaction.brokers.cluster_facts import (
    ClusterSetup,
    MetadataTopic,
    TopicFacts,
    TopicSetup,
)
from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.jobs.api.cluster_remarks import remarks_beside
from tierfold.jobs.settings.resolution import resolve


def topic(name: str, **values: str) -> TopicSetup:
    """A topic with settings of its own; `a_b` stands for `a.b`."""
    return TopicSetup(
        name=name,
        facts=TopicFacts(name=name, topic_id=name.ljust(22, "t"), partitions=1),
        configs={
            config.replace("_", "."): ConfigValue(text, ConfigSource.TOPIC)
            for config, text in values.items()
        },
    )


def look(*topics: TopicSetup) -> ClusterView:
    return ClusterView(
        cluster_id="c",
        setup=ClusterSetup(
            server="b:1",
            metadata_topic=MetadataTopic(topic_id="m" * 22, partitions=5),
            metadata_configs={},
            brokers={},
        ),
        records=0,
        partitions={},
        topics={found.name: found for found in topics},
    )


def test_a_topic_whose_settings_conflict_with_the_clusters_keeps_no_other_from_its_remarks() -> (
    None
):
    settings = resolve(["cleanup.policy=compact", "min.compaction.lag.ms=20", "segment.bytes=9"])
    conflicting = topic("a", max_compaction_lag_ms="10", segment_bytes="7")
    found = remarks_beside(
        settings, look(conflicting, topic("b", segment_bytes="7")), has_advice=True
    )
    assert [note for note in found.notes if "segment.bytes" in note] == [
        "topic b: segment.bytes is 9 (--set segment.bytes), but 7 on the brokers (cluster: topic)"
    ]


def test_without_a_look_there_are_none() -> None:
    found = remarks_beside(resolve(["cleanup.policy=compact"]), None, has_advice=True)
    assert (found.warnings, found.notes) == ((), ())
