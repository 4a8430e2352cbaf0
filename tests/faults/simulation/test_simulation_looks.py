"""What the simulation assumes about surveys, people, skipped heads, and the product's errors."""

from __future__ import annotations

import uuid
from dataclasses import replace
from itertools import count

import pytest

from tests.compaction.builders import a_segment, a_state, a_view
from tests.faults.simulation.environment_broker import History, upload
from tests.faults.simulation.environment_checks import Broken
from tests.faults.simulation.environment_model import Tier, held_in
from tests.faults.simulation.simulation_actors import _as_read, _check_choice
from tests.faults.simulation.simulation_ending import _tidied
from tests.faults.simulation.simulation_forgetting import _dead_moved_away
from tests.faults.simulation.simulation_scheduler import NOT_TAKEN, Actor, Killed
from tests.faults.simulation.simulation_settings import (
    Environment,
    deterministic,
    drawn_environment,
)
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Rest, RestReason
from tierfold.jobs.engines.rows import failure, unpickled
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.kafka.kafka_uuid import new_segment_id
from tierfold.storage.tiers.local_tiered_storage import partition_folder
from tierfold.storage.tiers.remote_tier import Part


def uploaded(seed: int) -> tuple[Environment, History]:
    """Return an environment in which brokers have uploaded their whole logs."""
    environment = drawn_environment(seed)
    log = next(iter(environment.histories.values()))
    upload(
        Actor(name="before", scheduler=environment.scheduler, is_witness=True),
        environment.objects,
        log,
        len(log.to_come),
    )
    return environment, log


def cut_off() -> tuple[Environment, Tier]:
    """Return a tier whose row goes beyond an unclean election's cut."""
    for seed in count():
        environment, log = uploaded(seed)
        if log.written.lost is None:
            continue
        end = log.written.lost.uploads[-1].batches[-1].base_offset
        lineage = log.written.lost.lineage_below(end + 1)
        row = a_state([a_segment(0, end)], lineage=lineage)
        tier = Tier(log=log, held=held_in(log, environment.objects), row=row)
        if tier.is_cut_off:
            return environment, tier
    raise AssertionError


def not_read(tier: Tier) -> tuple[str, ...]:
    """Return the notes of a survey to which the store refused every upload."""
    ids = [upload.attempt.segment_id for upload in tier.held]
    return tuple(
        f"segment {segment_id} (start 0) is kept, not read: {NOT_TAKEN}." for segment_id in ids
    )


def looked(environment: Environment, tier: Tier, notes: tuple[str, ...]) -> PartitionPlan:
    return PartitionPlan(
        key=tier.log.key,
        rules=environment.settings.rules_by_topic([tier.log.key.topic])[tier.log.key.topic],
        view=replace(a_view([a_segment(0, 1)]), notes=notes),
        choice=Rest(reason=RestReason.NOTHING_DIRTY, detail=""),
    )


def test_a_survey_is_not_blamed_for_what_the_store_did_not_let_it_read() -> None:
    environment, tier = cut_off()
    failed = not_read(tier)
    assert not _as_read(tier, looked(environment, tier, failed)).is_cut_off
    torn = [note.replace(NOT_TAKEN, "the log is torn") for note in failed]
    assert _as_read(tier, looked(environment, tier, tuple(torn))).is_cut_off
    assert _as_read(tier, looked(environment, tier, ("unknown segment",))).is_cut_off
    others = [
        note
        for held, note in zip(tier.held, failed, strict=True)
        if tier.log.written.lost is not None
        and tier.log.written.lost.batches.issuperset(held.batches)
    ]
    assert others
    assert _as_read(tier, looked(environment, tier, tuple(others))).is_cut_off


def test_a_partition_may_be_left_alone_if_its_next_upload_was_not_read() -> None:
    environment, log = uploaded(1)
    row = a_state([a_segment(0, 0)], lineage=log.written.log.lineage[:1])
    environment.watch.rows[log.key] = row
    tier = environment.watch.tier(log.key)
    assert tier.reach > row.next_offset
    began_ms = environment.scheduler.now_ms
    _check_choice(environment, tier, looked(environment, tier, not_read(tier)), began_ms)
    with pytest.raises(Killed):
        _check_choice(environment, tier, looked(environment, tier, ()), began_ms)
    assert "is left alone, and" in str(environment.scheduler.failure)


def test_a_person_moves_away_what_no_broker_uploaded_if_it_is_refused_without_a_row() -> None:
    environment, log = uploaded(1)
    theirs = set(environment.objects.stored)
    left = f"{partition_folder(log.key)}/{0:020d}-Tosfr1BUToSbxEoYIIt7sw.log"
    environment.objects.put(left, b"half a segment")
    _tidied(environment)
    assert left in environment.objects.stored
    environment.refused[log.key] = "lacks .snapshot"
    assert _tidied(environment)
    assert left not in environment.objects.stored
    assert left in log.moved_away
    assert set(environment.objects.stored) == theirs
    assert not _tidied(environment)


def test_where_a_row_names_segments_nothing_of_ours_is_moved_away() -> None:
    environment, log = uploaded(1)
    left = f"{partition_folder(log.key)}/{0:020d}-Tosfr1BUToSbxEoYIIt7sw.log"
    environment.objects.put(left, b"half a segment")
    environment.refused[log.key] = "lineage diverged"
    environment.watch.rows[log.key] = a_state([a_segment(0, 1)])
    _tidied(environment)
    assert left in environment.objects.stored


def test_a_person_moves_away_what_a_dead_run_left_incomplete_but_no_upload() -> None:
    environment, log = uploaded(1)
    theirs = set(environment.objects.stored)
    segment_id = "Tosfr1BUToSbxEoYIIt7sw"
    left = f"{partition_folder(log.key)}/{0:020d}-{segment_id}.log"
    environment.objects.put(left, b"half a segment")
    ids = (log.attempts[0].segment_id, segment_id)
    refusal = "; ".join(f"segment {name} (start 0) lacks .snapshot" for name in ids)
    assert _dead_moved_away(environment, log.key, f"orders-0: even so: {refusal}.", "last")
    assert set(environment.objects.stored) == theirs
    assert log.moved_away == {left}
    assert not _dead_moved_away(environment, log.key, refusal, "last")


def test_a_segment_is_read_again_if_another_row_skips_more_of_it() -> None:
    environment, log = uploaded(2)
    uploads = held_in(log, environment.objects)
    held = next(upload for upload in uploads if len(upload.batches) > 1)
    data = environment.objects.stored[held.attempt.keys[Part.LOG]].data
    skipped = int.from_bytes(data[8:12], "big") + 12
    whole = a_segment(held.start_offset, held.next_offset - 1, segment_id=held.attempt.segment_id)
    cut = a_segment(
        held.batches[1][0],
        held.next_offset - 1,
        segment_id=held.attempt.segment_id,
        skipped_offsets=held.batches[1][0] - held.start_offset,
        skipped_bytes=skipped,
    )
    before = environment.watch.records_of(log.key, whole)
    after = environment.watch.records_of(log.key, cut)
    assert after == tuple(record for record in before if record[0] >= cut.start_offset)
    assert after != before


def test_only_the_product_takes_its_ids_from_the_seed() -> None:
    environment = drawn_environment(1)
    rng = environment.scheduler.rng
    before = rng.getstate()
    with deterministic(environment):
        # numba draws one for each kernel that it adds to its cache.
        uuid.uuid4()
        assert rng.getstate() == before
        assert {len(new_segment_id()), len(new_commit_id())} == {22, 36}
    assert rng.getstate() != before


def test_an_error_that_the_product_takes_for_its_own_bug_ends_the_scenario() -> None:
    environment = drawn_environment(1)
    environment.happened("run", "failed", "orders-0: the log is torn. Restore it; then report.")
    why = unpickled(failure(IndexError("4"), "orders-0, group 0"))
    with pytest.raises(Killed):
        environment.happened("run", "failed", why)
    assert isinstance(environment.scheduler.failure, Broken)
    assert why in str(environment.scheduler.failure)
