"""Segments whose ids bear a mark are served and deleted as all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_forget_beside_brokers import Swapped
from tests.brokers.topics import Topic
from tierfold.compaction.model.segment_ids import mark_of
from tierfold.storage.catalog.catalog import Catalog

pytestmark = pytest.mark.soak


def swapped_topic(kafka: KafkaCluster, folder: Path, name: str) -> tuple[Topic, str]:
    """A topic of one segment of a run, in place of two uploads, and that segment's id."""
    topic = kafka.create(name)
    for value in (b"old", b"new"):
        topic.append([(b"a", value), (b"b", value)])
    topic.wait_until_tiered()
    swapped = Swapped(kafka, folder, topic)
    swapped.publish()
    (ours,) = swapped.row.live_ids
    mark = mark_of(ours)
    assert mark is not None
    assert mark.fingerprint == Catalog(str(swapped.catalog)).fingerprint()
    return topic, ours


def objects(topic: Topic, segment_id: str) -> list[Path]:
    return list(topic.folder().glob(f"*{segment_id}*"))


def test_brokers_read_a_marked_segment_and_delete_it_below_the_log_start(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic, ours = swapped_topic(kafka, tmp_path, "marked")
    kafka.wait(lambda: {record.value for record in topic.read()} == {b"new"}, "the swap")
    assert [record.offset for record in topic.read()] == [2, 3]
    topic.append([(b"c", b"last")])
    topic.wait_until_tiered()
    topic.delete_records(4)
    kafka.wait(lambda: not objects(topic, ours), "the deletion of the marked segment")
    assert [record.value for record in topic.read()] == [b"last"]


def test_a_marked_segment_goes_with_its_topic(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic, ours = swapped_topic(kafka, tmp_path, "marked-and-deleted")
    assert objects(topic, ours)
    topic.delete()
    assert not objects(topic, ours)
