"""What `rebuild` names again by row and listing, in both layouts, and the row that it claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.builders import CLUSTER, leave_alone
from tests.compaction.looks import LIMITS
from tests.jobs.aiven import PLAIN
from tests.jobs.claims import ORDERS, note_served
from tests.jobs.commands import ALWAYS, CLOCK, tierfold
from tests.jobs.tiers import NOW_MS, RECORDS_PER_SEGMENT, updated_tier
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.compaction.brokers.events import Event, SegmentAdded, SegmentUpdated
from tierfold.compaction.commits.rebuilt_row import rebuilt, row_to_claim
from tierfold.compaction.commits.served_view import Serving
from tierfold.compaction.discovery.identity import identity_of
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.bindings import ServedBy
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import ServingCluster
from tierfold.compaction.planning.rebuild_look import unknown_uploads
from tierfold.compaction.publishing.event_check import Checked, checked
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.lost_metadata import NameAgain, NothingLost, rebuild_step
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.tier_identity import place_of
from tierfold.jobs.pipeline.discovery import viewed
from tierfold.jobs.pipeline.known_partition import KnownPartition
from tierfold.jobs.publishing.rebuild_looks import TierView, lost_look, tier_view

TRUNCATED: Final = replace(CLUSTER, metadata_start=14)
CREATED_AGAIN: Final = replace(CLUSTER, metadata_topic_id="n" * 21 + "A")
NOW: Final = (CLOCK, str(NOW_MS))
UPLOADS: Final = 3
END: Final = UPLOADS * RECORDS_PER_SEGMENT


@pytest.fixture(params=["local", "aiven"])
def tier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Three uploads of a partition."""
    local = updated_tier(tmp_path / "local", [ORDERS], UPLOADS)
    if request.param == "local":
        return local
    return aiven_tier(local, tmp_path / "aiven", PLAIN.variant)


class Lost:
    """orders-0 beside brokers whose metadata topic lost what it said."""

    def __init__(
        self, tier: Path, topic: ServingCluster, events: Sequence[Event] = (), log_start: int = 0
    ) -> None:
        self.context = run_context(str(tier))
        self.topic = replace(topic, place=place_of(self.context))
        listed = self.context.tier.listing(ORDERS)
        catalog = self.context.catalog
        self.row = catalog.read([ORDERS]).get(ORDERS) if catalog.exists() else None
        named = frozenset[str]() if self.row is None else self.row.named_ids
        ids = {one.segment_id for one in listed} | named
        self.log_start = log_start
        brokers = brokers_have(
            events, ids, key=ORDERS, log_start=log_start, high_watermark=END
        )
        self.brokers = replace(
            brokers,
            metadata_start=topic.metadata_start,
            asked_by=catalog.fingerprint() if catalog.exists() else None,
        )
        self.known = KnownPartition(
            key=ORDERS, state=self.row, refusal=None, listed=listed, brokers=self.brokers
        )

    def look(self) -> Look | Refusal:
        """What `rebuild` decides from."""
        found = tier_view(self.context, self.known, self.log_start)
        assert isinstance(found, TierView), found
        serving = Serving(
            binding=ServedBy(self.topic), at_ms=NOW_MS, run="run", readers_begin_again=False
        )
        return lost_look(self.known, found, serving, LIMITS, NOW_MS)

    def reason(self, row: PartitionState) -> RefusalReason | None:
        """Why every other verb refuses a partition with this row; None: it does not."""
        identity = identity_of(row, self.topic)
        if isinstance(identity, Refusal):
            return identity.reason
        view = viewed(self.context, ORDERS, row, self.known.listed, self.brokers)
        return view.reason if isinstance(view, Refusal) else None


def all_sent(tier: Path, topic: ServingCluster, log_start: int = 0) -> list[Event]:
    """All events of a rebuild; before the last one every other verb refuses."""
    events: list[Event] = []
    while True:
        lost = Lost(tier, topic, events, log_start)
        look = lost.look()
        assert isinstance(look, Look), look
        step = rebuild_step(look, is_served=True, is_copying=True)
        held = row_to_claim(lost.row, look.row, lost.topic)
        if isinstance(step, NothingLost):
            note = rebuilt(held, lost.topic, at_ms=NOW_MS, run="run")
            done = held if note is None else replace(held, served_by=(note.cluster,))
            assert lost.reason(done) is None
            return events
        assert lost.reason(held) is not None
        assert isinstance(step, NameAgain), step
        assert isinstance(checked(look, step.events), Checked)
        events += step.events


def ids(events: Sequence[Event], kind: type[Event]) -> list[str]:
    return sorted(one.segment_id for one in events if isinstance(one, kind))


@pytest.mark.parametrize("topic", [TRUNCATED, CREATED_AGAIN])
def test_without_a_row_the_listing_says_what_is_named(tier: Path, topic: ServingCluster) -> None:
    events = all_sent(tier, topic)
    listed = sorted(one.segment_id for one in run_context(str(tier)).tier.listing(ORDERS))
    assert len(listed) == UPLOADS
    assert ids(events, SegmentAdded) == ids(events, SegmentUpdated) == listed


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (TRUNCATED, RefusalReason.METADATA_LOST),
        (CREATED_AGAIN, RefusalReason.ANOTHER_METADATA_TOPIC),
    ],
)
def test_until_all_is_named_every_other_verb_refuses(
    tier: Path, topic: ServingCluster, reason: RefusalReason
) -> None:
    """A run that is killed leaves the row that it claimed; a published one says what is live."""
    compacted(tier)
    note_served(tier)
    lost = Lost(tier, topic)
    look = lost.look()
    assert isinstance(look, Look)
    assert lost.row is not None
    held = row_to_claim(lost.row, look.row, lost.topic)
    assert held.cluster == lost.row.cluster
    assert lost.reason(held) is reason
    events = all_sent(tier, topic)
    assert lost.row is not None
    assert set(ids(events, SegmentAdded)) == lost.row.named_ids
    assert set(ids(events, SegmentUpdated)) == lost.row.live_ids


def compacted(tier: Path) -> None:
    ran = tierfold("compact", tier, *ALWAYS, *NOW, "--engine", "local")
    assert ran.code == 0, ran


def test_what_was_never_published_is_restored_first(tier: Path) -> None:
    """Its live segment is a run's: to name it would publish it for the first time."""
    compacted(tier)
    refusal = Lost(tier, TRUNCATED).look()
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.DELETED_KEYS
    assert "`tierfold restore" in refusal.remedy
    states = tierfold("history", tier, str(ORDERS), "--json").entry["history"]
    (found,) = [one for one in states if one["event"] == "found"]
    ran = tierfold("restore", tier, str(ORDERS), "--to", found["committed_at"], *NOW)
    assert ran.code == 0, ran
    look = Lost(tier, TRUNCATED).look()
    assert isinstance(look, Look)
    assert len(look.rebuilds.keys() & look.live_ids) == UPLOADS


def test_an_upload_that_nothing_names_has_a_way_on(tmp_path: Path) -> None:
    """A broker was about to delete it when its metadata were lost, and has restarted since."""
    tier = updated_tier(tmp_path / "tier", [ORDERS], UPLOADS)
    first = run_context(str(tier)).tier.listing(ORDERS)[0]
    aside = tmp_path / "aside"
    aside.mkdir()
    moved = {path: aside / path.name for path in tier.rglob(f"*{first.segment_id}*")}
    for path, kept in moved.items():
        path.rename(kept)
    ran = tierfold("compact", tier, *ALWAYS, *NOW, "--engine", "local")
    assert ran.code == 0, ran
    note_served(tier)
    events = all_sent(tier, TRUNCATED, RECORDS_PER_SEGMENT)
    for path, kept in moved.items():
        kept.rename(path)
    after = Lost(tier, TRUNCATED, events, RECORDS_PER_SEGMENT)
    look = after.look()
    assert isinstance(look, Look)
    assert rebuild_step(look, is_served=True, is_copying=True) == NothingLost()
    assert unknown_uploads(look) == (first.segment_id,)
    row = replace(look.row, served_by=(after.topic,))
    assert after.reason(row) is RefusalReason.NEVER_NAMED
    apart = replace(row, consents=(*row.consents, leave_alone(first.segment_id)))
    assert after.reason(apart) is None
    for path, kept in moved.items():
        path.rename(kept)
    assert Lost(tier, TRUNCATED, events, RECORDS_PER_SEGMENT).reason(row) is None
