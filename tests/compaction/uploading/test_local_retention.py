"""Which segments of a log directory may go, against a model that is only a loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_segment, a_state, cleaned_to
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Hole, LeaderEpoch, PartitionKey
from tierfold.compaction.uploading.local_log import LocalLog, LocalSegment
from tierfold.compaction.uploading.local_retention import (
    LocalRetentionReason,
    TierCopy,
    local_retention_plan,
    tier_copy,
)

NOW_MS: Final = 1_000_000
BOTH: Final = frozenset({"compact", "delete"})
COMPACT: Final = frozenset({"compact"})
DELETE: Final = frozenset({"delete"})
KEY: Final = PartitionKey(topic="t", partition=0, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
RULES: Final = Rules(cleanup_policy=COMPACT, retention_ms=-1, local_retention_ms=100)
ALL: Final = TierCopy(start_offset=0, next_offset=40, cleaner_offset=40)


def log_of(*ages_ms: int, active_bytes: int = 50) -> LocalLog:
    """Segments of ten offsets and a hundred bytes, the oldest first."""
    rolled = tuple(
        LocalSegment(
            start_offset=10 * n,
            end_offset=10 * n + 9,
            size_bytes=100,
            max_timestamp_ms=NOW_MS - age_ms,
        )
        for n, age_ms in enumerate(ages_ms)
    )
    return LocalLog(
        key=KEY,
        rolled=rolled,
        active_start_offset=10 * len(rolled),
        active_bytes=active_bytes,
        lineage=(LeaderEpoch(epoch=0, start_offset=0),),
        recovery_point=0,
        high_watermark=0,
        last_stable_offset=0,
    )


OLD: Final = log_of(500, 400, 300, 200)


def reasons(
    log: LocalLog = OLD, rules: Rules = RULES, copy: TierCopy = ALL
) -> list[LocalRetentionReason]:
    return [one.reason for one in local_retention_plan(log, rules, copy, NOW_MS)]


def may_go(log: LocalLog = OLD, rules: Rules = RULES, copy: TierCopy = ALL) -> int:
    found = [reason.may_go for reason in reasons(log, rules, copy)]
    assert found == sorted(found, reverse=True), "a segment goes before one below it"
    return sum(found)


def test_all_rolled_segments_that_are_old_in_the_tier_and_compacted() -> None:
    assert reasons() == [LocalRetentionReason.OLD] * 4


@pytest.mark.parametrize(("age_ms", "expected"), [(101, 1), (100, 0), (-5, 0)])
def test_by_age_once_it_is_older(age_ms: int, expected: int) -> None:
    assert may_go(log_of(age_ms)) == expected


@pytest.mark.parametrize(("kept_bytes", "expected"), [(150, 3), (151, 2), (0, 4), (-1, 0)])
def test_by_the_log_behind_it_the_active_segment_included(
    kept_bytes: int, expected: int
) -> None:
    rules = replace(RULES, local_retention_ms=-1, local_retention_bytes=kept_bytes)
    assert may_go(rules=rules) == expected


def test_either_is_enough_and_the_next_segment_has_its_own() -> None:
    log = log_of(0, 500, 0, 500)
    rules = replace(RULES, local_retention_bytes=350)
    assert reasons(log, rules) == [
        LocalRetentionReason.BEHIND,
        LocalRetentionReason.OLD,
        LocalRetentionReason.KEPT,
        LocalRetentionReason.BEHIND_ANOTHER,
    ]


def test_without_an_own_limit_it_is_the_whole_retention() -> None:
    assert may_go(rules=Rules(retention_ms=250, retention_bytes=-1)) == 3
    assert may_go(rules=Rules(retention_ms=-1, retention_bytes=250)) == 2
    assert may_go(rules=Rules(retention_ms=-1, retention_bytes=-1)) == 0


@pytest.mark.parametrize(("next_offset", "expected"), [(0, 0), (29, 2), (30, 3), (31, 3)])
def test_only_what_is_in_the_tier_as_a_whole(next_offset: int, expected: int) -> None:
    copy = replace(ALL, next_offset=next_offset)
    assert may_go(copy=copy) == expected
    assert reasons(copy=copy)[expected] is LocalRetentionReason.NOT_IN_TIER


@pytest.mark.parametrize(
    ("policy", "limits", "expected"),
    [
        (BOTH, {"retention_ms": 350}, 2),
        (DELETE, {"retention_ms": 400}, 1),
        (DELETE, {"retention_bytes": 250}, 2),
        (DELETE, {"retention_bytes": 251}, 1),
        (DELETE, {"retention_ms": 0}, 4),
        (DELETE, {"retention_bytes": 0}, 4),
        (BOTH, {}, 0),
        (COMPACT, {"retention_ms": 0}, 0),
        (frozenset(), {"retention_ms": 0}, 0),
    ],
)
def test_what_lies_below_the_tiers_start_counts_only_once_it_has_expired(
    policy: frozenset[str], limits: dict[str, int], expected: int
) -> None:
    """The tier may have been begun with a replica whose log begins later."""
    rules = replace(RULES, local_retention_ms=0, cleanup_policy=policy, **limits)
    copy = replace(ALL, start_offset=35)
    assert may_go(rules=rules, copy=copy) == expected
    if expected < 4:
        assert reasons(rules=rules, copy=copy)[expected] is LocalRetentionReason.NOT_IN_TIER


@pytest.mark.parametrize(
    ("start", "end", "expected"), [(10, 19, 1), (5, 25, 1), (11, 19, 4), (10, 18, 4)]
)
def test_a_segment_that_is_a_hole_in_the_tier_stays(start: int, end: int, expected: int) -> None:
    copy = replace(ALL, holes=(Hole(start_offset=start, end_offset=end),))
    assert may_go(copy=copy) == expected
    emptied = replace(OLD, rolled=tuple(replace(one, size_bytes=0) for one in OLD.rolled))
    assert may_go(emptied, copy=copy) == 4, "it has no record"


@pytest.mark.parametrize(
    ("cleaner_offset", "expected"), [(None, 0), (0, 0), (19, 1), (20, 2), (29, 2), (40, 4)]
)
def test_a_compacted_topic_waits_until_its_end_is_below_the_cleaner_offset(
    cleaner_offset: int | None, expected: int
) -> None:
    copy = replace(ALL, cleaner_offset=cleaner_offset)
    assert may_go(copy=copy) == expected
    if expected < 4:
        assert reasons(copy=copy)[expected] is LocalRetentionReason.NOT_COMPACTED


@pytest.mark.parametrize("policy", [BOTH, DELETE, frozenset()])
def test_under_another_policy_local_retention_alone_decides(policy: frozenset[str]) -> None:
    rules = replace(RULES, cleanup_policy=policy)
    assert may_go(rules=rules, copy=replace(ALL, cleaner_offset=None)) == 4


def test_in_the_other_passage_of_the_kip_local_retention_alone_decides() -> None:
    rules = replace(RULES, local_retention_compacted_only=False)
    assert may_go(rules=rules, copy=replace(ALL, cleaner_offset=None)) == 4


def model(log: LocalLog, rules: Rules, copy: TierCopy) -> int:
    """How many of the first segments may go, as the rules say it."""
    waits = rules.cleanup_policy == COMPACT and rules.local_retention_compacted_only
    for count, segment in enumerate(log.rolled):
        behind = log.active_bytes + sum(one.size_bytes for one in log.rolled[count + 1 :])
        old = rules.local_retention_ms >= 0 and (
            NOW_MS - segment.max_timestamp_ms > rules.local_retention_ms
        )
        large = rules.local_retention_bytes >= 0 and behind >= rules.local_retention_bytes
        copied = copy.start_offset <= segment.start_offset and segment.end_offset < copy.next_offset
        clean = segment.end_offset < (copy.cleaner_offset or 0)
        if not (old or large) or not copied or (waits and not clean):
            return count
    return len(log.rolled)


@given(
    ages_ms=st.lists(st.integers(0, 3), max_size=5),
    kept_ms=st.integers(-1, 3),
    kept_bytes=st.sampled_from([-1, 0, 50, 100, 150, 250, 450]),
    policy=st.sampled_from([COMPACT, frozenset()]),
    waits=st.booleans(),
    offsets=st.tuples(*[st.integers(0, 50)] * 3),
)
def test_the_model_says_the_same(
    ages_ms: list[int],
    kept_ms: int,
    kept_bytes: int,
    policy: frozenset[str],
    waits: bool,
    offsets: tuple[int, int, int],
) -> None:
    log = log_of(*ages_ms)
    rules = Rules(
        cleanup_policy=policy,
        local_retention_ms=kept_ms,
        local_retention_bytes=kept_bytes,
        local_retention_compacted_only=waits,
    )
    start, end, cleaner = offsets
    copy = TierCopy(start_offset=start, next_offset=end, cleaner_offset=cleaner)
    assert may_go(log, rules, copy) == model(log, rules, copy)


def test_a_log_counts_as_clean_as_far_as_its_own_leader_epochs_reach() -> None:
    row = a_state(
        (a_segment(0, 199),),
        lineage=(LeaderEpoch(epoch=0, start_offset=0), LeaderEpoch(epoch=1, start_offset=160)),
        cleaner_offsets=cleaned_to(180, epoch=2),
    )
    view = PartitionView(
        key=KEY,
        state=row,
        segments=row.segments,
        orphans=(),
        set_apart=(),
        waiting=(),
        stalled_since_ms=None,
        retired=(),
        lineage=row.lineage,
        log_start_offset=0,
    )
    later = LeaderEpoch(epoch=2, start_offset=170)
    assert tier_copy(view, row.lineage).cleaner_offset == 180
    assert tier_copy(view, (*row.lineage, later)).cleaner_offset == 170
    assert tier_copy(view, (later,)).cleaner_offset is None
    assert tier_copy(replace(view, state=None), row.lineage).cleaner_offset is None
