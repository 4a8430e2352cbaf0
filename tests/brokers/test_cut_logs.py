"""A log that an unclean election cuts off is refused at every instant, and comes free again.

    before        the deposed leader has uploaded 30-59, all is as it was
    deposed       no leader
    elected       the new leader's log ends at 30
    written on    ... at 70, and nothing of it is uploaded: only leader epochs show the cut
    uploaded      the tier shows it, too
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.cut_logs import CUT_AT, NEW_END, TAIL_END, CutLog, cut_log
from tests.brokers.topics import Topic
from tests.jobs.commands import ALWAYS, Ran, tierfold, told
from tests.storage.brokers.secured import client
from tierfold.compaction.brokers.broker_view import BrokerView
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.brokers.epoch_ends import EpochEnd, NoAnswer
from tierfold.compaction.brokers.lineage import (
    EpochDenied,
    LineageHolds,
    LineageStatus,
    LogEndsBelow,
    Unconfirmed,
    epochs_to_ask,
    finished,
    lineage_status,
    outside_lineage,
)
from tierfold.compaction.brokers.metadata_fold import MetadataFold
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey
from tierfold.storage.brokers.connection import Connection, connected
from tierfold.storage.brokers.epoch_ends import epoch_ends
from tierfold.storage.brokers.facts import partition_offsets
from tierfold.storage.brokers.metadata_reader import read_metadata

BEFORE = PartitionOffsets(log_start=0, high_watermark=TAIL_END + 1, last_stable=TAIL_END + 1)


def view_of(connection: Connection, topic: Topic) -> BrokerView:
    key = PartitionKey(topic=topic.name, partition=0, topic_id=topic.id)
    fold = MetadataFold(METADATA_PARTITIONS, [key])
    for chunk in read_metadata(connection, dict.fromkeys(fold.metadata_partitions(), 0)):
        fold.apply(chunk)
    return fold.view(key)


def lineage_of(topic: Topic) -> tuple[LeaderEpoch, ...]:
    """The checkpoint with the highest epoch, among these the one of the segment that ends last."""
    found = []
    for log in topic.logs():
        lines = log.with_suffix(".leader_epoch_checkpoint").read_text().splitlines()[2:]
        pairs = [tuple(map(int, line.split())) for line in lines]
        found.append((pairs[-1][0], int(log.name.partition("-")[0]), pairs))
    _, _, newest = max(found)
    return tuple(LeaderEpoch(epoch=epoch, start_offset=start) for epoch, start in newest)


def status(kafka: KafkaCluster, topic: Topic) -> LineageStatus:
    """What a look at the brokers finds; without a leader, beside the offsets of before."""
    one = (topic.name, 0)
    with connected(client(kafka.servers, {"request.timeout.ms": "3000"})) as connection:
        view = view_of(connection, topic)
        offsets = partition_offsets(connection, [one])[one]
        if isinstance(offsets, UnreadableObject):
            offsets = BEFORE
        answers = epoch_ends(connection, {one: epochs_to_ask(view, offsets.log_start)})
    return lineage_status(view, lineage_of(topic), offsets, answers[one])


@pytest.fixture(scope="module")
def log(kafka: KafkaCluster) -> Iterator[CutLog]:
    with cut_log(kafka, "cut") as log:
        yield log


@pytest.fixture(scope="module")
def catalog(kafka: KafkaCluster, log: CutLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with a row of the deposed leader's log."""
    catalog = tmp_path_factory.mktemp("cut") / "catalog"
    assert plan(kafka, catalog, "compact", "--engine", "local").code == 0
    return catalog


def plan(kafka: KafkaCluster, catalog: Path, verb: str = "plan", *more: str) -> Ran:
    settings = () if verb == "forget" else ALWAYS
    return tierfold(
        verb, kafka.tier, *settings, "--catalog", catalog, "--topic", "cut", *more
    )


def test_it_is_refused_at_every_instant(kafka: KafkaCluster, log: CutLog, catalog: Path) -> None:
    assert status(kafka, log.topic) == LineageHolds(end_offset=TAIL_END)

    log.depose()
    deposed = status(kafka, log.topic)
    assert isinstance(deposed, Unconfirmed)
    assert isinstance(deposed.answer, NoAnswer)

    log.elect()
    below = LogEndsBelow(high_watermark=CUT_AT, end_offset=TAIL_END)
    assert status(kafka, log.topic) == below

    log.write_on()
    assert log.topic.offsets() == (0, NEW_END + 1)
    end = EpochEnd(epoch=0, end_offset=CUT_AT)
    denied = EpochDenied(epoch=0, end_offset=TAIL_END, found=end)
    assert status(kafka, log.topic) == denied
    assert plan(kafka, catalog).code == 0  # Without brokers, nothing shows it yet.

    log.upload()
    assert status(kafka, log.topic) == LineageHolds(end_offset=NEW_END)


def test_after_the_new_leaders_upload_the_tier_shows_the_cut(
    kafka: KafkaCluster, log: CutLog, catalog: Path, tmp_path: Path
) -> None:
    with connected(client(kafka.servers, {})) as connection:
        view = view_of(connection, log.topic)
    outside = outside_lineage(finished(view, 0), lineage_of(log.topic))
    starts = [segment.added.start_offset for segment in outside]
    assert starts == list(range(CUT_AT, TAIL_END + 1, 10))
    refused = plan(kafka, catalog, "plan", "--json")
    assert refused.outcomes["cut", 0] == "refused", refused
    assert not told(str(refused.partitions["cut", 0]), "of leader epoch 2", "tierfold forget")
    assert plan(kafka, tmp_path).code == 0  # Without a row, what was cut off is left out.
