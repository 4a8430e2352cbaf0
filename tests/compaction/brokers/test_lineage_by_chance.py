"""Whatever elections do to a log, the lineage holds only if the leader has all that is in the tier.

Replicas write, follow, upload, die and are elected, cleanly or not, by chance. A record is known by
the leader that wrote it and a number, so the model sees which records the leader still has.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest

from tests.compaction.broker_events import uploaded, view
from tests.compaction.builders import segment_id
from tierfold.compaction.brokers.broker_view import BrokerView
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.brokers.epoch_ends import EpochAnswer, EpochEnd, UnknownEpoch
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.brokers.lineage import (
    EpochDenied,
    LineageHolds,
    LogEndsBelow,
    NothingTiered,
    epochs_to_ask,
    finished,
    lineage_status,
    outside_lineage,
)
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.segments import LeaderEpoch

REPLICAS, STEPS = 3, 40


class Record(NamedTuple):
    epoch: int
    number: int


class Upload(NamedTuple):
    start: int
    records: tuple[Record, ...]
    checkpoint: tuple[LeaderEpoch, ...]

    @property
    def end(self) -> int:
        return self.start + len(self.records) - 1


def checkpoint_of(log: list[Record]) -> tuple[LeaderEpoch, ...]:
    """Kafka's leader epoch checkpoint of a log that begins at 0."""
    starts: dict[int, int] = {}
    for offset, record in enumerate(log):
        starts.setdefault(record.epoch, offset)
    return tuple(LeaderEpoch(epoch=epoch, start_offset=at) for epoch, at in starts.items())


def answer_of(log: list[Record], epoch: int, asked: int) -> EpochAnswer:
    """What a leader answers: Kafka `LeaderEpochFileCache.endOffsetFor`; `epoch`: its own."""
    known = [entry.epoch for entry in checkpoint_of(log)]
    if asked > max([epoch, *known]):
        return UnknownEpoch()
    if asked == epoch:
        return EpochEnd(epoch=epoch, end_offset=len(log))
    floor = max((one for one in known if one <= asked), default=asked)
    end = next((at for at, record in enumerate(log) if record.epoch > floor), len(log))
    return EpochEnd(epoch=floor, end_offset=end)


class Cluster:
    """A partition, of which some elections are unclean."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.logs: list[list[Record]] = [[] for _ in range(REPLICAS)]
        self.epoch, self.leader, self.written = 0, 0, 0
        self.uploads: list[Upload] = []

    @property
    def log(self) -> list[Record]:
        return self.logs[self.leader]

    def step(self) -> None:
        getattr(self, self.rng.choice(("write", "write", "follow", "upload", "upload", "elect")))()

    def write(self) -> None:
        for _ in range(self.rng.randint(1, 6)):
            self.written += 1
            self.log.append(Record(self.epoch, self.written))

    def follow(self) -> None:
        """One follower takes some of the leader's records, without its own of other leaders."""
        mine = self.logs[self.rng.randrange(REPLICAS)]
        same = 0
        while same < min(len(mine), len(self.log)) and mine[same] == self.log[same]:
            same += 1
        if mine is not self.log:
            mine[same:] = self.log[same : same + self.rng.randint(0, 12)]

    def upload(self) -> None:
        """The leader uploads its next segment; a new one may begin before what is in the tier."""
        ours = [
            one.end + 1
            for one in self.uploads
            if list(one.records) == self.log[one.start : one.end + 1]
        ]
        start = max(ours, default=0)
        start = max(start - self.rng.choice((0, 0, 3)), 0)
        end = min(start + self.rng.randint(1, 8), len(self.log))
        if start < end:
            records = tuple(self.log[start:end])
            self.uploads.append(Upload(start, records, checkpoint_of(self.log[:end])))

    def elect(self) -> None:
        self.leader, self.epoch = self.rng.randrange(REPLICAS), self.epoch + 1

    @property
    def view(self) -> BrokerView:
        events: list[Event] = []
        for number, one in enumerate(self.uploads):
            own = epochs_in(one.checkpoint, one.start, one.end)
            starts = {entry.epoch: entry.start_offset for entry in own}
            events += uploaded(f"s{number}", one.start, one.end, epochs=starts)
        return view(*events)

    @property
    def lineage(self) -> tuple[LeaderEpoch, ...]:
        newest = max(self.uploads, key=lambda one: (one.checkpoint[-1].epoch, one.end))
        return newest.checkpoint

    @property
    def has_the_tiers_newest(self) -> bool:
        """Whether the leader's log has the log of the upload that decides the lineage."""
        newest = max(self.uploads, key=lambda one: (one.checkpoint[-1].epoch, one.end))
        return self.log[newest.start : newest.end + 1] == list(newest.records)


@pytest.mark.parametrize("seed", range(150))
def test_the_lineage_holds_if_and_only_if_the_leader_has_what_is_in_the_tier(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(STEPS):
        cluster.step()
        seen, log = cluster.view, cluster.log
        end = len(log)
        answers = {
            epoch: answer_of(log, cluster.epoch, epoch) for epoch in epochs_to_ask(seen, 0)
        }
        offsets = PartitionOffsets(log_start=0, high_watermark=end, last_stable=end)
        if not cluster.uploads:
            assert lineage_status(seen, (), offsets, answers) == NothingTiered()
            continue
        status = lineage_status(seen, cluster.lineage, offsets, answers)
        if cluster.has_the_tiers_newest:
            assert isinstance(status, LineageHolds), status
            outside = outside_lineage(finished(seen, 0), cluster.lineage)
            names = {segment.added.segment_id for segment in outside}
            for number, one in enumerate(cluster.uploads):
                is_ours = list(one.records) == log[one.start : one.end + 1]
                assert is_ours == (segment_id(f"s{number}") not in names)
        else:
            assert isinstance(status, LogEndsBelow | EpochDenied), status
