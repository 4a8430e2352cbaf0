"""One catalog and the cluster that serves its tier: what `plan` and `vacuum` do beside brokers."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.brokers.altered_settings import alter, carry_out
from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_plan_beside_brokers import NO_MARGIN, Planned
from tests.brokers.test_status_of_brokers import tierfold, topic_of
from tests.brokers.topics import METADATA_TOPIC
from tests.jobs.claims import own_id_of
from tests.jobs.commands import CLOCK, Ran
from tests.storage.new_ids import foreign_id
from tierfold.compaction.commits.commit import ReleaseClaim, proposed
from tierfold.compaction.deletion.deletion_plan import VacuumLimits
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import ConsentKind, ServingCluster
from tierfold.compaction.model.tier_service import TierService
from tierfold.jobs.api.opening import opened
from tierfold.jobs.settings.cluster_table import cluster_of
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.vacuum import vacuum
from tierfold.storage.brokers.cluster_setup import cluster_setup
from tierfold.storage.brokers.connection import connected
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.locations import location_of, open_store
from tierfold.storage.tiers.service_notes import FOLDER, NumberedNote, ServiceNotes
from tierfold.storage.tiers.store_options import ENVIRONMENT

AN_HOUR: Final = ("--grace-period", "1h", "--orphan-age", "0s", "--yes")
HOUR_MS: Final = 3_600_000
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
        """A vacuum two hours later."""
        later = (CLOCK, str(time.time_ns() // 1_000_000 + 2 * HOUR_MS))
        words = (*self._scope, *AN_HOUR, *more, *later, "--json")
        return tierfold(self.kafka, "vacuum", self.kafka.tier, *words)

    def leave_alone(self, segment_id: str, *more: str) -> Ran:
        words = (f"{self.topic.name}-0", *self._scope[:2], "--leave-alone", segment_id)
        return tierfold(self.kafka, "forget", self.kafka.tier, *words, *more, "--json")

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
        pytest.param(
            {"metadata_topic_id": ANOTHER}, "it was deleted and made again", marks=pytest.mark.soak
        ),
        pytest.param({"metadata_partitions": 999}, "the catalog noted 999", marks=pytest.mark.soak),
        pytest.param(
            {"place": "/mnt/original/"},
            "serves it from /mnt/original/, and TIER is",
            marks=pytest.mark.soak,
        ),
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


@pytest.fixture
def notes(kafka: KafkaCluster) -> Iterator[ServiceNotes]:
    """The notes of the cluster's tier, which other tests use, too: without any afterwards."""
    yield ServiceNotes(open_store(location_of(str(kafka.tier), of="tier"), ENVIRONMENT))
    shutil.rmtree(kafka.tier / FOLDER, ignore_errors=True)


@pytest.mark.soak
def test_a_tier_that_moved_is_noted_once(
    kafka: KafkaCluster, tmp_path: Path, notes: ServiceNotes
) -> None:
    topic = topic_of(kafka, "moved")
    served = Served(kafka, tmp_path, topic)
    served.compact()
    there = served.note(place="/mnt/original/")
    note = TierService(
        cluster_id=there.cluster_id,
        fingerprint=served.catalog.fingerprint(),
        place=there.place,
        noted_at_ms=1,
    )
    notes.write(note, None)
    before = ids_in(topic.folder())
    moved = ("--set", "tier.binding=moved")
    (entry,) = served.vacuum().entries
    assert "set tier.binding=moved: `tierfold vacuum` then notes the new place" in entry["reason"]
    alone = served.alone("vacuum", *AN_HOUR, *moved, "--json")
    assert "name its brokers" in alone.entries[0]["reason"]
    assert served.plan(*NO_MARGIN, *moved).code == 0  # It only reads.
    (dry,) = served.vacuum("--dry-run", *moved).entries
    assert dry["outcome"] == "planned"
    here = found_cluster(kafka).place
    says = f"only the tier's new place, {here}, is noted; the next run deletes"
    assert dry["notes"] == [says]
    assert notes.newest() == NumberedNote(number=1, service=note)
    assert served.plan(*NO_MARGIN).code == 3
    (entry,) = served.vacuum(*moved).entries
    assert (entry["outcome"], entry["notes"]) == ("vacuumed", [says])
    assert served.row.served_by == (found_cluster(kafka),)
    assert [consent.kind for consent in served.row.consents] == [ConsentKind.MOVED]
    newest = notes.newest()
    assert newest is not None
    assert (newest.number, newest.service.place) == (2, here)
    assert ids_in(topic.folder()) == before
    # From now on nothing needs to be said.
    assert served.plan(*NO_MARGIN).code == 0
    for more in ((), moved):
        (entry,) = served.vacuum(*more).entries
        assert "so they stay: 3 retired" in "; ".join(entry["notes"])
    assert [consent.kind for consent in served.row.consents] == [ConsentKind.MOVED]
    assert notes.newest() == newest


def test_the_cluster_that_the_row_names_is_its_own(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = topic_of(kafka, "its-own")
    served = Served(kafka, tmp_path, topic)
    served.compact()
    before = ids_in(topic.folder())
    served.note()
    ran = served.alone("vacuum", *AN_HOUR, "--json")
    assert "Name its brokers with --bootstrap-server" in ran.entries[0]["reason"]
    assert served.plan(*NO_MARGIN).code == 0  # As the message says.
    (entry,) = served.vacuum().entries
    assert "so they stay: 3 retired" in "; ".join(entry["notes"])
    assert ids_in(topic.folder()) == before


@pytest.mark.soak
def test_each_commit_beside_brokers_notes_that_the_tier_moved(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "moved-and-strange")
    served = Served(kafka, tmp_path, topic)
    served.compact()
    served.note(place="/mnt/original/")
    copied_as(topic.folder(), topic.logs()[-1].stem[21:], "S" * 21 + "Q")
    assert served.leave_alone("S" * 21 + "Q").code == 3
    ran = served.leave_alone("S" * 21 + "Q", "--set", "tier.binding=moved")
    assert ran.entries[0]["outcome"] == "forgotten", ran
    given = [consent.kind for consent in served.row.consents]
    assert given == [ConsentKind.LEFT_ALONE, ConsentKind.MOVED]
    assert served.row.served_by == (found_cluster(kafka),)
    assert served.plan(*NO_MARGIN).code == 0


@pytest.mark.soak
def test_where_another_run_writes_the_note_meanwhile_no_row_changes(
    kafka: KafkaCluster, tmp_path: Path, notes: ServiceNotes
) -> None:
    served = Served(kafka, tmp_path, topic_of(kafka, "moved-twice"))
    served.compact()
    there = served.note(place="/mnt/original/")
    note = TierService(
        cluster_id=there.cluster_id,
        fingerprint=served.catalog.fingerprint(),
        place=there.place,
        noted_at_ms=1,
    )
    notes.write(note, None)

    def clock() -> int:
        notes.write(replace(note, fingerprint=1), notes.newest())
        return 5

    given = {
        "catalog": served._scope[1],
        "bootstrap_server": kafka.servers,
        "topics": "moved-twice",
        "settings": ["tier.binding=moved"],
    }
    tools = opened(kafka.tier, given, asks_brokers=True)
    context = replace(tools.context, clock=clock)
    limits = VacuumLimits(now_ms=context.now_ms)
    (found,) = vacuum(context, tools.settings, tools.scope, limits)
    assert found.outcome == "refused"
    assert "another run changed the note" in found.reason
    assert served.row.served_by == (there,)


@pytest.mark.soak
def test_the_grace_period_of_the_call_counts_where_brokers_serve(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    served = Served(kafka, tmp_path, topic_of(kafka, "graceful"))
    served.compact()
    half = ("--grace-period", "30m")
    assert served.vacuum(*half).code == 0
    served.note()
    ran = served.vacuum(*half)
    assert ran.code == 3
    assert "Set --grace-period 60m, or more" in ran.entries[0]["reason"]
    assert served.vacuum("--grace-period", "1h").code == 0
    with altered(kafka, "message.timestamp.before.max.ms", str(2 * HOUR_MS)):
        assert served.plan(*NO_MARGIN).code == 0
        assert served.vacuum("--grace-period", "4h").code == 0
        (entry,) = served.vacuum("--grace-period", "3h").entries
        assert entry["outcome"] == "refused"
        assert "before.max.ms is 7200000 on" in entry["reason"]
        command = re.search(r"`(kafka-configs[^`]+)`", entry["reason"])
        assert command is not None
        carry_out(kafka, command[1])
        assert served.vacuum("--grace-period", "3h").code == 0


@contextmanager
def altered(kafka: KafkaCluster, name: str, text: str) -> Iterator[None]:
    """The metadata topic with another value of a setting, and afterwards with half an hour."""
    alter(kafka, METADATA_TOPIC, {name: text})
    yield
    alter(kafka, METADATA_TOPIC, {name: str(HOUR_MS // 2)})
