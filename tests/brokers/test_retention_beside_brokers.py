"""`compact,delete` beside a real broker: `vacuum` moves the log start past tierfold's retention."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from tests.brokers.access import Right, granted
from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_status_of_brokers import tierfold
from tests.brokers.test_third_send import Published
from tests.brokers.test_whose_cluster import HOUR_MS, ids_in
from tests.brokers.topics import METADATA_TOPIC, KeyValue, Topic
from tests.jobs.commands import Ran
from tests.jobs.commands import tierfold as command
from tests.jobs.scripted_runs import scripted
from tests.storage.brokers.test_access_rights import LEAST, LOGIN
from tests.storage.call_scripts import Call, Killed, Rule, at, fails, killed
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.jobs.publishing import deleter
from tierfold.storage.brokers import log_start_door
from tierfold.storage.brokers.event_door import TooLate

pytestmark = pytest.mark.usefixtures("own_note")

POLICY: Final = ("--set", "cleanup.policy=compact,delete")
OF_HOURS: Final = tuple(f"h{hour}".encode() for hour in range(10, 0, -1))
"""A key of each hour: how old its only record is."""

LEFT: Final = dict.fromkeys(OF_HOURS[4:], b"only") | {b"always": OF_HOURS[-1]}
"""What a consumer reads once the first four segments are gone."""


def kept_for(hours: float) -> tuple[str, ...]:
    """The settings of a topic that keeps records for so long."""
    return (*POLICY, "--set", f"retention.ms={int(hours * HOUR_MS)}")


class Kept(Published):
    """A published topic with a segment of each of the last ten hours."""

    def compact(self, *more: str) -> dict[str, Any]:  # type: ignore[override]
        return self.publish(*kept_for(6.5), *more)

    def expire(self, *more: str, hours: float = 6.5) -> Ran:
        return self.clean("--publish", "--canary", "off", *kept_for(hours), *more)

    def goes_on(self) -> None:
        """Something is written and compacted: with its claim the row follows the log start."""
        append(self.topic, [(b"always", b"now")])
        self.topic.wait_until_tiered()
        self.compact()

    @property
    def log_start(self) -> int:
        return self.topic.offsets()[0]

    def wait_until_gone(self, ids: set[str] | frozenset[str]) -> None:
        """Wait until brokers have deleted the objects of segments."""
        folder = self.topic.folder()
        self.kafka.wait(lambda: not ids_in(folder) & ids, "the brokers' own deletion")


def kept_topic(kafka: KafkaCluster, folder: Path, name: str) -> Kept:
    kafka.create(name)
    first_ms = time.time_ns() // 1_000_000 - len(OF_HOURS) * HOUR_MS
    topic = Topic(kafka, name, first_ms=first_ms)
    for key in OF_HOURS:
        append(topic, [(key, b"only"), (b"always", key)])
    topic.wait_until_tiered()
    return Kept(kafka, folder, topic)


def append(topic: Topic, records: list[KeyValue]) -> None:
    topic.append(records)


@contextmanager
def scripted_moves(*rules: Rule) -> Iterator[None]:
    """As `scripted`, the moves of the log start of this block under the same script."""
    with scripted(*rules) as script, pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            deleter, "move_log_start", script.around("move", log_start_door.move_log_start)
        )
        yield


def test_the_log_start_moves_and_brokers_delete(kafka: KafkaCluster, tmp_path: Path) -> None:
    served = kept_topic(kafka, tmp_path, "kept")
    served.compact()
    before = served.row
    # No group goes from one tenth of the retention into the next.
    assert len(before.segments) == 10
    (dry,) = served.expire("--dry-run").entries
    assert (dry["outcome"], len(dry["expired"]), dry["log_start_moved"]) == ("planned", 4, None)
    assert dry["log_start_offset"] == 8
    assert any("brokers are asked to move the log start to offset 8" in n for n in dry["notes"])
    assert served.log_start == 0
    # A default is no reason.
    (unset,) = served.clean("--publish", "--canary", "off", *POLICY, "--dry-run").entries
    assert unset["expired"] == [], unset
    (done,) = served.expire().entries
    assert (done["outcome"], done["log_start_moved"]) == ("vacuumed", 8), done
    assert served.log_start == 8
    served.wait_until_gone({one.segment_id for one in before.segments[:4]})
    # Nothing else is lost, and the row follows.
    ran = served.expire()
    assert (ran.code, ran.entries[0]["log_start_moved"]) == (0, None), ran
    assert served.values() == LEFT
    served.goes_on()
    assert served.row.log_start_offset == 8
    assert served.values() == LEFT | {b"always": b"now"}


STEPS = [
    ("claim 1", False),
    ("claim 1", True),
    ("move 1", False),
    ("move 1", True),
    ("commit 1", False),
    ("commit 1", True),
]


@pytest.mark.soak
@pytest.mark.parametrize(("step", "is_done"), STEPS)
def test_killed_anywhere_the_next_run_goes_on(
    kafka: KafkaCluster, tmp_path: Path, step: str, *, is_done: bool
) -> None:
    name = f"kept-{step.replace(' ', '-')}-{is_done}"
    served = kept_topic(kafka, tmp_path, name)
    served.compact()
    with scripted_moves(killed(step, is_done=is_done)), pytest.raises(Killed):
        served.expire()
    moved = step.startswith("commit") or (step, is_done) == ("move 1", True)
    assert served.log_start == (8 if moved else 0)
    assert served.expire("--if-held", "take-over").code == 0
    assert served.log_start == 8
    served.goes_on()
    # What was replaced goes a grace period later.
    ran = served.clean("--publish", "--canary", "off", hours=1.5)
    assert ran.code == 0, ran
    kafka.wait(served.is_clean, "the brokers' own deletion")
    assert served.values() == LEFT | {b"always": b"now"}


@pytest.mark.soak
def test_an_answer_that_is_lost_is_no_loss(kafka: KafkaCluster, tmp_path: Path) -> None:
    served = kept_topic(kafka, tmp_path, "kept-unanswered")
    served.compact()
    silent = UnreadableObject("no answer", where="broker b", remedy="Run again.")
    with scripted_moves(fails("move 1", silent, is_done=True)):
        ran = served.expire()
    assert (ran.code, ran.entries[0]["outcome"]) == (3, "failed"), ran
    ran = served.expire()
    assert (ran.code, ran.entries[0]["log_start_moved"]) == (0, None), ran
    assert served.log_start == 8


@pytest.mark.soak
def test_a_topic_that_was_created_again_loses_nothing(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Between the look and the request: the newer topic has another id, and younger records."""
    served = kept_topic(kafka, tmp_path, "kept-again")
    served.compact()

    def again() -> None:
        served.topic.delete()
        kafka.create("kept-again")
        later = Topic(kafka, "kept-again", first_ms=time.time_ns() // 1_000_000 - 10 * HOUR_MS)
        for key in OF_HOURS:
            append(later, [(key, b"later"), (b"always", key)])

    with scripted_moves(at("move 1", again)):
        (entry,) = served.expire().entries
    assert (entry["outcome"], entry["log_start_moved"]) == ("failed", None), entry
    assert "the topic was deleted, or has another id now" in entry["reason"]
    assert kafka.admin() is not None
    assert Topic(kafka, "kept-again").offsets()[0] == 0


@pytest.mark.soak
def test_the_door_refuses_what_is_not_as_the_look_showed(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    served = kept_topic(kafka, tmp_path, "kept-by-the-door")
    served.compact()
    outcomes = []

    def tried(call: Call) -> None:
        connection, move, limit_ms = call.arguments
        row, taken = move.look.row, move.taken
        elsewhere = replace(row, served_by=(replace(row.served_by[0], cluster_id="o" * 22),))
        unlike = replace(move.look.offsets, log_start=3)
        for other, limit in (
            (replace(move, look=replace(move.look, row=elsewhere)), limit_ms),
            (replace(move, look=replace(move.look, offsets=unlike)), limit_ms),
            (replace(move, offset=10), limit_ms),
            (replace(move, rules=replace(move.rules, retention_written=frozenset())), limit_ms),
            (replace(move, taken=replace(taken, at_ms=taken.at_ms - 2 * limit_ms)), limit_ms),
            (replace(move, taken=replace(taken, at_ms=taken.at_ms + HOUR_MS)), limit_ms),
        ):
            outcomes.append(log_start_door.move_log_start(connection, other, limit))
        assert served.log_start == 0

    with scripted_moves(Rule(step="move 1", before=tried)):
        assert served.expire().entries[0]["log_start_moved"] == 8
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [log_start_door.ForbiddenMove] * 4 + [TooLate] * 2, outcomes
    says = ("another cluster", "brokers have offsets 0 to 20 now", "has not expired")
    for outcome, words in zip(outcomes, (*says, "has not expired"), strict=False):
        assert words in outcome.why


@pytest.mark.soak
def test_brokers_may_have_a_finite_retention_too(kafka: KafkaCluster, tmp_path: Path) -> None:
    served = kept_topic(kafka, tmp_path, "kept-twice")
    served.compact()
    alter(kafka, served.topic.name, {"retention.ms": str(int(8.5 * HOUR_MS))})
    kafka.wait(lambda: served.log_start == 4, "the brokers' own retention")
    assert served.expire().entries[0]["log_start_moved"] == 8
    served.goes_on()
    assert served.values() == LEFT | {b"always": b"now"}


@pytest.mark.soak
def test_without_the_right_nothing_is_claimed(kafka: KafkaCluster, tmp_path: Path) -> None:
    served = kept_topic(kafka, tmp_path, "kept-denied")
    served.compact()
    name, epoch = served.topic.name, served.row.epoch
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{name}={text}\n" for name, text in LOGIN.items()))
    server = kafka.servers_of("SASL")
    words = (*served._scope, "--grace-period", "1h", "--publish", "--canary", "off", "--json")
    words = (*words, *kept_for(6.5), "--bootstrap-server", server)
    rights = {
        *(one for one in LEAST if one.kind is not ResourceType.TOPIC or one.name == METADATA_TOPIC),
        Right(AclOperation.WRITE, METADATA_TOPIC),
        Right(AclOperation.DESCRIBE, name),
        Right(AclOperation.DESCRIBE_CONFIGS, name),
    }
    secured = (*words, "--command-config", str(properties))
    with granted(kafka, *rights):
        ran = command("vacuum", str(kafka.tier), *secured)
    (entry,) = ran.entries
    assert entry["outcome"] == "refused", ran
    assert f"the right Delete on topic {name} is missing" in entry["reason"]
    assert f"--operation Delete --topic {name}" in entry["reason"]
    assert (served.row.epoch, served.log_start) == (epoch, 0)
    with granted(kafka, *rights, Right(AclOperation.DELETE, name)):
        ran = command("vacuum", str(kafka.tier), *secured)
    assert ran.entries[0]["log_start_moved"] == 8, ran


@pytest.mark.soak
def test_where_no_retention_is_written_compact_and_vacuum_say_so(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    served = kept_topic(kafka, tmp_path, "kept-unwritten")
    served.compact()
    words = (*served._scope, *POLICY, "--json")
    (entry,) = tierfold(kafka, "plan", kafka.tier, *words).entries
    assert entry["outcome"] == "refused", entry
    assert "no retention.ms is written for it" in entry["reason"]
