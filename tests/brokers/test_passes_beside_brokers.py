"""A row that names its cluster: what `plan` says of passes that brokers have not seen."""

from __future__ import annotations

from pathlib import Path

from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_plan_beside_brokers import NO_MARGIN
from tests.brokers.test_status_of_brokers import topic_of
from tests.brokers.test_whose_cluster import Served
from tests.jobs.commands import ALWAYS
from tierfold.jobs.context.cluster_look import LookRequest, cluster_view
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.jobs.settings.cluster_table import cluster_of
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.brokers.connection import connected


def test_no_second_pass_is_planned_over_an_unpublished_first(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "unpublished-pass")
    served = Served(kafka, tmp_path, topic)
    served.compact()
    topic.append([(b"key-0", b"new"), (b"key-9", b"value")])
    topic.wait_until_tiered()
    (entry,) = served.plan(*NO_MARGIN).entries
    assert entry["outcome"] == "planned"
    served.note()
    (entry,) = served.plan(*NO_MARGIN).entries
    assert entry["outcome"] == "nothing_to_do"
    assert "an earlier pass is not wholly published" in entry["reason"]


def test_a_tier_whose_tombstones_went_is_first_published_with_consent(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "tombstones-went")
    topic.append([(b"key-0", None), (b"key-9", b"value")])
    topic.append([(b"key-8", b"value")])
    topic.wait_until_tiered()
    served = Served(kafka, tmp_path, topic)
    at_once = ("--set", "delete.retention.ms=0", "--engine", "local")
    for _ in range(2):
        ran = served.alone("compact", *ALWAYS, *at_once, "--first-dirty", "0")
        assert ran.code == 0, ran
    assert served.row.has_dropped
    served.note()
    ran = served.plan(*NO_MARGIN)
    assert ran.code == 3
    assert "may keep a deleted key, and should begin again" in ran.entries[0]["reason"]


def test_the_look_says_how_long_brokers_keep_local_copies(kafka: KafkaCluster) -> None:
    topic = topic_of(kafka, "kept-locally")
    settings = cluster_of({"bootstrap_server": kafka.servers}, resolve([]).cluster, {})
    assert settings is not None
    with connected(settings) as connection:
        view, _ = cluster_view(connection, RunProgress(), LookRequest())
    (found,) = (one for key, one in view.partitions.items() if key.topic == topic.name)
    assert found.local_retention_ms == 1
