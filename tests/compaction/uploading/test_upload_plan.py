"""Which segments of a log directory are uploaded, in which order, and why the others are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.builders import a_chain, a_segment, a_state, retired
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey, PartitionState
from tierfold.compaction.uploading.copy_lag import UploadReason
from tierfold.compaction.uploading.local_log import LocalLog, LocalSegment
from tierfold.compaction.uploading.upload_plan import (
    UploadPlan,
    begun_late,
    late_upload,
    shut_out,
    upload_plan,
)

NOW_MS = 1_000_000
RULES = Rules(retention_ms=-1)
KEY = PartitionKey(topic="t", partition=0, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
LOG = LocalLog(
    key=KEY,
    rolled=tuple(
        LocalSegment(
            start_offset=10 * n,
            end_offset=10 * n + 9,
            size_bytes=100,
            max_timestamp_ms=NOW_MS - 1000 + 100 * n,
        )
        for n in range(4)
    ),
    active_start_offset=40,
    active_bytes=50,
    lineage=(LeaderEpoch(epoch=0, start_offset=0),),
    recovery_point=40,
    high_watermark=40,
    last_stable_offset=40,
)


def reasons(plan: UploadPlan) -> list[UploadReason]:
    return [one.reason for one in plan.decisions]


def starts(plan: UploadPlan) -> list[int]:
    return [one.start_offset for one in plan.uploads]


def test_every_rolled_segment_and_never_the_active_one() -> None:
    assert starts(upload_plan(LOG, RULES, NOW_MS)) == [0, 10, 20, 30]


@pytest.mark.parametrize("bound", ["recovery_point", "high_watermark", "last_stable_offset"])
def test_only_what_is_flushed_replicated_and_of_no_open_transaction(bound: str) -> None:
    plan = upload_plan(replace(LOG, **{bound: 29}), RULES, NOW_MS)
    assert starts(plan) == [0, 10]
    assert reasons(plan)[2:] == [UploadReason.UNSTABLE, UploadReason.BEHIND_ANOTHER]
    assert starts(upload_plan(replace(LOG, **{bound: 30}), RULES, NOW_MS)) == [0, 10, 20]


@pytest.mark.parametrize(
    ("tier_end", "expected"), [(9, [10, 20, 30]), (12, [10, 20, 30]), (39, [])]
)
def test_from_the_segment_that_holds_the_next_offset(tier_end: int, expected: list[int]) -> None:
    plan = upload_plan(LOG, RULES, NOW_MS, tier_end=tier_end)
    assert starts(plan) == expected
    assert reasons(plan)[0] is UploadReason.IN_TIER


DELETE = frozenset({"delete"})


@pytest.mark.parametrize(
    ("rules", "first", "log_start", "is_said"),
    [
        pytest.param(RULES, 0, 0, False, id="from the start"),
        pytest.param(RULES, 1, 0, True, id="from later on"),
        pytest.param(RULES, 1, 10, False, id="where the tier's log begins"),
        pytest.param(
            replace(RULES, cleanup_policy=DELETE, retention_ms=950), 0, 0, False, id="expired"
        ),
    ],
)
def test_a_log_that_begins_late_is_noted(
    *, rules: Rules, first: int, log_start: int, is_said: bool
) -> None:
    plan = upload_plan(replace(LOG, rolled=LOG.rolled[first:]), rules, NOW_MS)
    assert ("begins at offset 10:" in begun_late(plan, log_start)) == is_said
    assert bool(begun_late(plan, log_start)) == is_said


BEGUN_LATE = a_state(a_chain(10, start_offset=20))
"""The first upload was of a replica whose log begins at offset 20."""


@pytest.mark.parametrize(
    ("row", "log", "rules", "offsets"),
    [
        pytest.param(BEGUN_LATE, LOG, RULES, "0 to 19", id="it began late"),
        pytest.param(
            replace(BEGUN_LATE, log_start_offset=19), LOG, RULES, "0 to 9", id="whole segments only"
        ),
        pytest.param(
            BEGUN_LATE, replace(LOG, log_start_offset=13), RULES, "13 to 19", id="some deleted"
        ),
        pytest.param(BEGUN_LATE, replace(LOG, log_start_offset=20), RULES, "", id="all deleted"),
        pytest.param(
            replace(BEGUN_LATE, retired=(retired(a_segment(0, 19)),)), LOG, RULES, "",
            id="all expired in the tier",
        ),
        pytest.param(
            replace(BEGUN_LATE, retired=(retired(a_segment(5, 9)),)), LOG, RULES, "10 to 19",
            id="some expired in the tier",
        ),
        pytest.param(
            BEGUN_LATE, LOG, replace(RULES, cleanup_policy=DELETE, retention_ms=950), "10 to 19",
            id="some would expire",
        ),
        pytest.param(
            BEGUN_LATE, LOG, replace(RULES, retention_ms=950), "0 to 19", id="nothing expires"
        ),
        pytest.param(replace(BEGUN_LATE, log_start_offset=0), LOG, RULES, "", id="from the start"),
        pytest.param(None, LOG, RULES, "", id="no row"),
    ],
)
def test_what_lies_below_the_first_upload_never_comes(
    row: PartitionState | None, log: LocalLog, rules: Rules, offsets: str
) -> None:
    said = shut_out(log, rules, row, NOW_MS)
    assert said.startswith(f"the tier never gets offsets {offsets} of this") == bool(offsets)
    assert bool(said) == bool(offsets)


def test_a_segment_waits_for_those_below() -> None:
    rolled = (replace(LOG.rolled[0], max_timestamp_ms=NOW_MS), *LOG.rolled[1:])
    rules = replace(RULES, remote_copy_lag_ms=500)
    plan = upload_plan(replace(LOG, rolled=rolled), rules, NOW_MS)
    assert reasons(plan) == [UploadReason.LAGGING, *[UploadReason.BEHIND_ANOTHER] * 3]


def test_the_active_segment_counts_as_behind() -> None:
    rules = replace(RULES, remote_copy_lag_ms=-1, remote_copy_lag_bytes=150)
    assert starts(upload_plan(LOG, rules, NOW_MS)) == [0, 10, 20]
    smaller = replace(LOG, active_bytes=49)
    assert starts(upload_plan(smaller, rules, NOW_MS)) == [0, 10]


def test_what_would_expire_at_once_is_skipped_and_the_log_begins_behind_it() -> None:
    rules = Rules(cleanup_policy=frozenset({"delete"}), retention_ms=850, remote_copy_lag_ms=-1)
    plan = upload_plan(LOG, rules, NOW_MS)
    assert reasons(plan)[:2] == [UploadReason.EXPIRED, UploadReason.EXPIRED]
    assert plan.log_start_offset == 20


def test_nothing_is_skipped_above_what_the_tier_has() -> None:
    rules = Rules(cleanup_policy=frozenset({"delete"}), retention_ms=850)
    plan = upload_plan(LOG, rules, NOW_MS, tier_end=9)
    assert reasons(plan)[0] is UploadReason.IN_TIER
    assert starts(plan) == [10, 20, 30]
    assert plan.log_start_offset is None


def test_what_lies_below_the_log_start_of_an_empty_row_does_not_come_back() -> None:
    assert starts(upload_plan(LOG, RULES, NOW_MS, log_start=20)) == [20, 30]
    assert starts(upload_plan(LOG, RULES, NOW_MS, log_start=19)) == [10, 20, 30]
    rules = Rules(cleanup_policy=frozenset({"delete"}), retention_ms=750)
    plan = upload_plan(LOG, rules, NOW_MS, log_start=20)
    assert reasons(plan)[:2] == [UploadReason.BELOW_LOG_START] * 2
    assert (reasons(plan)[2], plan.log_start_offset) == (UploadReason.EXPIRED, 30)


def test_an_old_segment_above_a_young_one_is_not_skipped() -> None:
    rolled = (replace(LOG.rolled[0], max_timestamp_ms=NOW_MS), *LOG.rolled[1:])
    rules = Rules(cleanup_policy=frozenset({"delete"}), retention_ms=850)
    assert starts(upload_plan(replace(LOG, rolled=rolled), rules, NOW_MS)) == [0, 10, 20, 30]


def test_a_log_start_that_a_broker_notes_at_its_first_segment_is_that_of_a_tiered_log() -> None:
    assert not LOG.is_tiered
    assert not replace(LOG, log_start_offset=5).is_tiered
    assert replace(LOG, log_start_offset=0).is_tiered


@pytest.mark.parametrize(
    ("tier_end", "cleaner_offset", "since_ms", "is_late"),
    [(9, 30, 101, True), (9, 30, 100, False), (29, 30, 101, False), (None, 30, 101, False)],
)
def test_an_upload_after_tombstones_may_be_gone_is_noted(
    tier_end: int | None, cleaner_offset: int, since_ms: int, *, is_late: bool
) -> None:
    rules, log = Rules(delete_retention_ms=100), replace(LOG, cleaner_offset=cleaner_offset)
    found = late_upload(log, rules, since_ms, tier_end=tier_end)
    assert found.startswith("the broker's cleaner has removed records") is is_late
