"""Which partitions may be published before a canary has counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compaction.builders import a_chain, a_state
from tests.jobs.runs_beside import beside
from tests.jobs.tiers import key_of, made_tier
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Rest, RestReason
from tierfold.compaction.verification.canary import CanaryMode
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.publishing.tier_proof import TierProof, alone_first
from tierfold.storage.brokers.client_settings import ClientSettings

PLANS = [
    PartitionPlan(
        key=key_of(name), rules=Rules(), choice=Rest(reason=RestReason.EMPTY, detail="")
    )
    for name in ("orders", "payments")
]
ROWS = [a_state(a_chain(10)), a_state(a_chain(10))]


@pytest.fixture
def proof(tmp_path: Path) -> TierProof:
    context = beside(made_tier(tmp_path / "tier"))
    cluster = RunCluster(ClientSettings(servers=("b:1",), timeout_ms=1, options={}))
    return TierProof(context=context, cluster=cluster, mode=CanaryMode.BORDERS)


def test_all_go_at_once_in_a_tier_that_is_proven(proof: TierProof) -> None:
    proof.is_proven = True
    assert alone_first(proof, PLANS, ROWS) == (PLANS, [])


def test_none_goes_while_the_canary_of_one_may_still_count(proof: TierProof) -> None:
    proof.awaited = "its range is local"
    assert alone_first(proof, PLANS, ROWS) == ([], PLANS)


def test_none_goes_of_which_no_canary_could_count(proof: TierProof) -> None:
    """Nothing was dropped of them."""
    assert alone_first(proof, PLANS, ROWS) == ([], PLANS)


def test_without_a_canary_one_goes_first_all_the_same(proof: TierProof) -> None:
    proof.mode = CanaryMode.OFF
    assert alone_first(proof, PLANS, ROWS) == (PLANS[:1], PLANS[1:])
    assert alone_first(proof, [], []) == ([], [])


def test_without_a_canary_no_right_to_read_is_needed(proof: TierProof) -> None:
    proof.mode = CanaryMode.OFF
    assert proof.lacks_read(["orders"]) == {}
