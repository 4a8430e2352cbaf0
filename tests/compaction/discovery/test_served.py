"""A row that names a cluster is changed only with it, unless a user insists."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import BINDINGS, CLUSTER, a_chain, a_state
from tierfold.compaction.discovery.served import served_refusal
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.bindings import Binding, Detached, ServedBy
from tierfold.compaction.model.serving import Consent, ConsentKind

ROW: Final = a_state(a_chain(10))
SERVED: Final = replace(ROW, served_by=(CLUSTER,))
CONSENT: Final = Consent(kind=ConsentKind.DETACHED, given_at_ms=1, run="r")


@pytest.mark.parametrize("binding", BINDINGS)
def test_only_the_cluster_itself_or_a_user_who_insists_may_change_it(binding: Binding) -> None:
    refusal = served_refusal(binding, SERVED)
    may = binding in {Detached(is_insisted=True), ServedBy(CLUSTER)}
    assert (refusal is None) is may
    if refusal is not None:
        assert refusal.reason is RefusalReason.SERVED
        assert f"cluster {CLUSTER.cluster_id} serves it from s3://bucket/tier" in refusal.sentence
        assert "tier.binding=abandoned" in refusal.remedy
    for row in (None, ROW, replace(SERVED, consents=(CONSENT,))):
        assert served_refusal(binding, row) is None


def test_another_cluster_may_not() -> None:
    other = ServedBy(replace(CLUSTER, metadata_partitions=1))
    assert served_refusal(other, SERVED) is not None
