"""Which partitions may be published before a canary has counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.compaction.beside_brokers import brokers_have, own_id
from tests.compaction.broker_events import FINISHED, LISTED, added, updated
from tests.compaction.builders import CLUSTER, a_chain, a_segment, a_state, a_view, retired
from tests.compaction.looks import own
from tests.jobs.claims import claimed
from tests.jobs.publishing.test_canary_note import served
from tests.jobs.runs_beside import beside
from tests.jobs.tiers import key_of, made_tier, updated_tier
from tests.storage.brokers.secured import client
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.origins import Compacted, Copied
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.tier_service import UNPROVEN
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Rest, RestReason
from tierfold.compaction.verification.canary import CanaryMode
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.publishing.canary_note import canary_proof, note_counted
from tierfold.jobs.publishing.tier_proof import TierProof, alone_first

PLANS = [
    PartitionPlan(key=key_of(name), rules=Rules(), choice=Rest(reason=RestReason.EMPTY, detail=""))
    for name in ("orders", "payments")
]
ROWS = [a_state(a_chain(10)), a_state(a_chain(10))]


@pytest.fixture
def proof(tmp_path: Path) -> TierProof:
    context = beside(made_tier(tmp_path / "tier"))
    # Nothing listens there.
    cluster = RunCluster(client("127.0.0.1:1", {"request.timeout.ms": "1000"}))
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


UPLOADS = a_chain(10, 10)
OURS = a_segment(0, 19, segment_id=own_id(), size_bytes=500, origin=Compacted("earlier"))
SWAPPED = a_state((OURS,), retired=tuple(map(retired, UPLOADS)), served_by=(CLUSTER,))


def published(*events: Event, row: PartitionState = SWAPPED) -> PartitionPlan:
    """A plan of the row, whose brokers have taken these events."""
    found = brokers_have(events, row.named_ids)
    view = replace(a_view(row.segments), state=row, brokers=found)
    return replace(PLANS[0], key=row.key, view=view)


STARTED_ONLY = added("ours", 0, 19)._replace(segment_id=OURS.segment_id)
TAKEN = (STARTED_ONLY, updated("ours", FINISHED)._replace(segment_id=OURS.segment_id))


COPIES = tuple(
    replace(
        upload,
        segment_id=own(f"copy {upload.start_offset}", is_restored=True),
        origin=Copied(run="restoring", copy_of=upload.segment_id, upload=upload.segment_id),
    )
    for upload in UPLOADS
)
RESTORED = replace(SWAPPED, segments=COPIES, retired=(*SWAPPED.retired, retired(OURS)))
UPLOADED = tuple(
    event
    for upload in UPLOADS
    for event in (
        added(upload.start_offset, upload.start_offset, upload.end_offset),
        updated(upload.start_offset, FINISHED),
    )
)
DROPPED = tuple(updated(upload.start_offset, LISTED) for upload in UPLOADS)
UNDONE = published(*UPLOADED, *TAKEN, *DROPPED, row=RESTORED)


def test_what_undoes_a_publication_does_not_wait_for_a_canary(proof: TierProof) -> None:
    """Its own could never count, and the one that was awaited no longer can."""
    proof.awaited = "its range is local"
    plans = [UNDONE, PLANS[1]]
    assert alone_first(proof, plans, [RESTORED, ROWS[1]]) == ([UNDONE], [PLANS[1]])


@pytest.mark.parametrize(
    ("plan", "row"),
    [
        pytest.param(
            published(*UPLOADED, row=RESTORED), RESTORED, id="brokers read what was uploaded"
        ),
        pytest.param(
            UNDONE, replace(RESTORED, segments=(COPIES[0], OURS)), id="a later run wrote some"
        ),
        pytest.param(UNDONE, replace(RESTORED, segments=UPLOADS), id="nothing was copied"),
        pytest.param(replace(UNDONE, view=None), RESTORED, id="without a view"),
    ],
)
def test_all_else_of_a_restore_waits_for_a_canary(
    proof: TierProof, plan: PartitionPlan, row: PartitionState
) -> None:
    """If brokers read another place, their consumers would lose what was uploaded."""
    assert alone_first(proof, [plan], [row]) == ([], [plan])


def asks(proof: TierProof, plan: PartitionPlan) -> bool:
    """Whether a canary of the partition is read: no broker answers here, which is an error."""
    found = plan.view.brokers if plan.view is not None else None
    view = proof.context.cluster_view
    assert view is not None
    proof.cluster.view = replace(view, partitions={} if found is None else {plan.key: found})
    proof.context = replace(proof.context, cluster=proof.cluster)
    try:
        proof.read([plan])
    except UnreadableObject:
        return True
    return False


def test_a_canary_of_what_brokers_read_already_is_read_first(proof: TierProof) -> None:
    assert asks(proof, published(*TAKEN))
    assert not proof.is_proven


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(PLANS[0], id="without a view"),
        pytest.param(published(), id="brokers do not know it"),
        pytest.param(published(STARTED_ONLY), id="brokers do not read it yet"),
        pytest.param(published(*TAKEN, row=replace(SWAPPED, retired=())), id="nothing replaced"),
    ],
)
def test_no_canary_is_read_of_what_cannot_count(proof: TierProof, plan: PartitionPlan) -> None:
    assert not asks(proof, plan)
    assert not proof.is_proven


@pytest.fixture
def noted(tmp_path: Path) -> TierProof:
    """As `proof`, in a tier whose note says that this catalog publishes to this cluster."""
    tier = updated_tier(tmp_path / "noted", [SWAPPED.key], 1)
    claimed(tier, "earlier", at_ms=1)
    context = beside(tier)
    served(context)
    cluster = RunCluster(client("127.0.0.1:1", {"request.timeout.ms": "1000"}))
    return TierProof(context=context, cluster=cluster, mode=CanaryMode.BORDERS)


def test_no_canary_is_read_of_a_tier_that_is_proven(noted: TierProof) -> None:
    note_counted(noted.context)
    assert not asks(noted, published(*TAKEN))
    assert noted.is_proven


def test_a_person_answers_for_the_tier_once_something_is_published(noted: TierProof) -> None:
    noted.mode = CanaryMode.OFF
    assert not asks(noted, published(*TAKEN))
    context = noted.context
    assert canary_proof(context) == UNPROVEN
    assert noted.why_failed(SWAPPED) is None
    assert noted.is_proven
    assert canary_proof(context).off_run == context.run


def test_nothing_is_read_of_what_was_not_looked_at(noted: TierProof) -> None:
    assert noted.why_failed(SWAPPED) is None
    assert canary_proof(noted.context) == UNPROVEN


def test_no_canary_is_read_if_nothing_was_dropped(proof: TierProof) -> None:
    same = replace(SWAPPED, segments=(replace(OURS, size_bytes=2000),))
    assert not asks(proof, published(*TAKEN, row=same))


def test_no_canary_is_read_if_a_person_wants_none(proof: TierProof) -> None:
    proof.mode = CanaryMode.OFF
    assert not asks(proof, published(*TAKEN))
    assert not proof.is_proven
