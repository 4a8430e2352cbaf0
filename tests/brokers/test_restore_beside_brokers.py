"""`restore` beside brokers: it shows what they have, and leaves what they serve as it is."""

from __future__ import annotations

from pathlib import Path

from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_status_of_brokers import tierfold, topic_of
from tests.brokers.test_whose_cluster import Served, copied_as
from tests.jobs.commands import Ran
from tests.jobs.commands import tierfold as command


class Restorable(Served):
    """A compacted topic, and the state before."""

    def restore(self, *more: str) -> Ran:
        *_, first = self.catalog.history(self.row.key)
        to = ("--to", str(first.committed_at_ms))
        words = (f"{self.topic.name}-0", *to, *self._scope[:2], *more)
        return tierfold(self.kafka, "restore", self.kafka.tier, *words)


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


def test_a_row_that_brokers_serve_is_restored_by_no_release_that_sends_nothing(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    tier = Restorable(kafka, tmp_path, topic_of(kafka, "served-and-restored"))
    tier.compact()
    tier.note()
    row = tier.row
    for more in ((), ("--dry-run",), ("--copy",)):
        ran = tier.restore(*more, "--json")
        (entry,) = ran.entries
        assert (ran.code, entry["outcome"]) == (3, "refused")
        assert "this release does not publish to them" in entry["reason"]
        assert entry["brokers"]["beside_catalog"]["not_served"]
    name = f"{tier.topic.name}-0"
    to = ("--to", str(row.committed_at_ms), *tier._scope[:2])
    alone = command("restore", str(kafka.tier), name, *to, "--json")
    assert "Name its brokers with --bootstrap-server" in alone.entries[0]["reason"]
    assert tier.row == row


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
