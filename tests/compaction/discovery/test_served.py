"""A row that names a cluster is changed only with it, unless a user insists or this is a copy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import BINDINGS, CLUSTER, a_chain, a_state
from tierfold.compaction.discovery.served import served_refusal
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.bindings import UNDECLARED, Binding, Detached, ServedBy
from tierfold.compaction.model.serving import Consent, ConsentKind

ROW: Final = a_state(a_chain(10))
SERVED: Final = replace(ROW, served_by=(CLUSTER,))
CONSENT: Final = Consent(kind=ConsentKind.DETACHED, given_at_ms=1, run="r")


@pytest.mark.parametrize("binding", BINDINGS)
def test_only_the_cluster_itself_or_a_user_who_insists_may_change_it(binding: Binding) -> None:
    refusal = served_refusal(binding, SERVED, CLUSTER.place)
    may = binding in {Detached(is_insisted=True), ServedBy(CLUSTER)}
    assert (refusal is None) is may
    if refusal is not None:
        assert refusal.reason is RefusalReason.SERVED
        assert f"cluster {CLUSTER.cluster_id} serves it from {CLUSTER.place}" in refusal.sentence
        assert "with --bootstrap-server" in refusal.remedy
        assert "tier.binding=abandoned" in refusal.remedy
    for row in (None, ROW, replace(SERVED, consents=(CONSENT,))):
        assert served_refusal(binding, row, CLUSTER.place) is None


def test_another_cluster_may_not() -> None:
    other = ServedBy(replace(CLUSTER, metadata_partitions=1))
    assert served_refusal(other, SERVED, CLUSTER.place) is not None


@pytest.mark.parametrize("is_insisted", [False, True])
def test_a_copy_may_be_detached(is_insisted: bool) -> None:
    assert served_refusal(Detached(is_insisted=is_insisted), SERVED, "/mnt/copy/") is None


def test_a_copy_that_is_not_declared_as_one_shows_both_places() -> None:
    refusal = served_refusal(UNDECLARED, SERVED, "/mnt/copy/")
    assert refusal is not None
    assert refusal.reason is RefusalReason.ANOTHER_PLACE
    assert f"serves it from {CLUSTER.place}, and TIER is /mnt/copy/" in refusal.detail
    assert "set tier.binding=detached" in refusal.remedy


def test_a_tier_that_moved_is_its_clusters_once_a_person_says_so() -> None:
    found = replace(CLUSTER, place="/mnt/other/")
    assert served_refusal(ServedBy(found), SERVED, found.place) is not None
    assert served_refusal(ServedBy(found, is_moved=True), SERVED, found.place) is None
