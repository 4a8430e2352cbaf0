"""What does not fit between brokers, catalog and tier: what a refusal says is done, and leads out.

Others: `test_plan_beside_brokers`, `test_forget_beside_brokers`, `test_whose_cluster`,
`test_cut_logs`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.published import send, swaps_of
from tests.brokers.test_forget_beside_brokers import Swapped, tier
from tests.brokers.test_plan_beside_brokers import NO_MARGIN, Planned
from tests.brokers.test_status_of_brokers import topic_of
from tests.brokers.topics import Topic
from tests.jobs.commands import ALWAYS, tierfold, told
from tierfold.compaction.commits.commit import ReleaseClaim, StartDeletion, proposed
from tierfold.compaction.model.tier_service import TierService
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.locations import location_of, open_store
from tierfold.storage.tiers.service_notes import FOLDER, ServiceNotes
from tierfold.storage.tiers.store_options import ENVIRONMENT

__all__ = ["tier"]  # A fixture.

COPIED_ID = "A" * 21 + "Q"


def refused(planned: Planned, *words: str) -> None:
    ran = planned.plan(*NO_MARGIN)
    (entry,) = ran.entries
    assert (ran.code, entry["outcome"]) == (3, "refused"), entry
    assert not told(entry["reason"], *words), entry["reason"]


def is_sound(planned: Planned) -> None:
    """Nothing is refused, and `verify` finds nothing wrong."""
    ran = planned.plan(*NO_MARGIN)
    assert ran.code == 0, ran
    ran = planned.alone("verify", "--engine", "local", "--json")
    assert ran.entries[0]["outcome"] == "sound", ran


def adopted(swapped: Swapped) -> None:
    """`forget` takes over what brokers have."""
    assert swapped.forget("--dry-run").entries[0]["outcome"] == "planned"
    done = swapped.forget()
    assert done.entries[0]["outcome"] == "forgotten", done
    is_sound(swapped)


def restored(swapped: Swapped) -> None:
    """Let the uploads be live again in the catalog."""
    words = (swapped.kafka.tier, f"{swapped.topic.name}-0", "--catalog", swapped.catalog)
    (entry,) = tierfold("history", *words, "--json").entries
    first_ms = entry["history"][-1]["committed_at_ms"]
    ran = tierfold("restore", *words, "--to", str(first_ms))
    assert ran.code == 0, ran
    assert all(segment.is_upload for segment in swapped.row.segments)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Where objects are kept that were moved out of the tier."""
    (folder := tmp_path / "kept").mkdir()
    return folder


def moved_out(topic: Topic, segment_id: str, folder: Path) -> None:
    for path in topic.folder().glob(f"*{segment_id}*"):
        path.rename(folder / path.name)


def brought_back(topic: Topic, folder: Path) -> None:
    for path in folder.iterdir():
        path.rename(topic.folder() / path.name)


def id_of(log: Path) -> str:
    return log.stem.partition("-")[2]


def test_objects_that_are_missing_are_brought_back_or_given_up(
    kafka: KafkaCluster, kept: Path
) -> None:
    topic = topic_of(kafka, "without-objects")
    planned = Planned(kafka, kept.parent, topic)
    first, second, _ = topic.logs()
    moved_out(topic, id_of(second), kept)
    refused(planned, "not all of their objects are in this tier", "bring the objects back from a")
    brought_back(topic, kept)
    is_sound(planned)
    moved_out(topic, id_of(second), kept)
    refused(planned, "`kafka-delete-records.sh` with offset 8")
    topic.delete_records(8)
    kafka.wait(lambda: not first.exists(), "the first segment's deletion")
    is_sound(planned)


@pytest.mark.soak
def test_a_catalog_that_was_set_back(kafka: KafkaCluster, kept: Path) -> None:
    topic = topic_of(kafka, "set-back-beside")
    swapped = Swapped(kafka, kept.parent, topic)
    shutil.copytree(swapped.catalog, kept / "older")
    topic.append([(b"key-0", b"new"), (b"key-9", b"value")])
    topic.wait_until_tiered()
    swapped.compact()
    swapped.publish()
    shutil.move(swapped.catalog, kept / "newer")
    said = "set back to an earlier state. Bring the newer catalog back. If it is lost: `tierfold"
    shutil.copytree(kept / "older", swapped.catalog)
    refused(swapped, said)
    shutil.rmtree(swapped.catalog)
    shutil.copytree(kept / "newer", swapped.catalog)
    is_sound(swapped)
    shutil.rmtree(swapped.catalog)
    shutil.copytree(kept / "older", swapped.catalog)
    refused(swapped, said)
    adopted(swapped)


def test_another_catalog_is_found_and_given(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = topic_of(kafka, "of-two-catalogs")
    swapped = Swapped(kafka, tmp_path / "the other", topic)
    swapped.publish()
    refused(Planned(kafka, tmp_path, topic), "find the other one, and give it with --catalog")
    is_sound(swapped)


@pytest.mark.soak
def test_uploads_that_only_the_catalog_knows(kafka: KafkaCluster, kept: Path) -> None:
    topic = topic_of(kafka, "copied-before")
    last = id_of(topic.logs()[-1])
    for path in topic.folder().glob(f"*{last}*"):
        shutil.copy2(path, kept / path.name)
        path.rename(path.with_name(path.name.replace(last, COPIED_ID)))
    swapped = Swapped(kafka, kept.parent, topic)
    restored(swapped)
    brought_back(topic, kept)
    refused(swapped, f"segment {COPIED_ID}", "move them out of the tier and keep them; then `tier")
    moved_out(topic, COPIED_ID, kept)
    adopted(swapped)


def older_than_its_log(kafka: KafkaCluster, folder: Path, name: str) -> Swapped:
    """A topic whose swap was published, and a catalog that has its uploads live again."""
    swapped = Swapped(kafka, folder, topic_of(kafka, name))
    sent = swaps_of(swapped.row)
    restored(swapped)
    for events in sent:
        send(kafka, events)
    return swapped


@pytest.mark.soak
def test_live_uploads_that_brokers_deleted(kafka: KafkaCluster, tmp_path: Path) -> None:
    swapped = older_than_its_log(kafka, tmp_path, "deleted-live")
    refused(swapped, "the catalog is older than the log: `tierfold forget")
    adopted(swapped)


@pytest.mark.soak
def test_what_brokers_serve_and_a_vacuum_began_to_delete(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    swapped = older_than_its_log(kafka, tmp_path, "half-vacuumed")
    row, catalog = swapped.row, Catalog(str(swapped.catalog))
    at_ms = row.committed_at_ms
    held = catalog.claim([row], "vacuum", at_ms=at_ms)[row.key].row
    updates = (StartDeletion(ids=tuple(row.retired_ids), at_ms=at_ms), ReleaseClaim(run="vacuum"))
    catalog.commit([proposed(held, *updates, commit_id="v", at_ms=at_ms)])
    (entry,) = swapped.forget().entries
    assert "take it over with a new catalog (--catalog)" in entry["reason"], entry
    swapped.catalog = tmp_path / "new" / "catalog"
    assert swapped.forget().entries[0]["outcome"] == "forgotten"
    is_sound(Planned(kafka, tmp_path / "new", swapped.topic))


@pytest.mark.soak
def test_a_hole_that_was_a_missing_segment(kafka: KafkaCluster, kept: Path) -> None:
    topic = topic_of(kafka, "no-hole")
    moved_out(topic, id_of(topic.logs()[1]), kept)
    planned = Planned(kafka, kept.parent, topic)
    words = ("--engine", "local", "--holes-are-holes", "no-hole-0")
    assert planned.alone("compact", *ALWAYS, *words).code == 0
    swapped = Swapped(kafka, kept.parent, topic)
    restored(swapped)
    brought_back(topic, kept)
    refused(swapped, "If --holes-are-holes was given here, a segment was missing after all.")
    adopted(swapped)


@pytest.mark.soak
def test_the_note_of_a_tier_that_moved_is_moved_out(
    kafka: KafkaCluster, tier: Path, kept: Path
) -> None:
    swapped = Swapped(kafka, kept.parent, topic_of(kafka, "noted-elsewhere"))
    swapped.publish()
    noted = TierService(
        cluster_id="another",
        fingerprint=Catalog(str(swapped.catalog)).fingerprint(),
        place="/mnt/tier/",
        noted_at_ms=1,
    )
    notes = ServiceNotes(open_store(location_of(str(tier), of="tier"), ENVIRONMENT))
    notes.write(noted, notes.newest())
    swapped.lose()
    (entry,) = swapped.forget().entries
    assert "Name the brokers and the place that the note names." in entry["reason"]
    shutil.move(tier / FOLDER, kept)
    adopted(swapped)
