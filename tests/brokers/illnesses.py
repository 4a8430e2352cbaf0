"""A cluster and its tier with one of each illness that `doctor` finds, and a healthy topic.

Two kinds are not here: what stops brokers, which `test_doctor` does last, and what needs millions
of records.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.published import send, updated
from tests.brokers.test_strange_segments import STRANGE
from tests.brokers.test_whose_cluster import copied_as
from tests.brokers.topics import METADATA_TOPIC, Topic
from tests.jobs.commands import ALWAYS, Ran
from tests.jobs.commands import tierfold as command
from tierfold.compaction.brokers.events import Event, SegmentAdded, SegmentState
from tierfold.compaction.model.segment_ids import SegmentMark
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.kafka.kafka_uuid import new_segment_id

NO_MARGIN: Final = ("--set", "tail.margin.segments=0")
RECORDS: Final = [(b"key-%d" % n, b"value" * 20) for n in range(4)]
FINISHED, LISTED, GONE = (
    SegmentState.COPY_FINISHED,
    SegmentState.DELETE_STARTED,
    SegmentState.DELETE_FINISHED,
)
SMALL: Final = 20
ANOTHER: Final = 0xC0FFEE
"""The fingerprint of another catalog."""
BEFORE_MAX: Final = "message.timestamp.before.max.ms"


class Illnesses:
    """The topics of a cluster, by the illness that each has."""

    def __init__(self, kafka: KafkaCluster, folder: Path) -> None:
        self.kafka, self.kept = kafka, folder / "kept"
        self.kept.mkdir()
        self.topics: dict[str, Topic] = {}

    def tierfold(self, verb: str, *arguments: str) -> Ran:
        """Run a verb on the tier, beside its brokers."""
        server = ("--bootstrap-server", self.kafka.servers)
        return command(verb, str(self.kafka.tier), *server, *arguments)

    def compact(self, topic: str, *more: str) -> Ran:
        """Compact and publish one topic."""
        words = ("--topic", topic, *ALWAYS, *NO_MARGIN, "--publish", "--json")
        return self.tierfold("compact", *words, *more)

    def make(self) -> None:
        """Make all of them; the catalog publishes two topics."""
        for name, segments in {**dict.fromkeys(_OF_OBJECTS, 3), "small": SMALL}.items():
            self.uploaded(name, segments)
        self.uploaded("deleted", 1)
        self._swapped()
        for name, spoil in _OF_OBJECTS.items():
            spoil(self, self.topics[name])
        self._deleted()
        for name, settings in _OF_SETTINGS.items():
            alter(self.kafka, self.uploaded(name, 1).name, settings)
        alter(self.kafka, METADATA_TOPIC, {"retention.ms": _TEN_YEARS, BEFORE_MAX: str(2**63 - 1)})

    def uploaded(self, name: str, segments: int) -> Topic:
        """A new topic with so many segments in the tier."""
        topic = self.topics[name] = self.kafka.create(name)
        for _ in range(segments):
            topic.append(RECORDS)
        topic.wait_until_tiered()
        return topic

    def _swapped(self) -> None:
        """One topic is published; the sends of the other one are refused as too old."""
        self.uploaded("unpublished", 3)
        swapped = self.uploaded("swapped", 3)
        ran = self.compact(swapped.name)
        assert ran.code == 0, ran
        copied_as(swapped.folder(), id_of(swapped.logs()[1]), self.own_id())
        alter(self.kafka, METADATA_TOPIC, {BEFORE_MAX: "1"})
        ran = self.compact("unpublished")
        assert ran.code == 3, ran
        alter(self.kafka, METADATA_TOPIC, {BEFORE_MAX: "1800000"})

    def _deleted(self) -> None:
        topic = self.topics["deleted"]
        copy = self.kept / topic.folder().name
        shutil.copytree(topic.folder(), copy)
        topic.delete()
        shutil.copytree(copy, topic.folder(), dirs_exist_ok=True)
        unknown = topic.folder().with_name(f"unknown-0-{STRANGE[0]}")
        shutil.copytree(copy, unknown)

    def own_id(self, fingerprint: int | None = None) -> str:
        """A new id as a run makes it, by default of the tier's own catalog."""
        if fingerprint is None:
            fingerprint = Catalog(str(self.kafka.tier / "_tierfold")).fingerprint()
        return new_segment_id(SegmentMark(fingerprint, is_restored=False))


def key_of(topic: Topic) -> PartitionKey:
    """The topic's first partition."""
    return PartitionKey(topic=topic.name, partition=0, topic_id=topic.id)


def id_of(log: Path) -> str:
    """The id in the name of a `.log`."""
    return log.stem[21:]


def _begun(topic: Topic, like: int, new_id: str, end: int | None = None) -> SegmentAdded:
    """The event that begins an upload with the offsets of the topic's segment number `like`."""
    log, start = topic.logs()[like], 4 * like
    return SegmentAdded(
        key=key_of(topic),
        segment_id=new_id,
        start_offset=start,
        end_offset=start + 3 if end is None else end,
        broker_id=1,
        max_timestamp_ms=1_700_000_000_000,
        event_timestamp_ms=1_700_000_000_000,
        leader_epochs=(LeaderEpoch(epoch=0, start_offset=start),),
        size_bytes=log.stat().st_size,
        custom_metadata=None,
        is_transaction_index_empty=True,
    )


def _stuck_upload(ill: Illnesses, topic: Topic) -> None:
    copied_as(topic.folder(), id_of(topic.logs()[1]), STRANGE[0])
    send(ill.kafka, [_begun(topic, 1, STRANGE[0])])


def _stuck_deletion(ill: Illnesses, topic: Topic) -> None:
    """Another upload has the offsets, so nothing is lost."""
    old = id_of(topic.logs()[1])
    copied_as(topic.folder(), old, STRANGE[0])
    key = key_of(topic)
    events: list[Event] = [_begun(topic, 1, STRANGE[0]), updated(key, STRANGE[0], FINISHED)]
    send(ill.kafka, [*events, updated(key, old, LISTED)])


def _gap(ill: Illnesses, topic: Topic) -> None:
    old = id_of(topic.logs()[1])
    send(ill.kafka, [updated(key_of(topic), old, state) for state in (LISTED, GONE)])


def _without_objects(ill: Illnesses, topic: Topic) -> None:
    for path in topic.folder().glob(f"*{id_of(topic.logs()[1])}*"):
        path.rename(ill.kept / path.name)


def _without_folder(ill: Illnesses, topic: Topic) -> None:
    topic.folder().rename(ill.kept / topic.folder().name)


def _never_named(_: Illnesses, topic: Topic) -> None:
    copied_as(topic.folder(), id_of(topic.logs()[1]), STRANGE[0])


def _of_another_catalog(ill: Illnesses, topic: Topic) -> None:
    theirs = ill.own_id(ANOTHER)
    copied_as(topic.folder(), id_of(topic.logs()[1]), theirs)
    send(ill.kafka, [_begun(topic, 1, theirs), updated(key_of(topic), theirs, FINISHED)])


def _overlapping(ill: Illnesses, topic: Topic) -> None:
    """A new leader uploaded the second and the third segment in one."""
    _, second, third = topic.logs()
    copied_as(topic.folder(), id_of(third), STRANGE[0])
    (copy,) = topic.folder().glob(f"*{STRANGE[0]}.log")
    log = second.read_bytes() + third.read_bytes()
    for path in topic.folder().glob(f"*{STRANGE[0]}*"):
        path.rename(path.with_name(path.name.replace(copy.name[:20], f"{4:020}")))
    (copy,) = topic.folder().glob(f"*{STRANGE[0]}.log")
    copy.write_bytes(log)
    times = copy.with_suffix(".timeindex")
    # The same timestamp, at an offset that is seven beyond the start.
    times.write_bytes(times.read_bytes()[:8] + (7).to_bytes(4))
    upload = _begun(topic, 1, STRANGE[0], end=11)._replace(size_bytes=len(log))
    send(ill.kafka, [upload, updated(key_of(topic), STRANGE[0], FINISHED)])


def _unfound(ill: Illnesses, topic: Topic) -> None:
    """The second segment is finished once more, and takes the place of the larger upload."""
    second = id_of(topic.logs()[1])
    _overlapping(ill, topic)
    send(ill.kafka, [updated(key_of(topic), second, FINISHED)])


def _nothing(_ill: Illnesses, _topic: Topic) -> None:
    pass


_OF_OBJECTS: Final[dict[str, Callable[[Illnesses, Topic], None]]] = {
    "healthy": _nothing,
    "stuck-upload": _stuck_upload,
    "stuck-deletion": _stuck_deletion,
    "gap": _gap,
    "without-objects": _without_objects,
    "without-folder": _without_folder,
    "never-named": _never_named,
    "another-catalog": _of_another_catalog,
    "overlapping": _overlapping,
    "unfound": _unfound,
}
_TEN_YEARS: Final = "315360000000"
"""Records of tests are old, and none is to expire."""
_OF_SETTINGS: Final[dict[str, dict[str, str | None]]] = {
    "expiring": {"retention.ms": _TEN_YEARS},
    "by-size": {"retention.bytes": "1000000000"},
    "empty-policy": {"cleanup.policy": "", "retention.ms": _TEN_YEARS},
    "local-for-ever": {"local.retention.ms": "-1"},
}
COMPACTED: Final = ("expiring", "by-size")
"""Topics whose policy in tierfold is compact when `doctor` runs."""
