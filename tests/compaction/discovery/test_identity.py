"""Another cluster, metadata topic, place or catalog is refused, and both sides are shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.builders import BINDINGS, CLUSTER, a_chain, a_state
from tests.compaction.hash_keys import FINGERPRINT
from tierfold.compaction.commits.commit import MoveTier, proposed
from tierfold.compaction.commits.invariants import violations
from tierfold.compaction.commits.row_changes import applied, claimed
from tierfold.compaction.commits.served_rows import SERVED_INVARIANTS
from tierfold.compaction.discovery.identity import (
    Identity,
    OfCluster,
    identity_of,
    of_cluster,
    service_refusal,
    settings_refusal,
)
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.bindings import UNDECLARED, Binding, Detached, ServedBy
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import NO_TOPIC, Consent, ConsentKind
from tierfold.compaction.model.tier_service import TierPlace, TierService

ROW: Final = a_state(a_chain(10))
SERVED: Final = replace(ROW, served_by=(CLUSTER,))
GIVEN_UP: Final = replace(
    SERVED, consents=(Consent(kind=ConsentKind.DETACHED, given_at_ms=1, run="r"),)
)
MOVED: Final = Consent(kind=ConsentKind.MOVED, given_at_ms=2, run="r")
NOTE: Final = TierService(
    cluster_id=CLUSTER.cluster_id,
    fingerprint=FINGERPRINT,
    place=CLUSTER.place,
    noted_at_ms=1,
)
OTHER_ID: Final = "o" * 21 + "A"


@pytest.mark.parametrize("row", [None, ROW, GIVEN_UP])
def test_a_row_that_names_no_cluster_is_only_read(row: PartitionState | None) -> None:
    assert identity_of(row, CLUSTER) is Identity.NOT_NOTED


def test_the_cluster_that_was_noted_is_the_same() -> None:
    assert identity_of(SERVED, CLUSTER) is Identity.SAME


def test_the_row_of_a_rebuild_that_has_not_ended_says_so() -> None:
    row = replace(SERVED, served_by=(replace(CLUSTER, metadata_topic_id=NO_TOPIC),))
    refusal = identity_of(row, CLUSTER)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.ANOTHER_METADATA_TOPIC
    assert "has not named all that was lost" in refusal.detail
    assert NO_TOPIC not in refusal.detail


@pytest.mark.parametrize(
    ("change", "reason", "remedy"),
    [
        ({"cluster_id": OTHER_ID}, RefusalReason.ANOTHER_CLUSTER, "tier.binding=abandoned"),
        (
            {"metadata_topic_id": OTHER_ID},
            RefusalReason.ANOTHER_METADATA_TOPIC,
            "Do not restart a broker",
        ),
        (
            {"metadata_partitions": 7},
            RefusalReason.METADATA_PARTITIONS,
            "Do not restart a broker",
        ),
        ({"place": "/mnt/copy/"}, RefusalReason.ANOTHER_PLACE, "tier.binding=moved"),
    ],
)
def test_anything_else_is_refused_with_both_sides(
    change: dict[str, Any], reason: RefusalReason, remedy: str
) -> None:
    refusal = identity_of(SERVED, replace(CLUSTER, **change))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason
    ((name, now),) = change.items()
    assert str(now) in refusal.detail
    assert str(getattr(CLUSTER, name)) in refusal.detail
    assert remedy in refusal.remedy


def test_a_person_may_say_that_the_tier_moved_but_not_more() -> None:
    found = replace(CLUSTER, place="/mnt/other/")
    assert identity_of(SERVED, found, is_moved=True) is Identity.MOVED
    assert identity_of(SERVED, CLUSTER, is_moved=True) is Identity.SAME
    other = replace(found, cluster_id=OTHER_ID)
    assert isinstance(identity_of(SERVED, other, is_moved=True), Refusal)


def test_the_move_is_noted_and_then_that_place_is_the_same() -> None:
    held = claimed(SERVED, run="r", commit_id="1", at_ms=2)
    move = MoveTier(place="/mnt/other/", consent=MOVED)
    after = applied(proposed(held, move, commit_id="2", at_ms=2), held)
    assert violations(held, after, SERVED_INVARIANTS) == {}
    assert after.consents == (MOVED,)
    assert identity_of(after, replace(CLUSTER, place="/mnt/other/")) is Identity.SAME
    assert isinstance(identity_of(after, CLUSTER), Refusal)


@pytest.mark.parametrize(
    "after",
    [
        replace(SERVED, served_by=(replace(CLUSTER, place="/mnt/other/"),)),
        replace(SERVED, served_by=(replace(CLUSTER, cluster_id=OTHER_ID),), consents=(MOVED,)),
        replace(SERVED, served_by=(), consents=(MOVED,)),
    ],
)
def test_nothing_else_changes_the_place_and_a_move_changes_nothing_else(
    after: PartitionState,
) -> None:
    assert "the_cluster_stays" in str(violations(SERVED, after, SERVED_INVARIANTS))


@pytest.mark.parametrize("has_topic", [False, True])
@pytest.mark.parametrize("row", [None, ROW, SERVED])
def test_a_topic_that_the_cluster_lacks_was_deleted_only_if_the_row_names_it(
    row: PartitionState | None, has_topic: bool
) -> None:
    lacking = OfCluster.DELETED if row is SERVED else OfCluster.LEFT_ALONE
    found = of_cluster(row, CLUSTER.cluster_id, has_topic=has_topic)
    assert found is (OfCluster.ITS_OWN if has_topic else lacking)
    other = of_cluster(row, OTHER_ID, has_topic=has_topic)
    assert other is (OfCluster.ITS_OWN if has_topic else OfCluster.LEFT_ALONE)


def noted(
    binding: Binding,
    note: TierService | None = NOTE,
    row: PartitionState | None = SERVED,
    *,
    fingerprint: int | None = FINGERPRINT,
    place: str = CLUSTER.place,
) -> RefusalReason | None:
    """Why the tier's note refuses it."""
    found = service_refusal(note, binding, row, fingerprint=fingerprint, place=place)
    return None if found is None else found.reason


@pytest.mark.parametrize("binding", BINDINGS)
def test_without_a_note_nothing_is_refused_by_it(binding: Binding) -> None:
    assert noted(binding, None) is None


@pytest.mark.parametrize("row", [None, ROW, SERVED])
def test_the_catalog_of_the_note_needs_its_cluster_or_a_user_who_insists(
    row: PartitionState | None,
) -> None:
    assert noted(UNDECLARED, row=row) is RefusalReason.SERVED
    assert noted(Detached(), row=row) is RefusalReason.SERVED
    assert noted(Detached(is_insisted=True), row=row) is None
    assert noted(ServedBy(CLUSTER), row=row) is None
    other = replace(CLUSTER, cluster_id=OTHER_ID)
    assert noted(ServedBy(other), row=row) is RefusalReason.ANOTHER_CLUSTER


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_row_of_a_cluster_that_was_given_up_stays_given_up(binding: Binding) -> None:
    assert noted(binding, row=GIVEN_UP) is None


@pytest.mark.parametrize("fingerprint", [None, 1])
@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("row", [None, GIVEN_UP])
def test_no_other_catalog_deletes_whatever_its_user_says(
    row: PartitionState | None, binding: Binding, fingerprint: int | None
) -> None:
    assert noted(binding, row=row, fingerprint=fingerprint) is RefusalReason.ANOTHER_CATALOG
    found = service_refusal(
        NOTE, binding, row, fingerprint=fingerprint, place=CLUSTER.place
    )
    assert found is not None
    mine = "none yet" if fingerprint is None else "0000000001"
    assert f"catalog c0ffee0123 publishes there; this catalog is {mine}" in found.detail


@pytest.mark.parametrize("fingerprint", [None, 1, FINGERPRINT])
@pytest.mark.parametrize("binding", BINDINGS)
def test_a_copy_may_be_detached_and_nothing_else(
    binding: Binding, fingerprint: int | None
) -> None:
    reason = noted(binding, fingerprint=fingerprint, place="/mnt/copy/")
    is_detached = isinstance(binding, Detached)
    assert reason is (None if is_detached else RefusalReason.ANOTHER_PLACE)


def test_a_tier_that_moved_is_its_own_catalogs_and_clusters_alone() -> None:
    found = replace(CLUSTER, place="/mnt/other/")
    moved = ServedBy(found, is_moved=True)
    assert noted(moved, place="/mnt/other/") is None
    reason = noted(moved, place="/mnt/other/", fingerprint=1)
    assert reason is RefusalReason.ANOTHER_CATALOG
    other = ServedBy(replace(found, cluster_id=OTHER_ID), is_moved=True)
    assert noted(other, place="/mnt/other/") is RefusalReason.ANOTHER_CLUSTER


@pytest.mark.parametrize(
    ("of_brokers", "is_same"),
    [
        (None, True),
        (TierPlace("s3://bucket/tier/", "https://store"), True),
        (TierPlace("s3://bucket/tier/"), True),
        (TierPlace("s3://bucket/tier/", "https://other"), False),
        (TierPlace("s3://bucket/tier/", "HTTPS://store/"), True),
        (TierPlace("s3://bucket/tier/", account="two"), False),
        (TierPlace("s3://bucket/tier/", account="one"), True),
        (TierPlace("s3://other/tier/"), False),
        (TierPlace("s3://bucket/"), False),
    ],
)
def test_the_properties_of_brokers_name_the_same_place(
    of_brokers: TierPlace | None, is_same: bool
) -> None:
    here = TierPlace("s3://bucket/tier/", "https://store", "one")
    refusal = settings_refusal(here, of_brokers)
    assert (refusal is None) is is_same
    if refusal is not None:
        assert f"write to {of_brokers}, and TIER is {here}" in refusal.detail
        assert refusal.reason is RefusalReason.ANOTHER_PLACE
