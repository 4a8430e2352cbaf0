"""What is done to published topics in a soak; each scenario fails by an AssertionError."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias

from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.brokers.consumer_reads import Isolation
from tests.brokers.filled_topic import Filling, create_filled, fill
from tests.brokers.scans import scanning
from tests.brokers.served_soak.both_policies import both_policies_under_load
from tests.brokers.served_soak.other_producers import producing
from tests.brokers.served_soak.stage import Soaked, Stage, after_send, before_send, brief
from tests.brokers.topics import CALL_S, ROLL_MS, Topic
from tierfold.compaction.verification.canary import NotCounted

FILLING: Final = Filling(seed=1, records=1_100, keys=120, value_bytes=(100, 5_000))
STEADY: Final = [(b"steady-%d" % number, b"value %d" % number) for number in range(50)]
"""The same keys always get the same values, so that all scans see the same latest ones."""
_AROUND: Final = (
    ("before-1", before_send, 1),
    ("before-2", before_send, 2),
    ("after-2", after_send, 2),
)
"""Around which send of a run records are deleted."""
_Around: TypeAlias = Callable[[Callable[[], object]], AbstractContextManager[object]]
_FOREVER_MS: Final = str(10**12)
_REASSIGN: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A function, and the settings of the cluster that it needs for itself, if any."""

    play: Callable[[Stage], None]
    settings: Mapping[str, str] = field(default_factory=dict)
    since: tuple[int, int] = (3, 8)
    """The first version that has these settings."""

    @property
    def name(self) -> str:
        """As on the command line."""
        words = self.play.__name__.replace("_", "-")
        return f"{words}-kip-1023" if self.settings else words


def data_still_local(stage: Stage) -> None:
    """A canary does not count what is local: another topic waits for it until local data are gone.
    """
    # No transaction may reach into the newest segment, which is not uploaded.
    plain = replace(FILLING, transactional=0)
    topic = create_filled(stage.kafka, "not-gone", plain, local_retention_ms="3600000")
    soaked = stage.soaked(topic)
    _wait_until_uploaded(stage, topic)
    soaked.log.collect()
    second = create_filled(stage.kafka, "waits", plain)
    second.wait_until_tiered()
    alone = stage.compact(soaked)
    (entry,) = alone.entries
    assert (entry["outcome"], entry["publishing"]) == ("compacted", "published"), brief(alone)
    both = stage.compact(soaked, "--topic", second.name)
    waiting = both.partitions[second.name, 0]
    stage.say(f"still local: {waiting['publishing']}, {waiting['reason']}")
    assert waiting["publishing"] == "waits", brief(both)
    assert NotCounted.STILL_LOCAL in waiting["reason"], brief(both)
    # Consumers get what is local as it is, beside what brokers fetch from the tier.
    with scanning(stage.kafka, topic, isolations=[Isolation.READ_COMMITTED]) as scans:
        pass
    assert scans.problems() == []
    _set(stage, topic, "local.retention.ms", "1")
    topic.wait_until_tiered()
    soaked.log.collect()
    freed = stage.compact(soaked, "--topic", second.name)
    assert freed.partitions[second.name, 0]["publishing"] == "published", brief(freed)
    stage.complete(soaked)
    stage.assert_served(soaked)


def swapped_and_restarted(stage: Stage) -> None:
    """What consumers read does not change with a restart."""
    soaked = _published(stage, "swapped")
    stage.assert_served(soaked, starts=10)
    stage.restart()
    stage.assert_served(soaked, starts=10)


def rounds_with_new_data(stage: Stage) -> None:
    """New data go on being tiered, and later compactions take them in."""
    soaked = _published(stage, "rounds")
    for number in range(1, stage.rounds + 1):
        more = Filling(seed=number + 1, records=80, keys=80, value_bytes=(50, 500))
        fill(stage.kafka, soaked.topic, more)
        soaked.topic.wait_until_tiered()
        soaked.log.collect()
        below = soaked.cleaned_below
        stage.complete(soaked)
        assert soaked.cleaned_below > below
        if number % 5 == 0 or number == stage.rounds:
            stage.assert_served(soaked, starts=3)
            stage.say(f"round {number}: below {soaked.cleaned_below} as Kafka's cleaner leaves it")


def records_deleted_between_sends(stage: Stage) -> None:
    """DeleteRecords around each send, into the group and past it, is never a refusal."""
    for label, around, number in _AROUND:
        for place in ("into", "past"):
            _delete_around(stage, f"deleted-{label}-{place}", partial(around, number), place)


def topics_created_again(stage: Stage) -> None:
    """A topic that is deleted and created again: the new one is compacted, the old one left.

    The old one is no refusal, though its row stays: the cluster has it no more.
    """
    soaked = _published(stage, "again")
    soaked.topic.delete()
    later = create_filled(stage.kafka, "again", FILLING)
    later.wait_until_tiered()
    second = stage.soaked(later)
    second.log.collect()
    ran = stage.compact(second)
    (old,) = (entry for entry in ran.entries if entry["topic_id"] == soaked.topic.id)
    assert old["outcome"] == "nothing_to_do", old
    assert "was deleted" in old["reason"], old
    assert soaked.topic.logs() == []
    stage.complete(second)
    stage.assert_served(second)


def a_fresh_replica_leads(stage: Stage) -> None:
    """A replica that never had what was replaced serves the same, and so does the first one."""
    stage.kafka.broker(2)
    soaked = _published(stage, "fresh")
    # With KIP-1023 a new replica never catches up where nothing is left to upload, also of topics
    # that were never compacted.
    _set(stage, soaked.topic, "local.retention.ms", _FOREVER_MS)
    fill(stage.kafka, soaked.topic, Filling(seed=9, records=80, value_bytes=(50, 500)))
    _reassign(stage, soaked.topic, [1, 2])
    stage.kafka.wait(lambda: soaked.topic.in_sync() == {1, 2}, "the second replica")
    _set(stage, soaked.topic, "local.retention.ms", "1")
    soaked.topic.wait_until_tiered()
    soaked.log.collect()
    for node in (2, 1):
        soaked.topic.move_leader(node)
        stage.assert_served(soaked)
        fill(stage.kafka, soaked.topic, Filling(seed=10 + node, records=80, value_bytes=(50, 500)))
        soaked.topic.wait_until_tiered()
        soaked.log.collect()
        stage.complete(soaked)
        stage.assert_served(soaked)


def leaders_upload_what_overlaps(stage: Stage) -> None:
    """A new leader's uploads share offsets with what was replaced: they are merged."""
    second = stage.kafka.broker(2)
    # Records of `append` are years old.
    topic = stage.kafka.create("merged", replicas=[1, 2], local_retention_ms=_FOREVER_MS)
    stage.kafka.wait(lambda: topic.in_sync() == {1, 2}, "the second replica")
    second.stop()
    stage.kafka.wait(lambda: topic.leader() == 1, "the leader's change")
    soaked = stage.soaked(topic)
    for turn in range(5):
        topic.append([(b"key-%d" % (n % 40), b"%d of %d" % (n, turn)) for n in range(100)])
    _wait_until_uploaded(stage, topic)
    soaked.log.collect()
    first = stage.compact(soaked)
    assert first.entries[0]["outcome"] == "compacted", brief(first)
    _set(stage, topic, "segment.ms", _FOREVER_MS)  # So the other one gets all as one segment.
    stage.kafka.broker(2)
    stage.kafka.wait(lambda: topic.in_sync() == {1, 2}, "the second replica")
    _set(stage, topic, "segment.ms", str(ROLL_MS))
    known = {log.name for log in topic.logs()}
    topic.move_leader(2)
    topic.append([(b"key-1", b"later")])
    topic.append([(b"key-2", b"later")])
    _wait_until_uploaded(stage, topic, 2)
    _set(stage, topic, "local.retention.ms", "1")
    topic.wait_until_tiered()
    soaked.log.collect()
    starts = sorted({int(log.name[:20]) for log in topic.logs() if log.name not in known})
    below = soaked.cleaned_below
    assert starts[0] < below, f"uploads at {starts} do not overlap what was compacted below {below}"
    runs = stage.complete(soaked)
    stage.say(f"later uploads at {starts}, compacted below {below}: {runs} runs merged them")
    stage.assert_served(soaked)
    topic.move_leader(1)
    stage.assert_served(soaked)


def producers_and_scans_go_on(stage: Stage) -> None:
    """Consumers scan and producers write while a topic is swapped again and again."""
    topic = create_filled(stage.kafka, "busy", Filling(seed=1, records=200, prefix=b"other-"))
    topic.append(STEADY)
    topic.wait_until_tiered()
    soaked = stage.soaked(topic)
    soaked.log.collect()
    stage.complete(soaked)
    swaps = 0
    committed = [Isolation.READ_COMMITTED]  # Others see aborted records of the producers.
    with (
        producing(stage.kafka, topic) as written,
        scanning(stage.kafka, topic, isolations=committed, prefix=b"steady-") as scans,
    ):
        while swaps < stage.rounds:
            logs = len(topic.logs())
            topic.append(STEADY)
            stage.kafka.wait(lambda least=logs + 2: len(topic.logs()) >= least, "new uploads")
            stage.complete(soaked)
            swaps = len({entry["next_offset"] for entry in soaked.entries}) - 1
    assert scans.problems() == []
    assert written.errors == []
    stage.say(f"{swaps} swaps, {scans.count} scans, {written.count} records written meanwhile")


def _published(stage: Stage, name: str) -> Soaked:
    topic = create_filled(stage.kafka, name, FILLING)
    topic.wait_until_tiered()
    soaked = stage.soaked(topic)
    soaked.log.collect()
    stage.complete(soaked)
    return soaked


def _delete_around(stage: Stage, name: str, around: _Around, place: str) -> None:
    topic = create_filled(stage.kafka, name, FILLING)
    topic.wait_until_tiered()
    soaked = stage.soaked(topic)
    soaked.log.collect()
    border = soaked.log.expected().borders[-1]
    offset = border + 3 if place == "past" else border // 2
    with around(lambda: topic.delete_records(offset)):
        first = stage.compact(soaked)
    assert topic.offsets()[0] == offset, brief(first)
    (entry,) = first.entries
    assert entry["outcome"] != "refused", brief(first)
    runs = stage.complete(soaked)
    stage.say(f"{name}: {entry['outcome']} and {entry['publishing']}, and {runs} more runs")
    stage.assert_served(soaked, log_start=offset, starts=3)


def _wait_until_uploaded(stage: Stage, topic: Topic, node: int = 1) -> None:
    """Wait until the leader has uploaded all but its newest segment, which stay local, too."""
    folder = stage.kafka.brokers[node - 1].data / f"{topic.name}-0"

    def is_done() -> bool:
        newest = max((int(log.stem) for log in folder.glob("*.log")), default=0)
        ends = [int(log.name[:20]) for log in topic.logs()]
        local = [int(log.stem) for log in folder.glob("*.log") if int(log.stem) < newest]
        return bool(local) and max(local) <= max(ends, default=-1)

    stage.kafka.wait(is_done, f"the uploads of {topic.name}")


def _set(stage: Stage, topic: Topic, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=[entry])
    admin = stage.kafka.admin()  # Its calls end with it.
    admin.incremental_alter_configs([resource])[resource].result(CALL_S)


def _reassign(stage: Stage, topic: Topic, nodes: list[int]) -> None:
    moves = [{"topic": topic.name, "partition": 0, "replicas": nodes}]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"version": 1, "partitions": moves}, file)
        file.flush()
        stage.kafka.run_tool(_REASSIGN, "--reassignment-json-file", file.name, "--execute")


SCENARIOS: Final = (
    Scenario(data_still_local),
    Scenario(swapped_and_restarted),
    Scenario(records_deleted_between_sends),
    Scenario(topics_created_again),
    Scenario(rounds_with_new_data),
    Scenario(producers_and_scans_go_on),
    Scenario(both_policies_under_load),
    Scenario(a_fresh_replica_leads),
    Scenario(leaders_upload_what_overlaps),
    Scenario(
        a_fresh_replica_leads,
        settings={"follower.fetch.last.tiered.offset.enable": "true"},
        since=(4, 3),
    ),
)
"""`data_still_local` comes first: no canary has counted in its tier then."""
