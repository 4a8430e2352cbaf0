"""What brokers did to a compacted partition, so that a look asks to change its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import pytest

from tests.brokers.published import added, updated
from tests.compaction.broker_events import GONE, LISTED
from tests.faults.broker_model.tier_contents import Kept
from tests.jobs.claims import ORDERS, catalog_of, claimed, own_id_of, released
from tests.jobs.publishing.published_tier import HOUR_MS, NOW_SENT_MS, PublishedTier
from tests.storage.call_scripts import Rule
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Copy, Merge, Retire
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.publishing.row_steps import StepOutcome, carried_out
from tierfold.jobs.publishing.served_partition import ServedPartition

Scene = Callable[[PublishedTier], None]


def to_merge(tier: PublishedTier) -> None:
    """A new leader's upload was finished beside the replacement."""
    tier.upload(14, 29)


def to_merge_what_is_live(tier: PublishedTier) -> None:
    """The same, and the row has it."""
    tier.upload(14, 29)
    released(tier.folder, claimed(tier.folder, "other", NOW_SENT_MS), at_ms=NOW_SENT_MS)


def to_copy(tier: PublishedTier) -> None:
    """Brokers deleted the replacement, although its objects exist."""
    tier.publish(tier.held())
    (kept,) = tier.row.segments
    assert tier.lose(updated(ORDERS, kept.segment_id, LISTED)) == [*range(20)]
    tier.take(updated(ORDERS, kept.segment_id, GONE))


def to_retire(tier: PublishedTier) -> None:
    """A new leader uploaded what the replacement has wholly."""
    tier.upload(14, 19)


def to_retire_a_start(tier: PublishedTier) -> None:
    """A late first send of a run that no row remembers."""
    (kept,) = tier.row.segments
    forgotten = replace(kept, segment_id=own_id_of(catalog_of(tier.folder)))
    tier.take(added(ORDERS, forgotten), at_ms=NOW_SENT_MS - 2 * HOUR_MS)


SCENES: Final[dict[Scene, type[Merge | Copy | Retire]]] = {
    to_merge: Merge,
    to_merge_what_is_live: Merge,
    to_copy: Copy,
    to_retire: Retire,
    to_retire_a_start: Retire,
}
every_scene = pytest.mark.parametrize("scene", SCENES)
writing_scenes = pytest.mark.parametrize("scene", [to_merge, to_merge_what_is_live, to_copy])


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A step that a look asks for."""

    held: HeldPartitions
    partition: ServedPartition
    step: Merge | Copy | Retire

    def carried_out(self) -> StepOutcome:
        return carried_out(self.held, self.partition, self.step)


def asked(tier: PublishedTier, scene: Scene, *rules: Rule) -> Asked:
    """Play the scene, and let a run look; its later calls are under a script."""
    scene(tier)
    return looked(tier, *rules)


def looked(tier: PublishedTier, *rules: Rule) -> Asked:
    """Let a run look."""
    held = tier.held(*rules)
    partition = tier.look(held)
    step = next_step(partition.look)
    assert isinstance(step, Merge | Copy | Retire), step
    return Asked(held=held, partition=partition, step=step)


def survivors_of(tier: PublishedTier, *beyond: Segment) -> list[Kept]:
    """What consumers are to read: the live segments, and what others have beyond them."""
    records = tier.given(tier.row.segments)
    for segment in beyond:
        records += [one for one in tier.given([segment]) if one.offset > records[-1].offset]
    return records


def orphans(tier: PublishedTier) -> list[str]:
    """The ids of segments in the tier that neither the row nor brokers name."""
    listing = run_context(str(tier.folder)).tier.listing(ORDERS)
    present = {listed.segment_id for listed in listing}
    return sorted(present - tier.row.named_ids - tier.cache.named)
