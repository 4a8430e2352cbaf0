"""A topic that the cluster does not have, or seems not to have: what keeps all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.broker_events import GONE, LISTED
from tests.compaction.builders import CLUSTER, leave_alone
from tests.compaction.looks import given, started, whole
from tests.jobs.claims import ORDERS, note_served, row_of
from tests.jobs.vacuum_tiers import compacted
from tierfold.compaction.brokers.cluster_facts import Absence, UnknownOffsets
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.deletion.deletion_plan import VacuumLimits
from tierfold.compaction.discovery.identity import of_cluster
from tierfold.compaction.discovery.listing import IncompleteUpload
from tierfold.compaction.model.bindings import ServedBy
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.tier_service import TierPlace, TierService
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.tier_identity import TierIdentity, place_of
from tierfold.jobs.pipeline.known_partition import KnownPartition
from tierfold.jobs.verbs.vacuum_deleted_topics import DeletedTopics
from tierfold.jobs.verbs.vacuum_outcome import PartitionVacuum
from tierfold.storage.tiers.remote_tier import Listing

OTHER_ID: Final = "o" * 21 + "A"
NO_TOPIC: Final = UnknownOffsets(Absence.NO_TOPIC, "The cluster has no topic orders.")
RE_CREATED: Final = UnknownOffsets(
    Absence.NO_TOPIC, f"The cluster's topic orders has the id {OTHER_ID}, not another."
)
NOW_MS: Final = 2_000_000_000_000
TIMES: Final = VacuumLimits(now_ms=NOW_MS, publishes=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The partition of a topic that the cluster does not name."""

    context: RunContext
    row: PartitionState

    @property
    def here(self) -> str:
        return place_of(self.context)

    def events(self, *, is_deleted: bool = True) -> Sequence[Event]:
        """What brokers said, with or without the deletion of the topic."""
        (live,) = self.row.segments
        uploads = [one.segment for one in self.row.retired]
        swap = [*whole(*uploads, live), *(given(one, LISTED) for one in uploads)]
        listed = [given(one, LISTED) for one in (*uploads, live)]
        gone = [given(one, GONE) for one in (*uploads, live)]
        return [*swap, *listed, *gone] if is_deleted else swap

    def vacuum(
        self,
        events: Sequence[Event] | None = None,
        *,
        absence: UnknownOffsets = NO_TOPIC,
        asked: str = CLUSTER.cluster_id,
        times: VacuumLimits = TIMES,
        rules: Rules = Rules(),  # noqa: B008 - frozen
        uploads: tuple[IncompleteUpload, ...] | Exception = (),
        is_proven: bool = True,
        **identity: Any,
    ) -> PartitionVacuum:
        """What `vacuum` makes of it; `asked`: the id of the cluster."""
        events = self.events() if events is None else events
        fingerprint = self.context.catalog.fingerprint()
        ids = {*self.row.named_ids, *(one.segment_id for one in self.listed)}
        found = brokers_have([one._replace(key=ORDERS) for one in events], ids, absence, ORDERS)
        known = KnownPartition(
            key=ORDERS,
            state=self.row,
            refusal=None,
            listed=self.listed,
            brokers=replace(found, asked_by=fingerprint),
            whose=of_cluster(self.row, asked, has_topic=found.has_topic),
        )
        cluster = replace(CLUSTER, cluster_id=asked, place=self.here)
        who = TierIdentity(
            binding=ServedBy(cluster), place=TierPlace(self.here), fingerprint=fingerprint
        )
        gone = DeletedTopics.among(
            self.context, [known], times, replace(who, **identity), is_proven=is_proven
        )
        return gone.vacuum_of(known, self.row, rules, uploads)

    @property
    def listed(self) -> Listing:
        return self.context.tier.listing(ORDERS)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Compacted and served; a dead run left an orphan and an unfinished upload."""
    tier: Path = tmp_path_factory.mktemp("gone") / "tier"
    compacted(tier, ORDERS)
    note_served(tier)
    return Scene(context=run_context(str(tier)), row=row_of(tier))


def kept(found: PartitionVacuum, *words: str) -> None:
    """Nothing goes and nothing is refused, for that reason."""
    assert (found.outcome, found.candidates) == ("nothing_to_do", ())
    assert found.deletion.is_nothing
    assert found.reason.startswith("left alone: ")
    for word in words:
        assert word in found.reason, found.reason


@pytest.mark.parametrize("absence", [NO_TOPIC, RE_CREATED])
def test_what_tierfold_wrote_goes_of_a_topic_that_was_deleted(
    scene: Scene, absence: UnknownOffsets
) -> None:
    found = scene.vacuum(absence=absence)
    assert (found.outcome, found.reason) == ("planned", "")
    with_objects = {one.segment_id for one in found.candidates if one.objects}
    assert with_objects == scene.row.live_ids
    assert {one.why for one in found.candidates if one.objects} == {
        "live until now: topic deleted"
    }


@pytest.mark.parametrize("absence", [NO_TOPIC, RE_CREATED])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_another_cluster_with_the_same_catalog_deletes_nothing(
    scene: Scene, absence: UnknownOffsets, is_deleted: bool
) -> None:
    events = scene.events(is_deleted=is_deleted)
    kept(scene.vacuum(events, absence=absence, asked=OTHER_ID), "the cluster")
    kept(scene.vacuum([], absence=absence, asked=OTHER_ID), "the cluster")


def test_a_row_that_names_no_cluster_is_left_alone(scene: Scene) -> None:
    """The cluster may never have had the topic."""
    kept(replace(scene, row=replace(scene.row, served_by=())).vacuum(), "the cluster has no topic")


def test_a_topic_that_the_cluster_has_is_none_of_them(scene: Scene) -> None:
    brokers = brokers_have([], (), key=ORDERS)
    known = KnownPartition(key=ORDERS, state=scene.row, refusal=None, listed=(), brokers=brokers)
    who = TierIdentity(binding=ServedBy(CLUSTER), place=TierPlace(scene.here))
    assert DeletedTopics.among(scene.context, [known], TIMES, who, is_proven=True).kept == {}


@pytest.mark.parametrize("absence", [NO_TOPIC, RE_CREATED])
def test_a_topic_that_only_looks_deleted_loses_nothing(
    scene: Scene, absence: UnknownOffsets
) -> None:
    """Such as one that the client may not describe."""
    found = scene.vacuum(scene.events(is_deleted=False), absence=absence)
    kept(found, "was deleted", "brokers have 1 segment of it that they did not list")


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_missing_right_is_no_deletion(scene: Scene, is_deleted: bool) -> None:
    """It is inspected like any other, and refused for the right."""
    denied = UnknownOffsets(Absence.NO_RIGHT, "The right to describe it is missing.")
    events = scene.events(is_deleted=is_deleted)
    assert brokers_have(events, (), denied).has_topic


@pytest.mark.parametrize("absence", [NO_TOPIC, RE_CREATED])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_copy_of_the_tier_loses_nothing(
    scene: Scene, absence: UnknownOffsets, is_deleted: bool
) -> None:
    """Its row and its note name the place that it was copied from."""
    events = scene.events(is_deleted=is_deleted)
    copy = replace(CLUSTER, place="/mnt/copy/")
    place = {"binding": ServedBy(copy), "place": TierPlace("/mnt/copy/")}
    found = scene.vacuum(events, absence=absence, **place)
    kept(found, f"serves it from {scene.here}, and TIER is /mnt/copy/")


def test_another_catalogs_tier_loses_nothing(scene: Scene) -> None:
    note = TierService(
        cluster_id=CLUSTER.cluster_id, fingerprint=1, place=scene.here, noted_at_ms=1
    )
    kept(scene.vacuum(note=note), "the catalog 0000000001 publishes there")


def test_a_catalog_that_was_set_back_deletes_nothing_that_brokers_have(scene: Scene) -> None:
    """Its row names as live what brokers have dropped since, and not what they serve."""
    (live,) = scene.row.segments
    newer = replace(live, segment_id=f"{live.segment_id[:4]}{'x' * 4}{live.segment_id[8:]}")
    events = [*scene.events(), *whole(newer)]
    kept(scene.vacuum(events), "brokers have 1 segment of it that they did not list")


def test_records_that_cannot_be_followed_keep_all(scene: Scene) -> None:
    (live,) = scene.row.segments
    stops = started(live)._replace(leader_epochs=())
    events = [*scene.events(), stops]
    kept(scene.vacuum(events), "Brokers stop reading metadata there")


def test_it_waits_until_brokers_had_time(scene: Scene) -> None:
    early = replace(TIMES, now_ms=10_000)
    kept(scene.vacuum(times=early), "its brokers may still delete their part, until 1970-01-02T")


def test_it_needs_publishing_by_run_topic_and_canary(scene: Scene) -> None:
    off = replace(TIMES, publishes=False)
    kept(scene.vacuum(times=off), "`tierfold vacuum --publish` deletes what tierfold wrote of it")
    taken_out = Rules(publish=False)
    kept(scene.vacuum(rules=taken_out), "publish is false in the settings of topic orders")
    kept(scene.vacuum(is_proven=False), "no canary has shown yet that these brokers read this")


def test_where_unfinished_uploads_cannot_be_listed_nothing_goes(scene: Scene) -> None:
    error = UnreadableObject("no answer", where="the store", remedy="Run again.")
    kept(scene.vacuum(uploads=error), "the store: no answer. Run again.")


def test_a_tier_that_moved_is_noted_before_anything_goes(scene: Scene) -> None:
    moved = replace(CLUSTER, place="/mnt/new/")
    place = {"binding": ServedBy(moved, is_moved=True), "place": TierPlace("/mnt/new/")}
    found = scene.vacuum(**place)
    assert (found.outcome, found.candidates) == ("planned", ())
    assert found.deletion.place_to_note == "/mnt/new/"


def test_what_is_wholly_vacuumed_has_nothing_to_do(scene: Scene) -> None:
    (live,) = scene.row.segments
    agreed = (leave_alone(live.segment_id),)
    row = replace(scene.row, segments=(), retired=(), consents=agreed, log_start_offset=5)
    found = replace(scene, row=row).vacuum([*whole(live), given(live, LISTED)])
    kept(found, "was deleted")
