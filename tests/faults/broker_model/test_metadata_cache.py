"""The model of a broker's cache says the same as the product's fold, which was written apart."""

from __future__ import annotations

from random import Random

import pytest

from tests.compaction.broker_events import FINISHED, LISTED, added, drawn_topic, updated, uploaded
from tests.compaction.builders import KEY, segment_id
from tests.faults.broker_model.metadata_cache import MetadataCache
from tierfold.compaction.brokers.events import Event, SegmentAdded
from tierfold.compaction.brokers.partition_fold import PartitionFold, Taken

OFFSETS = range(110)
EPOCHS = range(6)


def cached(*events: Event) -> MetadataCache:
    cache = MetadataCache()
    for event in events:
        cache.apply(event)
    return cache


@pytest.mark.parametrize("seed", range(60))
def test_look_ups_find_what_the_product_finds(seed: int) -> None:
    cache, fold = MetadataCache(), PartitionFold()
    for event in drawn_topic(Random(seed)):
        if event.key != KEY:
            continue
        taken = fold.apply(event, 0)
        has_no_epoch = isinstance(event, SegmentAdded) and not event.leader_epochs
        if has_no_epoch or taken is Taken.STOPS_BROKERS:
            return  # It stops brokers, and the model's are never sent such an event.
        assert cache.apply(event) == (taken is Taken.APPLIED)
        states = {name: one.state for name, one in cache.segments.items()}
        assert states == {name: one.state for name, one in fold.segments.items()}
        for epoch in EPOCHS:
            found = cache.all_found([(epoch, 0)], OFFSETS)
            assert {offset: one.segment_id for offset, one in found.items()} == {
                offset: reference.segment_id
                for offset in OFFSETS
                for reference in fold.references_in(epoch, offset, offset)[:1]
                if serves(fold, reference.segment_id, epoch, reference.start_offset, offset)
            }


def serves(fold: PartitionFold, name: str, epoch: int, start: int, offset: int) -> bool:
    """Whether a look-up of the offset goes to this segment, and the segment has it."""
    ends = {entry.epoch: end for entry, end in fold.segments[name].added.ranges()}
    return start <= offset <= ends[epoch]


@pytest.mark.parametrize("name", ["a", "z"])
def test_a_replacement_at_the_head_shields_its_sources(name: str) -> None:
    topic = [*uploaded("m", 0, 9), added(name, 0, 9), updated(name, FINISHED)]
    cache = cached(*topic, updated("m", LISTED))
    assert cache.first_at_the_head([0], 0) is None


def test_without_one_they_are_deleted() -> None:
    found = cached(*uploaded("m", 0, 9), updated("m", LISTED)).first_at_the_head([0], 0)
    assert found is not None
    assert found.segment_id == segment_id("m")
