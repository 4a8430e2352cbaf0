"""`restore` beside brokers: it shows what they have, and publishes what they serve, or refuses."""

from __future__ import annotations

import re
import shlex
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_small_batches import BATCH_BYTES
from tests.brokers.test_status_of_brokers import brokers_of, differing, tierfold, topic_of
from tests.brokers.test_third_send import scripted_sends
from tests.brokers.test_whose_cluster import NO_MARGIN, Served, copied_as
from tests.brokers.topics import METADATA_TOPIC
from tests.jobs.commands import ALWAYS, Ran
from tests.jobs.commands import tierfold as command
from tests.storage.call_scripts import Killed, at, killed
from tierfold.compaction.verification.canary import Difference, Differs
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.publishing.canary_errors import canary_error
from tierfold.storage.catalog.runs_table import RunsTable

pytestmark = pytest.mark.usefixtures("own_note")

YOUNG = ("--set", "cleanup.policy=compact", "--set", "min.compaction.lag.ms=9999999999999")
"""Nothing is compacted."""


class Restorable(Served):
    """A compacted topic, and the state before."""

    def restore(self, *more: str, to_ms: int | None = None) -> Ran:
        """To the first state, or to that of an instant."""
        *_, first = self.catalog.history(self.row.key)
        to = ("--to", str(first.committed_at_ms if to_ms is None else to_ms))
        words = (f"{self.topic.name}-0", *to, *self._scope[:2], *more)
        return tierfold(self.kafka, "restore", self.kafka.tier, *words)

    def compacted(self, *more: str) -> Ran:
        words = (*NO_MARGIN, *self._scope, "--publish", "--canary", "off", *more, "--json")
        return tierfold(self.kafka, "compact", self.kafka.tier, *words)

    def publish(self) -> None:
        """Compact and publish; `was`: how many records consumers read before."""
        self.was = len(self.topic.read())
        ran = self.compacted(*ALWAYS)
        assert ran.code == 0, ran
        self.kafka.wait(lambda: len(self.topic.read()) < self.was, "the swap")

    def status(self) -> Ran:
        return tierfold(self.kafka, "status", self.kafka.tier, *self._scope, "--json")


def test_it_shows_what_brokers_have_and_restores_a_row_that_they_do_not_serve(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    tier = Restorable(kafka, tmp_path, topic_of(kafka, "restored"))
    originals = {path.stem[21:] for path in tier.topic.logs()}
    tier.compact()
    (ours,) = tier.row.live_ids
    (dry,) = tier.restore("--dry-run", "--json").entries
    assert dry["outcome"] == "planned"
    beside = dry["brokers"]["beside_catalog"]
    assert (beside["not_served"], {*beside["retired_but_served"]}) == ([ours], originals)
    shown = tier.restore("--dry-run").stdout
    assert "Brokers serve 3 of the former, and 0 of the latter." in shown
    (done,) = tier.restore("--json").entries
    assert done["outcome"] == "restored"
    assert tier.row.live_ids == originals


def test_a_row_that_brokers_serve_is_not_restored_without_publishing(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    tier = Restorable(kafka, tmp_path, topic_of(kafka, "served-and-restored"))
    tier.compact()
    tier.note()
    row = tier.row
    taken_out = tmp_path / "taken-out.toml"
    taken_out.write_text(f'[topics."{tier.topic.name}"]\npublish = false\n')
    for why, more in (
        ("publishing to them is not on", ()),
        ("publishing to them is not on", ("--dry-run",)),
        ("publishing to them is not on", ("--copy",)),
        ("publish is false in the topic's settings", ("--publish", "--config", str(taken_out))),
    ):
        ran = tier.restore(*more, "--json")
        (entry,) = ran.entries
        assert (ran.code, entry["outcome"]) == (3, "refused")
        assert why in entry["reason"]
        assert entry["brokers"]["beside_catalog"]["not_served"]
    name = f"{tier.topic.name}-0"
    to = ("--to", str(row.committed_at_ms), *tier._scope[:2])
    alone = command("restore", str(kafka.tier), name, *to, "--json")
    assert "Name its brokers with --bootstrap-server" in alone.entries[0]["reason"]
    assert tier.row == row


@pytest.fixture
def published(kafka: KafkaCluster, tmp_path: Path, request: Any) -> Restorable:
    """A topic that is compacted and published."""
    tier = Restorable(kafka, tmp_path, topic_of(kafka, request.node.name.replace("_", "-")[:60]))
    tier.publish()
    return tier


@pytest.mark.soak  # While it runs, brokers' own events may be too large, those of any topic.
def test_what_one_batch_cannot_hold_is_refused_before_anything_is_claimed(
    kafka: KafkaCluster, published: Restorable
) -> None:
    row = published.row
    alter(kafka, METADATA_TOPIC, {"max.message.bytes": str(BATCH_BYTES)})
    try:
        ran = published.restore("--publish", "--json")
    finally:
        alter(kafka, METADATA_TOPIC, {"max.message.bytes": None})
    (entry,) = ran.entries
    assert (ran.code, entry["outcome"]) == (3, "refused")
    assert "that takes 4 events, and one batch holds" in entry["reason"]
    assert published.row == row


@pytest.mark.soak
def test_consumers_read_again_what_was_there(kafka: KafkaCluster, published: Restorable) -> None:
    tier, row = published, published.row
    retired, compacted_ms = row.retired_ids, row.committed_at_ms
    assert len(tier.topic.read()) < tier.was
    shown = tier.restore("--publish", "--dry-run")
    last = tier.row.next_offset - 1
    assert f"Consumers would read offsets 0 to {last} again as they were" in shown.stdout
    # As a canary says it that finds a difference.
    found = Differs(offset=0, difference=Difference.MISSING)
    context = run_context(str(kafka.tier), tier._scope[1])
    remedy = canary_error(context, tier.row, found, kafka.servers).remedy
    (restore,) = re.findall("`tierfold (restore .*)` brings back what was there before", remedy)
    (entry,) = command(*shlex.split(restore), "--json").entries
    assert (entry["outcome"], entry["publishing"]) == ("restored", "published")
    assert entry["read_again"] == [{"start_offset": 0, "end_offset": last}]
    assert entry["events_sent"] == 3 + 4
    kafka.wait(lambda: len(tier.topic.read()) == tier.was, "the restore")
    assert not tier.row.live_ids & retired
    beside = brokers_of(tier.status(), tier.topic.name)
    assert differing(dict(beside)) == {}
    # To undo it would show deleted keys;
    (entry,) = tier.restore("--publish", "--json", to_ms=compacted_ms).entries
    assert entry["outcome"] == "refused", entry
    assert "it undoes another restore" in entry["reason"]
    assert entry["reason"].endswith("it ends with the same records.")
    # but another pass begins from there.
    tier.publish()
    kafka.wait(lambda: len(tier.topic.read()) < tier.was, "the compaction")


@pytest.mark.soak
def test_a_signal_ends_it_without_hiding_what_brokers_were_sent(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    tier = Restorable(kafka, tmp_path, topic_of(kafka, "restored-until-a-signal"))
    with pytest.raises(Killed), scripted_sends(killed("send 2")):
        tier.compacted(*ALWAYS)
    compacted_ids = tier.row.live_ids

    def stops() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    runs = RunsTable(tier._scope[1])
    # What is open is completed, and then nothing is restored;
    with scripted_sends(at("copy 1", stops)):
        assert tier.restore("--publish").code == 130
    assert (tier.row.live_ids, runs.read()[-1].outcome) == (compacted_ids, "left")
    assert runs.read()[-1].reason == "stopped by Ctrl-C (SIGINT); nothing was restored"
    # or it is restored, and nothing of that is sent.
    is_restored = at("look", stops).where(lambda *_: tier.row.live_ids != compacted_ids)
    with scripted_sends(is_restored):
        assert tier.restore("--publish").code == 130
    assert runs.read()[-1].outcome == "restored"
    assert "in the next run: stopped by Ctrl-C (SIGINT)" in runs.read()[-1].reason
    (entry,) = tier.compacted(*YOUNG).entries
    assert (entry["outcome"], entry["publishing"]) == ("published", "published")


@pytest.mark.soak
def test_compact_completes_a_restore_that_was_killed(
    kafka: KafkaCluster, published: Restorable
) -> None:
    tier = published
    with pytest.raises(Killed), scripted_sends(killed("send 2")):
        tier.restore("--publish", "--json")
    beside = brokers_of(tier.status(), tier.topic.name)
    assert beside["states"]["COPY_STARTED"]["segments"] == 3
    (entry,) = tier.compacted(*YOUNG).entries
    assert (entry["outcome"], entry["publishing"]) == ("published", "published")
    kafka.wait(lambda: len(tier.topic.read()) == tier.was, "the restore")


def test_what_does_not_fit_between_catalog_tier_and_brokers_refuses_it(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    tier = Restorable(kafka, tmp_path, topic_of(kafka, "restored-beside-strange"))
    tier.compact()
    copied_as(tier.topic.folder(), tier.topic.logs()[-1].stem[21:], "R" * 21 + "Q")
    ran = tier.restore("--json")
    assert ran.code == 3
    assert "--leave-alone RRRRRRRRRRRRRRRRRRRRRQ" in ran.entries[0]["reason"]


def test_a_topic_that_the_cluster_does_not_have_is_left_alone(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "restored-elsewhere")
    folder = topic.folder()
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    topic.delete()
    folder.mkdir(exist_ok=True)
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    words = (f"{topic.name}-0", "--to", "1", "--catalog", str(tmp_path / "catalog"), "--json")
    (entry,) = tierfold(kafka, "restore", kafka.tier, *words).entries
    assert entry["outcome"] == "nothing_to_do"
    assert entry["reason"] == "left alone: the cluster has no topic restored-elsewhere"
