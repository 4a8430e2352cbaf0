"""`vacuum --publish` beside a real broker: objects go, then brokers are sent that they are gone.

The machine's clock of a run is set hours ahead. What brokers note of its events is theirs: the
client dates records with the real clock.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.published import added, send, updated
from tests.brokers.test_status_of_brokers import RECORDS, brokers_of, tierfold, topic_of
from tests.brokers.test_whose_cluster import HOUR_MS, NO_MARGIN, Served, copied_as, ids_in
from tests.brokers.topics import FIRST_MS, Topic
from tests.jobs.claims import own_id_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran
from tests.jobs.scripted_runs import scripted
from tests.storage.call_scripts import Killed, Rule, at, killed
from tests.storage.new_ids import foreign_id
from tierfold.compaction.brokers.events import SegmentState
from tierfold.jobs.publishing import canary
from tierfold.storage.brokers.event_door import EventDoor
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid
from tierfold.storage.tiers.service_notes import FOLDER

pytestmark = pytest.mark.usefixtures("own_note")

DELETE_STARTED = SegmentState.DELETE_STARTED
PUBLISH = ("--publish", "--canary", "off")


class Published(Served):
    """A topic whose swaps are published, by runs with clocks that are hours ahead."""

    hours = 0.0

    @property
    def clock(self) -> tuple[str, str]:
        now_ms = time.time_ns() // 1_000_000
        return CLOCK, str(now_ms + int(self.hours * HOUR_MS))

    def publish(self, *more: str) -> dict[str, Any]:
        words = (*ALWAYS, *NO_MARGIN, *self._scope, *PUBLISH, *self.clock, *more, "--json")
        ran = tierfold(self.kafka, "compact", self.kafka.tier, *words)
        assert ran.code == 0, ran
        return ran.entries[0]

    def clean(self, *more: str, hours: float = 0) -> Ran:
        """A vacuum so much later than the run before, with the shortest grace period."""
        self.hours += hours
        words = (*self._scope, "--grace-period", "1h", *self.clock, *more, "--json")
        return tierfold(self.kafka, "vacuum", self.kafka.tier, *words)

    def verify(self, tier: Path) -> dict[str, Any]:
        """What a verify of the tier, or of a copy, finds."""
        words = (*self._scope, "--engine", "local", "--json")
        (entry,) = tierfold(self.kafka, "verify", tier, *words).entries
        return entry

    def states(self) -> dict[str, int]:
        """How many segments brokers have, by state."""
        ran = tierfold(self.kafka, "status", self.kafka.tier, *self._scope, "--json")
        states = brokers_of(ran, self.topic.name)["states"]
        return {state: found["segments"] for state, found in states.items()}

    def values(self) -> dict[bytes | None, bytes | None]:
        return {record.key: record.value for record in self.topic.read()}

    def is_clean(self) -> bool:
        """Whether only live segments are left: in the tier, in the row and with brokers."""
        live = self.row.live_ids
        has_only_live = self.states() == {
            "COPY_STARTED": 0,
            "COPY_FINISHED": len(live),
            "DELETE_STARTED": 0,
        }
        return ids_in(self.topic.folder()) == live and self.row.retired == () and has_only_live


def still_local(kafka: KafkaCluster, name: str) -> Topic:
    """A topic with three uploads, of which brokers have local copies for half an hour."""
    topic = kafka.create(name)
    local_ms = time.time_ns() // 1_000_000 - FIRST_MS + HOUR_MS // 2
    alter(kafka, name, {"local.retention.ms": str(local_ms)})
    for _ in range(4):
        topic.append(RECORDS)
    kafka.wait(lambda: len(topic.logs()) == 3, "three uploads")
    return topic


@contextmanager
def scripted_sends(*rules: Rule) -> Iterator[None]:
    """As `scripted`, the sends of this block under the same script."""
    with scripted(*rules) as script, pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventDoor, "send", script.around("send", EventDoor.send))
        yield


def test_what_was_replaced_goes_and_brokers_forget_it(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "third-send")
    served = Published(kafka, tmp_path, topic)
    uploads, before = ids_in(topic.folder()), served.values()
    planned = served.publish("--dry-run")
    assert planned["superseded_gone_at"] is None
    assert "go a grace period (1 d) after brokers list them" in planned["superseded_note"]
    published = served.publish()
    assert "`tierfold vacuum --publish` after" in published["superseded_note"]
    assert served.states()["DELETE_STARTED"] == 3
    sound = served.verify(kafka.tier)
    assert any("read through brokers agree with the tier" in one for one in sound["notes"])
    (entry,) = served.plan(*NO_MARGIN).entries
    assert entry["superseded_gone_at"] == published["superseded_gone_at"] is not None
    # Not before the grace period is over,
    young = served.clean("--publish", hours=0.9)
    assert (young.entries[0]["outcome"], young.entries[0]["events_sent"]) == ("nothing_to_do", 0)
    assert "3 retired segments wait" in young.entries[0]["reason"]
    # not without a person's word,
    unsent = served.clean("--no-publish", hours=0.2).entries[0]
    assert any("3 segments that brokers list for deletion kept" in one for one in unsent["notes"])
    # not if the topic is taken out,
    out = tmp_path / "out.toml"
    out.write_text(f'[topics."{topic.name}"]\n"publish" = false\n')
    taken_out = served.clean("--publish", "--config", str(out)).entries[0]
    assert any("publish is false in the settings" in one for one in taken_out["notes"])
    # not before a canary has counted, or a person answered for it when it was published,
    kept = (kafka.tier / FOLDER).rename(tmp_path / "notes")
    for words in (("--publish",), PUBLISH):
        unproven = served.clean(*words).entries[0]
        assert (unproven["outcome"], unproven["events_sent"]) == ("left", 0)
        assert "no canary has shown yet" in unproven["reason"]
    kept.rename(kafka.tier / FOLDER)
    # and not by a dry run, which shows bytes and events.
    dry = served.clean("--publish", "--dry-run").entries[0]
    assert (dry["outcome"], dry["events_planned"], dry["events_sent"]) == ("planned", 3, 0)
    assert {one["segment_id"] for one in dry["objects"]} == uploads
    assert ids_in(topic.folder()) == uploads | served.row.live_ids
    done = served.clean("--publish")
    assert (done.entries[0]["outcome"], done.entries[0]["events_sent"]) == ("vacuumed", 3), done
    assert done.entries[0]["object_bytes"] == dry["object_bytes"]
    assert served.is_clean()
    assert served.values() == before
    again = served.clean("--publish").entries[0]
    assert (again["outcome"], again["events_sent"]) == ("nothing_to_do", 0)


@pytest.mark.soak
def test_nothing_goes_while_a_broker_still_gives_what_was_dropped(
    kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the run's clock, which is ahead, local copies are gone; the broker still has them."""
    monkeypatch.setattr(canary, "CONFIRM_S", -1.0)
    topic = still_local(kafka, "third-send-stale")
    served = Published(kafka, tmp_path, topic)
    served.publish()
    retired = served.row.retired_ids
    ran = served.clean("--publish", hours=5)
    (entry,) = ran.entries
    assert (ran.code, entry["outcome"], entry["events_sent"]) == (3, "failed", 0), ran
    assert "brokers still give the record at offset 0, which was dropped" in entry["reason"]
    assert "Nothing of this partition is deleted." in entry["reason"]
    assert entry["reason"].endswith("nothing was deleted")
    assert retired <= ids_in(topic.folder())
    assert served.row.marked_ids == frozenset()
    # A person may go on without a canary.
    (entry,) = served.clean("--publish", "--canary", "off").entries
    assert (entry["outcome"], entry["events_sent"]) == ("vacuumed", 3), entry
    assert any("no canary was read before the deletion" in note for note in entry["notes"])


def of_deleted(ran: Ran, topic: Topic, again: Topic) -> dict[str, Any]:
    """What a run that refuses nothing says of a topic that was deleted and made again."""
    assert ran.code == 0, ran
    (gone,) = (entry for entry in ran.entries if entry["topic_id"] == topic.id)
    assert "was deleted" in gone["reason"], gone
    assert again.id in gone["reason"], gone
    return gone


@pytest.mark.soak
def test_of_a_deleted_topic_goes_what_tierfold_wrote(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Also once there is another one of its name, which goes on."""
    topic = topic_of(kafka, "topic-gone")
    served = Published(kafka, tmp_path, topic)
    served.publish()
    folder, row = topic.folder(), served.row
    (live,) = row.live_ids
    ours, theirs, upload = own_id_of(served.catalog), foreign_id(), new_kafka_uuid()
    shutil.copytree(folder, kept := tmp_path / "kept")
    topic.delete()
    kafka.wait(lambda: not ids_in(folder), "the brokers' own deletion")
    again = topic_of(kafka, "topic-gone")
    shutil.copytree(kept, folder, dirs_exist_ok=True)  # As if brokers had died meanwhile.
    for new in (ours, theirs, upload):
        copied_as(folder, live, new)
    local = ("--engine", "local")
    for verb, words, outcome in (
        ("plan", ALWAYS, "nothing_to_do"),
        ("compact", (*ALWAYS, *local), "nothing_to_do"),
        ("vacuum", ("--no-publish",), "nothing_to_do"),
        ("verify", local, "left"),
    ):
        ran = tierfold(kafka, verb, kafka.tier, *words, *served._scope, "--json")
        gone = of_deleted(ran, topic, again)
        assert gone["outcome"] == outcome, gone
        assert "`tierfold vacuum --publish` deletes what tierfold wrote of it" in gone["reason"]
    ran = tierfold(kafka, "status", kafka.tier, *served._scope, "--json")
    assert of_deleted(ran, topic, again)["outcome"] == "ok"
    # Not while its brokers may still be at work, and not by a dry run.
    gone = of_deleted(served.clean("--publish", hours=20), topic, again)
    assert "its brokers may still delete their part, until 2" in gone["reason"]
    before = ids_in(folder)
    dry = served.clean("--publish", "--dry-run", hours=20)
    (gone,) = (entry for entry in dry.entries if entry["topic_id"] == topic.id)
    assert (gone["outcome"], gone["events_planned"]) == ("planned", 0), gone
    assert {one["segment_id"] for one in gone["objects"]} == {live, ours}
    assert ids_in(folder) == before
    done = served.clean("--publish")
    (gone,) = (entry for entry in done.entries if entry["topic_id"] == topic.id)
    assert (done.code, gone["outcome"], gone["events_sent"]) == (0, "vacuumed", 0), done
    assert ids_in(folder) == before - {live, ours}
    left = f"{len(row.retired_ids) + 2} segments kept that this catalog's runs did not write"
    assert left in gone["notes"][0]
    of_deleted(served.clean("--publish"), topic, again)
    assert served.catalog.read()[row.key].named_ids == row.retired_ids
    assert len(again.logs()) == 3


STEPS = [
    ("commit 1", True),
    ("delete 5", False),
    ("send 1", False),
    ("send 1", True),
    ("commit 2", False),
    ("commit 2", True),
]


@pytest.mark.soak
def test_killed_anywhere_the_next_vacuum_goes_on(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = topic_of(kafka, "third-send-killed")
    served = Published(kafka, tmp_path, topic)
    for number, (step, is_done) in enumerate(STEPS):
        topic.append([*RECORDS, (b"key-%d" % number, b"new")])
        topic.wait_until_tiered()
        before = served.values()
        served.publish()
        with scripted_sends(killed(step, is_done=is_done)), pytest.raises(Killed):
            served.clean("--publish", hours=1.5)
        marked = served.row.marked_ids
        gone = {one for one in served.row.retired_ids if one not in ids_in(topic.folder())}
        assert gone <= marked, (step, is_done)
        assert served.values() == before
        ran = served.clean("--publish", hours=1.5)
        assert ran.code == 0, ran
        assert served.is_clean(), (step, is_done, ran)
        assert served.values() == before


@pytest.mark.soak
def test_a_deletion_that_is_dated_in_the_future_begins_again(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Listed by a machine whose clock was ahead."""
    topic = topic_of(kafka, "third-send-future")
    served = Published(kafka, tmp_path, topic)
    served.publish()
    row = served.row
    listed = [updated(row.key, one, DELETE_STARTED) for one in sorted(row.retired_ids)]
    send(kafka, listed, ahead_ms=HOUR_MS // 2)
    (entry,) = served.clean("--publish").entries
    assert (entry["outcome"], entry["events_sent"]) == ("vacuumed", 3), entry
    assert any("dated in the future: brokers are sent it once more" in n for n in entry["notes"])
    assert served.row.retired_ids == row.retired_ids
    assert served.states()["DELETE_STARTED"] == 3
    # From then on the grace period counts, not from what the other clock said.
    (entry,) = served.clean("--publish", hours=1.2).entries
    assert (entry["outcome"], entry["events_sent"]) == ("vacuumed", 3), entry
    assert served.is_clean()


@pytest.mark.soak
def test_what_brokers_deleted_themselves_is_no_error(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """DeleteRecords past the listed segments: brokers delete them, before the grace period."""
    topic = topic_of(kafka, "third-send-passed")
    served = Published(kafka, tmp_path, topic)
    uploads = ids_in(topic.folder())
    served.publish()
    for value in (b"new", b"newer"):
        topic.append([(b"key-0", value)])
    topic.wait_until_tiered()
    topic.delete_records(12)
    kafka.wait(lambda: not ids_in(topic.folder()) & uploads, "the brokers' own deletion")
    ran = served.clean("--publish", hours=1.5)
    assert ran.code == 0, ran
    assert ran.entries[0]["outcome"] == "vacuumed", ran
    assert not served.row.retired_ids & uploads, ran


@pytest.mark.soak
def test_what_brokers_learn_between_survey_and_claim_counts(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "third-send-meanwhile")
    served = Published(kafka, tmp_path, topic)
    uploads = ids_in(topic.folder())
    served.publish()
    key, (live,) = served.row.key, served.row.segments
    listed = [updated(key, one, DELETE_STARTED) for one in sorted(uploads)]
    again = at("claim 1", lambda: send(kafka, listed, ahead_ms=HOUR_MS * 3 // 4))
    with scripted_sends(again):
        (entry,) = served.clean("--publish", hours=1.5).entries
    assert (entry["outcome"], entry["events_sent"]) == ("vacuumed", 0), entry
    assert served.row.marked_ids == frozenset()
    assert uploads <= ids_in(topic.folder())
    # A first send that no row remembers arrives: `compact` drops it before anything goes.
    forgotten = replace(live, segment_id=own_id_of(served.catalog))
    late = at("claim 1", lambda: send(kafka, [added(key, forgotten)]))
    with scripted_sends(late):
        (entry,) = served.clean("--publish", hours=1.5).entries
    assert (entry["outcome"], entry["events_sent"]) == ("left", 0), entry
    assert "`tierfold compact` completes it" in entry["reason"]
    assert served.row.marked_ids == frozenset()


@pytest.mark.soak
def test_verify_reads_a_sample_through_brokers(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = topic_of(kafka, "verified-through")
    served = Published(kafka, tmp_path, topic)
    served.publish()
    (live,) = served.row.live_ids
    shutil.copytree(kafka.tier, copy := tmp_path / "copy")
    (log,) = topic.folder().glob(f"*{live}.log")
    log.rename(kept := tmp_path / "kept.log")
    found = served.verify(copy)
    assert found["outcome"] == "failed", found
    assert "to consumers at offset 0" in found["reason"], found
    # Unless another run has changed the row meanwhile.
    with scripted(at("look 2", served.note)):
        found = served.verify(copy)
    assert found["outcome"] == "sound", found
    assert any("a commit changed the partition while it was" in note for note in found["notes"])
    kept.rename(log)
    assert served.verify(copy)["outcome"] == "sound"
    # What is not published yet is no corruption.
    topic.append(RECORDS)
    topic.wait_until_tiered()
    with scripted_sends(killed("send 1", is_done=True)), pytest.raises(Killed):
        served.publish()
    found = served.verify(kafka.tier)
    assert found["outcome"] == "sound", found
    assert any("do not have all of it yet" in note for note in found["notes"])


@pytest.mark.soak
def test_a_swap_that_is_half_done_is_left_to_compact(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "third-send-half")
    served = Published(kafka, tmp_path, topic)
    served.publish()
    (live,) = served.row.live_ids
    topic.append(RECORDS)
    topic.wait_until_tiered()
    with scripted_sends(killed("send 1", is_done=True)), pytest.raises(Killed):
        served.publish()
    before = ids_in(topic.folder())
    ran = served.clean("--publish", hours=1.5)
    (entry,) = ran.entries
    assert (ran.code, entry["outcome"], entry["events_sent"]) == (0, "left", 0)
    assert "`tierfold compact` completes it" in entry["reason"]
    assert ids_in(topic.folder()) == before
    served.publish()
    assert served.clean("--publish", hours=1.5).code == 0
    assert served.is_clean()
    assert live not in ids_in(topic.folder())
