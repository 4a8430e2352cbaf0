"""A catalog that was lost, set back or is another's: `forget` takes over what brokers have."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.published import added, row_of, send, swaps_of, updated
from tests.brokers.test_plan_beside_brokers import NO_MARGIN, Planned
from tests.brokers.test_status_of_brokers import tierfold, topic_of
from tests.brokers.test_whose_cluster import found_cluster
from tests.brokers.topics import Topic
from tests.jobs.claims import own_id_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.commits.commit import ReleaseClaim, proposed
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import ConsentKind
from tierfold.compaction.model.tier_service import TierService
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.locations import location_of, open_store
from tierfold.storage.tiers.service_notes import FOLDER, ServiceNotes
from tierfold.storage.tiers.store_options import ENVIRONMENT

HOUR_MS = 3_600_000
MOVED = ("--set", "tier.binding=moved")


class Swapped(Planned):
    """A topic that was compacted, and whose swaps were sent to the brokers."""

    def __init__(self, kafka: KafkaCluster, folder: Path, topic: Topic) -> None:
        super().__init__(kafka, folder, topic)
        self.catalog = folder / "catalog"
        self.compact()

    @property
    def row(self) -> PartitionState:
        return row_of(self.catalog, self.topic)

    def publish(self) -> None:
        for events in swaps_of(self.row):
            send(self.kafka, events)

    def forget(self, *more: str) -> Ran:
        return tierfold(
            self.kafka, "forget", self.kafka.tier, f"{self.topic.name}-0", "--catalog",
            self.catalog, "--json", *more,
        )

    def vacuum(self, *more: str) -> Ran:
        return tierfold(self.kafka, "vacuum", self.kafka.tier, *self._scope, *more, "--json")

    def lose(self) -> PartitionState:
        lost = self.row
        shutil.rmtree(self.catalog)
        return lost


@pytest.fixture
def tier(kafka: KafkaCluster) -> Iterator[Path]:
    """The cluster's tier, which other tests use, too: without a note afterwards."""
    yield kafka.tier
    shutil.rmtree(kafka.tier / FOLDER, ignore_errors=True)


@pytest.mark.soak
def test_a_catalog_that_is_lost_is_adopted(
    kafka: KafkaCluster, tier: Path, tmp_path: Path
) -> None:
    swapped = Swapped(kafka, tmp_path, topic_of(kafka, "adopted"))
    swapped.publish()
    assert swapped.plan(*NO_MARGIN).code == 0
    assert swapped.forget().entries[0]["outcome"] == "nothing_to_do"
    notes = ServiceNotes(open_store(location_of(str(tier), of="tier"), ENVIRONMENT))
    old = Catalog(str(swapped.catalog)).fingerprint()
    asked = tierfold(kafka, "status", "--topic", "adopted", "--json").document["cluster"]
    noted = TierService(
        cluster_id=asked["cluster_id"],
        fingerprint=old,
        place=f"{tier.resolve()}/",
        noted_at_ms=1,
    )
    elsewhere = replace(noted, place="/mnt/tier/")
    notes.write(elsewhere, notes.newest())
    lost = swapped.lose()
    copy = swapped.forget()
    assert copy.entries[0]["outcome"] == "refused"
    assert "this is a copy" in copy.entries[0]["reason"]
    assert swapped.forget("--dry-run", *MOVED).entries[0]["outcome"] == "planned"
    other = replace(elsewhere, cluster_id="another")
    notes.write(other, notes.newest())
    assert "this is a copy" in swapped.forget(*MOVED).entries[0]["reason"]
    notes.write(noted, notes.newest())
    refused = swapped.plan(*NO_MARGIN)
    assert refused.code == 3
    assert "another catalog" in refused.entries[0]["reason"]
    assert "tierfold forget" in refused.entries[0]["reason"]
    dry = swapped.forget("--dry-run")
    assert dry.entries[0]["outcome"] == "planned"
    assert not swapped.catalog.exists()
    done = swapped.forget()
    assert done.entries[0]["outcome"] == "forgotten", done
    row = swapped.row
    assert row.live_ids == lost.live_ids
    assert row.retired_ids == lost.retired_ids
    assert row.has_dropped
    assert [consent.kind for consent in row.consents] == [ConsentKind.ADOPTED]
    newest = notes.newest()
    assert newest is not None
    assert newest.service.fingerprint == Catalog(str(swapped.catalog)).fingerprint() != old
    assert swapped.plan(*NO_MARGIN).code == 0
    # Brokers serve what a run wrote, so only their cluster may change it.
    alone = swapped.alone("compact", *ALWAYS, "--engine", "local", "--json")
    assert "--bootstrap-server" in alone.entries[0]["reason"]


def test_a_run_that_died_between_its_sends_is_rolled_forward(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    swapped = Swapped(kafka, tmp_path, topic_of(kafka, "half-sent"))
    send(kafka, swaps_of(swapped.row)[0])
    lost = swapped.lose()
    done = swapped.forget()
    assert done.entries[0]["outcome"] == "forgotten", done
    assert swapped.row.live_ids == lost.live_ids
    assert swapped.row.retired_ids == lost.retired_ids


@pytest.mark.soak
def test_a_half_sent_segment_without_objects_waits_for_the_grace_period(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    swapped = Swapped(kafka, tmp_path, topic_of(kafka, "half-written"))
    send(kafka, swaps_of(swapped.row)[0])
    lost = swapped.lose()
    (ours,) = lost.live_ids
    for path in swapped.topic.folder().glob(f"*{ours}*"):
        path.unlink()
    waits = swapped.forget()
    assert waits.entries[0]["outcome"] == "refused"
    assert ours in waits.entries[0]["reason"]
    later = swapped.forget(CLOCK, str(lost.committed_at_ms + 2 * HOUR_MS))
    assert later.entries[0]["outcome"] == "forgotten", later
    assert swapped.row.live_ids == lost.retired_ids
    assert swapped.row.retired_ids == {ours}


@pytest.mark.soak
def test_two_late_sends_lose_nothing(kafka: KafkaCluster, tmp_path: Path) -> None:
    """They finish a replacement whose objects are gone; another one has all of its records."""
    swapped = Swapped(kafka, tmp_path, topic_of(kafka, "two-late-sends"))
    swapped.publish()
    row = swapped.row
    (ours,) = (one for one in row.segments if not one.is_upload)
    late = replace(ours, segment_id=own_id_of(Catalog(str(swapped.catalog))))
    finished = updated(row.key, late.segment_id, SegmentState.COPY_FINISHED)
    send(kafka, [added(row.key, late), finished])
    assert "it was set back" in swapped.plan(*NO_MARGIN).entries[0]["reason"]
    done = swapped.forget()
    assert done.entries[0]["outcome"] == "forgotten", done
    assert swapped.row.live_ids == row.live_ids
    assert late.segment_id in swapped.row.retired_ids


@pytest.mark.soak
def test_a_catalog_that_is_set_back_on_a_tier_that_moved(
    kafka: KafkaCluster, tier: Path, tmp_path: Path
) -> None:
    """Two words of a person in one commit: neither verb alone leads out."""
    swapped = Swapped(kafka, tmp_path, topic_of(kafka, "set-back-and-moved"))
    shutil.copytree(swapped.catalog, tmp_path / "earlier")
    swapped.topic.append([(b"key-0", b"new")])
    swapped.topic.wait_until_tiered()
    swapped.compact()
    swapped.publish()
    lost = swapped.row
    shutil.rmtree(swapped.catalog)
    (tmp_path / "earlier").rename(swapped.catalog)
    here = named_elsewhere(kafka, swapped, "/mnt/elsewhere/")
    assert "set tier.binding=moved" in swapped.forget().entries[0]["reason"]
    ran = swapped.vacuum("--dry-run", *MOVED)
    assert "it was set back" in ran.entries[0]["reason"]
    done = swapped.forget(*MOVED)
    assert done.entries[0]["outcome"] == "forgotten", done
    row = swapped.row
    assert row.live_ids == lost.live_ids
    assert [one.kind for one in row.consents] == [ConsentKind.ADOPTED, ConsentKind.MOVED]
    assert row.cluster is not None
    assert row.cluster.place == here
    notes = ServiceNotes(open_store(location_of(str(tier), of="tier"), ENVIRONMENT))
    newest = notes.newest()
    assert newest is not None
    assert newest.service.place == here
    assert swapped.plan(*NO_MARGIN).code == 0
    assert swapped.vacuum().code == 0


def named_elsewhere(kafka: KafkaCluster, swapped: Swapped, place: str) -> str:
    """Let row and note name this cluster and another place; return the place given as TIER."""
    found, row = found_cluster(kafka), swapped.row
    catalog = Catalog(str(swapped.catalog))
    served = replace(row, served_by=(replace(found, place=place),))
    held = catalog.claim([served], "publisher", at_ms=row.committed_at_ms)[row.key].row
    release = ReleaseClaim(run="publisher")
    catalog.commit([proposed(held, release, commit_id="r", at_ms=row.committed_at_ms)])
    notes = ServiceNotes(open_store(location_of(str(kafka.tier), of="tier"), ENVIRONMENT))
    service = TierService(
        cluster_id=found.cluster_id,
        fingerprint=catalog.fingerprint(),
        place=place,
        noted_at_ms=1,
    )
    notes.write(service, notes.newest())
    return found.place
