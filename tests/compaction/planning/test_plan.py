"""Each partition is compacted, left alone or refused, and the reason is given."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, asdict, replace
from fractions import Fraction
from typing import Any, Final

import pytest

from tests.compaction.builders import a_chain, a_view, cleaned_to, seen, segment_id, unknown
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.planning.eligibility import DirtyRatio
from tierfold.compaction.planning.plan import (
    STALL_AGE_MS,
    Choice,
    Compact,
    CompactReason,
    Rest,
    RestReason,
    propose,
    rest_by_policy,
)
from tierfold.compaction.planning.regions import LastStable, Regions, regions_of

COMPACT = Rules(cleanup_policy=frozenset({"compact"}))
ALWAYS = replace(COMPACT, min_cleanable_dirty_ratio=Fraction(0))
CHAIN = a_chain(100, 100, 100, 100)
NOW_MS = 2_000_000
HOLD = LastStable(offset=212, producer_id=2999)


def chosen(
    view: PartitionView,
    rules: Rules = COMPACT,
    last_stable: LastStable | None = None,
    forced: int | None = None,
) -> Choice:
    regions = regions_of(view, last_stable, rules, NOW_MS, forced_first_dirty=forced)
    assert isinstance(regions, Regions)
    return propose(view, rules, regions, NOW_MS)


def rest(*arguments: Any, **options: Any) -> Rest:
    choice = chosen(*arguments, **options)
    assert isinstance(choice, Rest)
    return choice


def compact(*arguments: Any, **options: Any) -> Compact:
    choice = chosen(*arguments, **options)
    assert isinstance(choice, Compact)
    return choice


def clean_below(offset: int) -> PartitionView:
    return a_view(CHAIN, cleaner_offsets=cleaned_to(offset))


OF_2999: Final = (
    "held back from offset 200 on: the transaction of producer 2999 that begins at offset 212 has"
    " no marker in the tier"
)


@pytest.mark.parametrize(
    ("choice", "reason", "detail"),
    [
        # SEMANTICS 2: there is no default policy, because an event log would lose its records
        # without a key.
        (
            rest(a_view(CHAIN), Rules()),
            RestReason.NO_POLICY,
            "no cleanup.policy is set for the topic; give it with --set or --config",
        ),
        (
            rest(a_view(CHAIN), Rules(cleanup_policy=frozenset({"delete"}))),
            RestReason.POLICY_NOT_COMPACT,
            "cleanup.policy=delete does not name compact",
        ),
        # Without a policy nothing is refused, however long uploads wait.
        (
            rest(replace(a_view(CHAIN), stalled_since_ms=0), Rules()),
            RestReason.NO_POLICY,
            "no cleanup.policy is set for the topic; give it with --set or --config",
        ),
        (rest(a_view(())), RestReason.EMPTY, "no live segment in the tier"),
        # A clean partition stays at ratio 0, and if a person forces its end.
        (
            rest(clean_below(400), ALWAYS),
            RestReason.NOTHING_DIRTY,
            "everything below offset 400 is clean",
        ),
        (
            rest(clean_below(400), forced=400),
            RestReason.NOTHING_DIRTY,
            "everything below offset 400 is clean",
        ),
        (
            rest(clean_below(300)),
            RestReason.RATIO_TOO_LOW,
            "1 000 of 4 000 bytes are dirty (25.0 %), not more than min.cleanable.dirty.ratio"
            " (50 %)",
        ),
        # Kafka LogCleanerManager.grabFilthiestCompactedLog: strictly greater.
        (
            rest(clean_below(200)),
            RestReason.RATIO_TOO_LOW,
            "2 000 of 4 000 bytes are dirty (50.0 %), not more than min.cleanable.dirty.ratio"
            " (50 %)",
        ),
        (rest(clean_below(200), last_stable=HOLD), RestReason.ALL_UNSTABLE, OF_2999),
        (
            rest(a_view(CHAIN), last_stable=LastStable(offset=20)),
            RestReason.ALL_UNSTABLE,
            "held back from offset 0 on: the transaction that begins at offset 20 has no marker in"
            " the tier",
        ),
        # The whole log was clean before the transaction appeared.
        (
            rest(clean_below(400), last_stable=HOLD),
            RestReason.NOTHING_DIRTY,
            "everything below offset 400 is clean",
        ),
    ],
)
def test_why_a_partition_is_left_alone(choice: Rest, reason: RestReason, detail: str) -> None:
    assert (choice.reason, choice.detail) == (reason, detail)


@pytest.mark.parametrize(
    ("plan", "reason", "detail"),
    [
        (
            compact(clean_below(100)),
            CompactReason.DIRTY,
            "3 000 of 4 000 bytes are dirty (75.0 %), more than min.cleanable.dirty.ratio (50 %)",
        ),
        (compact(clean_below(400), forced=390), CompactReason.FORCED, "--first-dirty is 390"),
        (
            compact(clean_below(300), replace(COMPACT, max_compaction_lag_ms=998_500)),
            CompactReason.MUST_CLEAN,
            "the oldest dirty record is 1.5 s past max.compaction.lag.ms (998500)",
        ),
    ],
)
def test_a_partition_is_compacted_for_a_reason(
    plan: Compact, reason: CompactReason, detail: str
) -> None:
    assert (plan.reason, plan.detail) == (reason, detail)


def test_a_policy_of_compact_and_delete_compacts() -> None:
    rules = Rules(cleanup_policy=frozenset({"compact", "delete"}))
    assert rest_by_policy(rules) is None
    assert compact(a_view(CHAIN), rules).next_offset == 400


def test_a_round_takes_all_live_segments_below_its_end() -> None:
    # Kafka Cleaner.doClean: logSegments(0, endOffset), the clean ones are rewritten as well.
    plan = compact(clean_below(100), replace(COMPACT, segment_bytes=2000))
    assert spans(plan) == [(0, 199), (200, 399)]
    assert plan.sources == CHAIN
    assert (plan.bytes_in, plan.bytes_out_estimate) == (4000, 4061)
    assert plan.ratio == DirtyRatio(clean_bytes=1000, cleanable_bytes=3000)
    assert (plan.held_back, plan.notes) == ((), ())


def test_a_round_that_is_held_back_says_by_what() -> None:
    plan = compact(a_view(CHAIN), last_stable=HOLD)
    assert plan.next_offset == 200
    assert tuple(s.segment_id for s in plan.sources) == (segment_id(0), segment_id(100))
    assert plan.held_back == (OF_2999,)


def test_a_reset_cleaner_offset_and_an_upload_in_progress_are_noted() -> None:
    row = a_view(CHAIN[:2], cleaner_offsets=cleaned_to(999)).state
    view = seen(row, [unknown(CHAIN[2], lacking=["index"])])
    reset, upload = compact(view).notes
    assert "999 lies above the log end 200" in reset
    assert "lacks .index" in upload


def stalled(age_ms: int, *, cleaned: int = 200) -> Choice:
    """The choice for live segments 0-199 and an upload 300-399 of that age."""
    later = unknown(CHAIN[3])
    later = replace(later, listed=replace(later.listed, modified_ms=NOW_MS - age_ms))
    return chosen(seen(a_view(CHAIN[:2], cleaner_offsets=cleaned_to(cleaned)).state, [later]))


def test_a_partition_that_would_rest_while_uploads_wait_for_a_day_is_refused() -> None:
    refusal = stalled(STALL_AGE_MS)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.GAP
    assert refusal.detail == (
        "nothing after offset 199 can be used, and uploads have waited for more than a day:"
        f" segment {segment_id(300)} (offsets 300 to 399) is not used yet: offset 200 is missing"
        " below it, unless a broker's cleaner left a hole there: --holes-are-holes orders-3"
    )


def test_uploads_that_wait_for_less_than_a_day_refuse_nothing() -> None:
    assert isinstance(stalled(STALL_AGE_MS - 1), Rest)


def test_a_partition_is_compacted_while_uploads_wait() -> None:
    assert isinstance(stalled(STALL_AGE_MS, cleaned=0), Compact)


def test_rests_have_the_notes_as_well() -> None:
    view = clean_below(999)
    high = replace(COMPACT, min_cleanable_dirty_ratio=Fraction(1))
    assert "999" in rest(view, high).notes[0]
    assert "999" in rest(view, last_stable=LastStable(offset=0)).notes[0]


def due_at(*times_ms: int | None, cleaned: int = 400) -> PartitionView:
    """One segment of 100 offsets for each delete horizon."""
    segments = [
        replace(segment, earliest_due_ms=due_ms)
        for segment, due_ms in zip(a_chain(*[100] * len(times_ms)), times_ms, strict=True)
    ]
    return a_view(segments, cleaner_offsets=cleaned_to(cleaned))


def spans(plan: Compact) -> list[tuple[int, int]]:
    return [(group.start_offset, group.end_offset) for group in plan.groups]


@pytest.mark.parametrize(
    ("times_ms", "expected"),
    [
        # SEMANTICS 2, "Beyond [K]": only the segments concerned; neighbours among them are merged.
        ((None, NOW_MS, None, None), [(100, 199)]),
        ((5, None, 5, None), [(0, 99), (200, 299)]),
        ((None, 5, 5, None), [(100, 299)]),
        ((5, 5, 5, 5), [(0, 199), (200, 399)]),
        # Not due yet.
        ((NOW_MS + 1, None, None, 5), [(300, 399)]),
    ],
)
def test_a_passed_horizon_makes_a_clean_partition_eligible(
    times_ms: tuple[int | None, ...], expected: list[tuple[int, int]]
) -> None:
    plan = compact(due_at(*times_ms), replace(COMPACT, segment_bytes=2000))
    assert (plan.reason, plan.is_partial) == (CompactReason.HORIZON_PASSED, True)
    assert spans(plan) == expected
    assert (plan.first_dirty, plan.next_offset) == (400, expected[-1][1] + 1)
    assert plan.bytes_out_estimate == plan.bytes_in + 61


@pytest.mark.parametrize(
    ("kept_ms", "expected"), [(NOW_MS - 1000, [(0, 99)]), (NOW_MS - 999, None), (None, None)]
)
def test_a_producer_that_expires_makes_a_clean_partition_eligible(
    kept_ms: int | None, expected: list[tuple[int, int]] | None
) -> None:
    view = due_at(None, NOW_MS + 1, None, None)
    first, *others = view.segments
    view = replace(view, segments=(replace(first, kept_for_producer_ms=kept_ms), *others))
    rules = replace(COMPACT, producer_id_expiration_ms=1000)
    if expected is None:
        assert rest(view, rules).reason is RestReason.NOTHING_DIRTY
        return
    plan = compact(view, rules)
    assert (plan.reason, plan.is_partial) == (CompactReason.PRODUCER_EXPIRED, True)
    assert "producer.id.expiration.ms" in plan.detail
    assert spans(plan) == expected
    # A horizon that has passed is named first.
    past, *_ = due_at(5, None, None, None).segments
    both = replace(view, segments=(replace(past, kept_for_producer_ms=kept_ms), *others))
    assert compact(both, rules).reason is CompactReason.HORIZON_PASSED
    # Where a tombstone may hide what is dirty, nothing is rewritten by itself.
    later = replace(rules, compaction_strategy=CompactionStrategy.TIMESTAMP)
    assert rest(view, later).reason is RestReason.NOTHING_DIRTY


def test_a_partition_with_neither_dirty_data_nor_a_passed_horizon_is_left_alone() -> None:
    assert rest(due_at(None, NOW_MS + 1, cleaned=200)).reason is RestReason.NOTHING_DIRTY


def test_a_passed_horizon_counts_while_dirty_data_waits() -> None:
    # Too low a ratio, and an open transaction.
    view = due_at(5, None, None, None, cleaned=300)
    for plan in (compact(view), compact(view, last_stable=LastStable(offset=300))):
        assert spans(plan) == [(0, 99)]
        assert (plan.first_dirty, plan.next_offset) == (300, 100)


def test_a_round_over_dirty_data_takes_all_segments() -> None:
    plan = compact(due_at(5, None, None, None, cleaned=100))
    assert (plan.reason, plan.is_partial) == (CompactReason.DIRTY, False)
    assert spans(plan) == [(0, 399)]


def test_other_strategies_wait_until_the_log_is_clean_under_the_same_strategy() -> None:
    # SEMANTICS 3: a waiting record above may be older than a tombstone below.
    rules = replace(COMPACT, compaction_strategy=CompactionStrategy.TIMESTAMP)

    def known(view: PartitionView, *strategies: str) -> PartitionView:
        assert view.state is not None
        return replace(view, state=replace(view.state, strategies=strategies))

    clean = due_at(5, None, None, None)
    assert compact(known(clean, "timestamp"), rules).is_partial
    assert rest(known(clean, "timestamp", "offset"), rules).reason is RestReason.NOTHING_DIRTY
    waiting = known(due_at(5, None, None, None, cleaned=300), "timestamp")
    assert rest(waiting, rules).reason is RestReason.RATIO_TOO_LOW


def test_no_horizon_counts_above_the_cleaner_offset() -> None:
    # An older value may lie below: a forced round sets horizons there and moves no cleaner offset.
    whole = replace(COMPACT, min_cleanable_dirty_ratio=Fraction(1))
    for cleaned in (0, 99, 401):
        assert rest(due_at(5, None, None, None, cleaned=cleaned), whole).reason is (
            RestReason.RATIO_TOO_LOW
        )
    assert spans(compact(due_at(5, None, None, None, cleaned=100), whole)) == [(0, 99)]


def test_no_horizon_counts_above_the_last_stable_offset() -> None:
    view = due_at(5, None, None, 5)
    assert spans(compact(view, last_stable=LastStable(offset=310))) == [(0, 99)]


def test_a_forced_round_ignores_delete_horizons() -> None:
    assert rest(due_at(5, 5, 5, 5), forced=400).reason is RestReason.NOTHING_DIRTY


def test_the_same_arguments_give_the_same_choice() -> None:
    assert chosen(a_view(CHAIN)) == chosen(a_view(CHAIN))


def test_every_choice_is_frozen_and_fits_into_json() -> None:
    plan = compact(a_view(CHAIN), last_stable=HOLD)
    read_back = json.loads(json.dumps(asdict(plan)))
    assert read_back["key"] == {"topic": "orders", "partition": 3, "topic_id": "T" * 21 + "A"}
    assert read_back["groups"][0]["segments"][1]["start_offset"] == 100
    assert read_back["ratio"] == {
        "clean_bytes": 0,
        "cleanable_bytes": 2000,
        "local_bytes": 0,
        "must_clean_bytes": 0,
        "delay_ms": 0,
    }
    assert json.loads(json.dumps(asdict(rest(a_view(())))))["reason"] == "empty"
    with pytest.raises(FrozenInstanceError):
        plan.next_offset = 5  # type: ignore[misc]
