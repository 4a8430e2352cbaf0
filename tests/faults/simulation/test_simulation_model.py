"""What the simulation's checks and people do about surveys, incomplete segments, ids and errors."""

from __future__ import annotations

import uuid
from dataclasses import replace
from itertools import count

import pytest

from tests.compaction.builders import a_segment, a_state, a_view
from tests.faults.simulation.environment_broker import History, upload
from tests.faults.simulation.environment_checks import Violation
from tests.faults.simulation.environment_model import Tier, held_in
from tests.faults.simulation.simulation_actors import _check_choice, _without_unread
from tests.faults.simulation.simulation_ending import _moved_away
from tests.faults.simulation.simulation_forgetting import _move_dead_uploads_away
from tests.faults.simulation.simulation_scheduler import REJECTED, Actor, Killed
from tests.faults.simulation.simulation_settings import (
    Environment,
    deterministic,
    drawn_environment,
)
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Rest, RestReason
from tierfold.jobs.engines.rows import failure, unpickled
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid
from tierfold.storage.tiers.local_tiered_storage import partition_folder
from tierfold.storage.tiers.remote_tier import Part

DEAD_ID = "Tosfr1BUToSbxEoYIIt7sw"


def uploaded(seed: int) -> tuple[Environment, History]:
    """Return an environment in which the brokers of one log have uploaded all of it."""
    environment = drawn_environment(seed)
    log = next(iter(environment.histories.values()))
    upload(
        Actor(name="before", scheduler=environment.scheduler, is_witness=True),
        environment.objects,
        log,
        len(log.to_come),
    )
    return environment, log


def truncated() -> tuple[Environment, Tier]:
    """Return a tier whose row has offsets that an unclean election truncated."""
    for seed in count():
        environment, log = uploaded(seed)
        if log.written.lost is None:
            continue
        end = log.written.lost.uploads[-1].batches[-1].base_offset
        lineage = log.written.lost.lineage_below(end + 1)
        row = a_state([a_segment(0, end)], lineage=lineage)
        tier = Tier(log=log, held=held_in(log, environment.objects), row=row)
        if tier.is_truncated:
            return environment, tier
    raise AssertionError


def unread_notes(tier: Tier) -> tuple[str, ...]:
    """Return the notes of a survey for which the store failed to read every upload."""
    ids = [upload.attempt.segment_id for upload in tier.held]
    return tuple(
        f"segment {segment_id} (start 0) is kept, not read: {REJECTED}." for segment_id in ids
    )


def survey_plan(environment: Environment, tier: Tier, notes: tuple[str, ...]) -> PartitionPlan:
    return PartitionPlan(
        key=tier.log.key,
        rules=environment.settings.rules_by_topic([tier.log.key.topic])[tier.log.key.topic],
        view=replace(a_view([a_segment(0, 1)]), notes=notes),
        choice=Rest(reason=RestReason.NOTHING_DIRTY, detail=""),
    )


def test_a_survey_need_not_know_what_the_store_failed_to_read() -> None:
    environment, tier = truncated()
    failed = unread_notes(tier)
    assert not _without_unread(tier, survey_plan(environment, tier, failed)).is_truncated
    torn = [note.replace(REJECTED, "the log is torn") for note in failed]
    assert _without_unread(tier, survey_plan(environment, tier, tuple(torn))).is_truncated
    assert _without_unread(tier, survey_plan(environment, tier, ("unknown segment",))).is_truncated
    others = [
        note
        for held, note in zip(tier.held, failed, strict=True)
        if tier.log.written.lost is not None
        and tier.log.written.lost.batches.issuperset(held.batches)
    ]
    assert others
    assert _without_unread(tier, survey_plan(environment, tier, tuple(others))).is_truncated


def test_a_partition_may_be_left_unchanged_if_its_next_upload_was_not_read() -> None:
    environment, log = uploaded(1)
    row = a_state([a_segment(0, 0)], lineage=log.written.log.lineage[:1])
    environment.watch.rows[log.key] = row
    tier = environment.watch.tier(log.key)
    assert tier.reach > row.next_offset
    began_ms = environment.scheduler.now_ms
    _check_choice(environment, tier, survey_plan(environment, tier, unread_notes(tier)), began_ms)
    with pytest.raises(Killed):
        _check_choice(environment, tier, survey_plan(environment, tier, ()), began_ms)
    assert "is left unchanged, but" in str(environment.scheduler.failure)


def half_a_segment(environment: Environment, log: History) -> str:
    """Add a segment of a dead run, which lacks objects; return the key of its `.log`."""
    key = f"{partition_folder(log.key)}/{0:020d}-{DEAD_ID}.log"
    environment.objects.put(key, b"half a segment")
    return key


def test_without_a_row_a_person_moves_away_refused_objects_of_no_broker() -> None:
    environment, log = uploaded(1)
    theirs = set(environment.objects.stored)
    left = half_a_segment(environment, log)
    _moved_away(environment)
    assert left in environment.objects.stored
    environment.refused[log.key] = "lacks .snapshot"
    assert _moved_away(environment)
    assert left not in environment.objects.stored
    assert left in log.moved_away
    assert set(environment.objects.stored) == theirs
    assert not _moved_away(environment)


def test_with_a_row_no_objects_of_tierfold_are_moved_away() -> None:
    environment, log = uploaded(1)
    left = half_a_segment(environment, log)
    environment.refused[log.key] = "lineage diverged"
    environment.watch.rows[log.key] = a_state([a_segment(0, 1)])
    _moved_away(environment)
    assert left in environment.objects.stored


def test_of_incomplete_segments_a_person_moves_away_only_those_of_dead_runs() -> None:
    environment, log = uploaded(1)
    theirs = set(environment.objects.stored)
    left = half_a_segment(environment, log)
    ids = (log.attempts[0].segment_id, DEAD_ID)
    refusal = "; ".join(f"segment {name} (start 0) lacks .snapshot" for name in ids)
    assert _move_dead_uploads_away(environment, log.key, f"orders-0: even so: {refusal}.", "last")
    assert set(environment.objects.stored) == theirs
    assert log.moved_away == {left}
    assert not _move_dead_uploads_away(environment, log.key, refusal, "last")


def test_a_segment_is_read_again_if_a_row_skips_more_of_it() -> None:
    environment, log = uploaded(2)
    uploads = held_in(log, environment.objects)
    held = next(upload for upload in uploads if len(upload.batches) > 1)
    data = environment.objects.stored[held.attempt.keys[Part.LOG]].data
    skipped = int.from_bytes(data[8:12], "big") + 12
    whole = a_segment(held.start_offset, held.next_offset - 1, segment_id=held.attempt.segment_id)
    partial = a_segment(
        held.batches[1][0],
        held.next_offset - 1,
        segment_id=held.attempt.segment_id,
        skipped_offsets=held.batches[1][0] - held.start_offset,
        skipped_bytes=skipped,
    )
    before = environment.watch.records_of(log.key, whole)
    after = environment.watch.records_of(log.key, partial)
    assert after == tuple(record for record in before if record[0] >= partial.start_offset)
    assert after != before


def test_only_the_product_draws_its_ids_from_the_seed() -> None:
    environment = drawn_environment(1)
    rng = environment.scheduler.rng
    before = rng.getstate()
    with deterministic(environment):
        # numba calls this for each kernel that it adds to its cache.
        uuid.uuid4()
        assert rng.getstate() == before
        assert {len(new_kafka_uuid()), len(new_commit_id())} == {22, 36}
    assert rng.getstate() != before


def test_a_bug_that_the_product_reports_ends_the_scenario() -> None:
    environment = drawn_environment(1)
    environment.happened("run", "failed", "orders-0: the log is torn. Restore it; then report.")
    why = unpickled(failure(IndexError("4"), "orders-0, group 0")).sentence
    with pytest.raises(Killed):
        environment.happened("run", "failed", why)
    assert isinstance(environment.scheduler.failure, Violation)
    assert why in str(environment.scheduler.failure)
