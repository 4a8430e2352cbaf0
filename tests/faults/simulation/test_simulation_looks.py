"""What the simulation takes for granted of a look, of a person, and of what a row skips."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from tests.compaction.builders import a_segment, a_state, a_view
from tests.faults.simulation.environment_broker import History, upload
from tests.faults.simulation.environment_model import Tier, held_in
from tests.faults.simulation.simulation_actors import _told
from tests.faults.simulation.simulation_ending import _tidied
from tests.faults.simulation.simulation_scheduler import NOT_TAKEN, Actor
from tests.faults.simulation.simulation_settings import World, drawn_world
from tierfold.compaction.planning.plan import Rest, RestReason
from tierfold.jobs.pipeline.survey import Surveyed
from tierfold.storage.tiers.local_tiered_storage import Part, partition_folder


def uploaded(seed: int) -> tuple[World, History]:
    """A world in which all that brokers have is there."""
    world = drawn_world(seed)
    log = next(iter(world.histories.values()))
    upload(
        Actor(name="before", scheduler=world.scheduler, is_witness=True),
        world.objects,
        log,
        len(log.to_come),
    )
    return world, log


def cut_off() -> tuple[World, Tier]:
    """A tier whose row goes on where an election cut the log off."""
    for seed in count():
        world, log = uploaded(seed)
        if log.written.lost is None:
            continue
        end = log.written.lost.uploads[-1].batches[-1].base_offset
        lineage = log.written.lost.lineage_below(end + 1)
        row = a_state([a_segment(0, end)], lineage=lineage)
        tier = Tier(log=log, held=held_in(log, world.objects), row=row)
        if tier.is_cut_off:
            return world, tier
    raise AssertionError


def looked(world: World, tier: Tier, notes: tuple[str, ...]) -> Surveyed:
    return Surveyed(
        key=tier.log.key,
        rules=world.settings.rules_by_topic([tier.log.key.topic])[tier.log.key.topic],
        view=replace(a_view([a_segment(0, 1)]), notes=notes),
        choice=Rest(reason=RestReason.NOTHING_DIRTY, detail=""),
    )


def test_a_look_is_not_blamed_for_what_the_store_kept_from_it() -> None:
    world, tier = cut_off()
    ids = [upload.attempt.segment_id for upload in tier.held]
    failed = [
        f"segment {segment_id} (start 0) is kept, not read: {NOT_TAKEN}." for segment_id in ids
    ]
    assert not _told(tier, looked(world, tier, tuple(failed))).is_cut_off
    torn = [each.replace(NOT_TAKEN, "the log is torn") for each in failed]
    assert _told(tier, looked(world, tier, tuple(torn))).is_cut_off
    assert _told(tier, looked(world, tier, ("segment of nobody",))).is_cut_off
    others = [
        note
        for held, note in zip(tier.held, failed, strict=True)
        if tier.log.written.lost is not None
        and tier.log.written.lost.batches.issuperset(held.batches)
    ]
    assert others
    assert _told(tier, looked(world, tier, tuple(others))).is_cut_off


def test_a_person_moves_away_what_no_broker_uploaded_and_first_sight_refuses() -> None:
    world, log = uploaded(1)
    theirs = set(world.objects.stored)
    left = f"{partition_folder(log.key)}/{0:020d}-Tosfr1BUToSbxEoYIIt7sw.log"
    world.objects.put(left, b"half a segment")
    _tidied(world)
    assert left in world.objects.stored
    world.refused[log.key] = "lacks .snapshot"
    assert _tidied(world)
    assert left not in world.objects.stored
    assert left in log.moved_away
    assert set(world.objects.stored) == theirs
    assert not _tidied(world)


def test_where_a_row_names_segments_nothing_of_ours_is_moved_away() -> None:
    world, log = uploaded(1)
    left = f"{partition_folder(log.key)}/{0:020d}-Tosfr1BUToSbxEoYIIt7sw.log"
    world.objects.put(left, b"half a segment")
    world.refused[log.key] = "lineage diverged"
    world.watch.rows[log.key] = a_state([a_segment(0, 1)])
    _tidied(world)
    assert left in world.objects.stored


def test_a_segment_is_read_anew_where_another_row_skips_more_of_it() -> None:
    world, log = uploaded(2)
    held = next(each for each in held_in(log, world.objects) if len(each.batches) > 1)
    data = world.objects.stored[held.attempt.keys[Part.LOG]].data
    skipped = int.from_bytes(data[8:12], "big") + 12
    whole = a_segment(held.start_offset, held.next_offset - 1, segment_id=held.attempt.segment_id)
    cut = a_segment(
        held.batches[1][0],
        held.next_offset - 1,
        segment_id=held.attempt.segment_id,
        skipped_offsets=held.batches[1][0] - held.start_offset,
        skipped_bytes=skipped,
    )
    before = world.watch.records_of(log.key, whole)
    after = world.watch.records_of(log.key, cut)
    assert after == tuple(each for each in before if each[0] >= cut.start_offset)
    assert after != before
