"""Whole objects that brokers never had, in Aiven's layout: whose they are decides what follows.

The folder's name has the topic's id, which these brokers have, so what lies there is theirs: key
prefixes that overlap, such as "" and "x-", never make two clusters share it. Only what says that it
is another segment is no upload of theirs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.published import added, updated
from tests.compaction.beside_brokers import brokers_have
from tests.compaction.broker_events import FINISHED
from tests.jobs.aiven import PLAIN
from tests.jobs.tiers import updated_tier
from tests.jobs.verbs.test_foreign_objects import (
    A_BROKERS_ID,
    ORDERS,
    Change,
    anonymous,
    changed,
    of_a_segment,
    other_partition,
    other_segment,
    other_topic,
    other_topic_id,
    planted,
    unreadable,
)
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.pipeline.discovery import viewed
from tierfold.storage.tiers.aiven.object_names import Suffix


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """A tier of Aiven's layout with three uploads."""
    local = updated_tier(tmp_path / "local", (ORDERS,), segments=3)
    return aiven_tier(local, tmp_path / "tier", PLAIN.variant)


def view_of(tier: Path, brokers: BrokerPartition | None) -> PartitionView | Refusal:
    context = run_context(str(tier))
    return viewed(context, ORDERS, None, context.tier.listing(ORDERS), brokers)


def brokers_of(tier: Path, *more: Event) -> BrokerPartition:
    """Brokers that have all uploads of the tier, and were asked about one more."""
    view = view_of(tier, None)
    assert isinstance(view, PartitionView)
    events = [
        event
        for segment in view.segments
        for event in (added(ORDERS, segment), updated(ORDERS, segment.segment_id, FINISHED))
    ]
    ids = [segment.segment_id for segment in view.segments]
    return brokers_have([*events, *more], [*ids, A_BROKERS_ID], key=ORDERS)


def unchanged(_fields: object) -> None:
    """A manifest that names its segment."""


@pytest.mark.parametrize("change", [unchanged, anonymous, unreadable])
def test_what_may_be_theirs_refuses_until_it_is_moved_out(tier: Path, change: Change) -> None:
    brokers = brokers_of(tier)
    planted(tier, A_BROKERS_ID, changed(of_a_segment(tier, A_BROKERS_ID), change), Suffix)
    refusal = view_of(tier, brokers)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.NEVER_NAMED
    assert A_BROKERS_ID in refusal.detail
    assert "move them out of the tier" in refusal.remedy
    for path in tier.rglob(f"*{A_BROKERS_ID}*"):
        path.rename(tier.parent / path.name)
    view = view_of(tier, brokers)
    assert isinstance(view, PartitionView)
    assert len(view.segments) == 3


@pytest.mark.parametrize("suffixes", [tuple(Suffix), (Suffix.MANIFEST,)], ids=["all", "part"])
@pytest.mark.parametrize("change", [other_topic, other_topic_id, other_partition, other_segment])
def test_what_says_that_it_is_another_segment_is_kept_and_named(
    tier: Path, change: Change, suffixes: tuple[Suffix, ...]
) -> None:
    brokers = brokers_of(tier)
    planted(tier, A_BROKERS_ID, changed(of_a_segment(tier, A_BROKERS_ID), change), suffixes)
    view = view_of(tier, brokers)
    assert isinstance(view, PartitionView), view
    assert len(view.segments) == 3
    (note,) = view.notes
    assert f"segment {A_BROKERS_ID} (start 0) is kept, not read" in note
    assert "its manifest names" in note
    # `vacuum` ends no unfinished upload beside it.
    assert view.doubtful == (A_BROKERS_ID,)


def test_what_brokers_named_is_theirs_whatever_it_says(tier: Path) -> None:
    whole = view_of(tier, None)
    assert isinstance(whole, PartitionView)
    begun = added(ORDERS, whole.segments[0])._replace(segment_id=A_BROKERS_ID)
    brokers = brokers_of(tier, begun)
    planted(tier, A_BROKERS_ID, changed(of_a_segment(tier, A_BROKERS_ID), other_topic), Suffix)
    view = view_of(tier, brokers)
    assert isinstance(view, PartitionView), view
    assert view.notes == (
        "1 segment whose upload brokers began and have not finished: kept, not read",
    )
    assert view.doubtful == ()
