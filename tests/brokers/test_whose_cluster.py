"""One catalog and the cluster that serves its tier: what `plan` and `vacuum` do beside brokers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_plan_beside_brokers import NO_MARGIN, Planned
from tests.brokers.test_status_of_brokers import tierfold, topic_of
from tests.jobs.claims import own_id_of
from tests.jobs.commands import Ran
from tests.storage.new_ids import foreign_id
from tierfold.compaction.commits.commit import ReleaseClaim, proposed
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import ServingCluster
from tierfold.jobs.settings.cluster_table import cluster_of
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.brokers.cluster_setup import cluster_setup
from tierfold.storage.brokers.connection import connected
from tierfold.storage.catalog.catalog import Catalog

AT_ONCE: Final = ("--grace-period", "0s", "--orphan-age", "0s", "--yes")
ANOTHER: Final = "o" * 21 + "A"


class Served(Planned):
    """A topic whose tier was compacted, with a catalog that may name its cluster."""

    @property
    def catalog(self) -> Catalog:
        return Catalog(self._scope[1])

    @property
    def row(self) -> PartitionState:
        (row,) = self.catalog.read().values()
        return row

    def vacuum(self, *more: str) -> Ran:
        words = (*self._scope, *AT_ONCE, *more, "--json")
        return tierfold(self.kafka, "vacuum", self.kafka.tier, *words)

    def note(self, **changes: Any) -> ServingCluster:
        """Let the row name this cluster, with changes."""
        row = self.row
        served = replace(found_cluster(self.kafka), **changes)
        at_ms = row.committed_at_ms
        named = replace(row, served_by=(served,))
        held = self.catalog.claim([named], "publisher", at_ms=at_ms)[row.key].row
        release = ReleaseClaim(run="publisher")
        self.catalog.commit([proposed(held, release, commit_id="r", at_ms=at_ms)])
        return served


def found_cluster(kafka: KafkaCluster) -> ServingCluster:
    """The cluster of the tests, as a look at it finds it."""
    settings = cluster_of({"bootstrap_server": kafka.servers}, resolve([]).cluster, {})
    assert settings is not None
    with connected(settings) as connection:
        topic = cluster_setup(connection).metadata_topic
        return ServingCluster(
            cluster_id=connection.cluster_id,
            metadata_topic_id=topic.topic_id,
            metadata_partitions=topic.partitions,
            place=f"{Path(kafka.tier).resolve()}/",
        )


def copied_as(topic_folder: Path, segment_id: str, new_id: str) -> None:
    for path in topic_folder.glob(f"*{segment_id}*"):
        shutil.copy2(path, path.with_name(path.name.replace(segment_id, new_id)))


def ids_in(folder: Path) -> set[str]:
    return {path.name[21:43] for path in folder.glob("0*")}


def test_beside_brokers_only_what_they_never_had_goes(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "vacuumed")
    served = Served(kafka, tmp_path, topic)
    uploads = ids_in(topic.folder())
    served.compact()
    (first,) = served.row.live_ids
    (young,) = tierfold(kafka, "vacuum", kafka.tier, *served._scope, "--json").entries
    assert young["reason"] == f"{len(uploads)} retired segments kept for brokers"
    topic.append([(b"key-0", b"new"), (b"key-9", b"value")])
    topic.wait_until_tiered()
    served.compact()
    (live,) = served.row.live_ids
    ours, theirs = own_id_of(served.catalog), foreign_id()
    for new in (ours, theirs):
        copied_as(topic.folder(), live, new)
    before = ids_in(topic.folder())
    (entry,) = served.vacuum().entries
    assert entry["outcome"] == "vacuumed", entry
    assert ids_in(topic.folder()) == before - {first, ours}
    assert uploads | {live, theirs} <= ids_in(topic.folder())
    assert f"so they stay: {len(before) - 4} retired" in "; ".join(entry["notes"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cluster_id": ANOTHER}, "the brokers given are those of cluster"),
        ({"metadata_topic_id": ANOTHER}, "it was deleted and made again"),
        ({"metadata_partitions": 999}, "the catalog noted 999"),
        ({"place": "/mnt/original/"}, "serves it from /mnt/original/, and TIER is"),
    ],
)
def test_a_row_of_another_cluster_is_refused_with_both_sides(
    kafka: KafkaCluster, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    name = f"refused-{next(iter(change)).replace('_', '-')}"
    served = Served(kafka, tmp_path, topic_of(kafka, name))
    served.compact()
    noted = served.note(**change)
    ((field, value),) = change.items()
    found = str(getattr(found_cluster(kafka), field))
    for ran in (served.plan(*NO_MARGIN), served.vacuum()):
        assert ran.code == 3
        (entry,) = ran.entries
        assert says in entry["reason"]
        assert str(value) in entry["reason"]
        assert found in entry["reason"]
    assert served.row.served_by == (noted,)
    if "place" in change:  # As the message says.
        assert served.plan(*NO_MARGIN, "--set", "tier.binding=moved").code == 0


def test_the_cluster_that_the_row_names_is_its_own(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = topic_of(kafka, "its-own")
    served = Served(kafka, tmp_path, topic)
    served.compact()
    before = ids_in(topic.folder())
    served.note()
    ran = served.alone("vacuum", *AT_ONCE, "--json")
    assert "Name its brokers with --bootstrap-server" in ran.entries[0]["reason"]
    assert served.plan(*NO_MARGIN).code == 0  # As the message says.
    (entry,) = served.vacuum().entries
    assert "so they stay: 3 retired" in "; ".join(entry["notes"])
    assert ids_in(topic.folder()) == before
