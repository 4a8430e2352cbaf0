"""When superseded segments will be gone, by who wrote them and who serves the tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import CLUSTER, a_chain, a_segment, a_state, retired, seen
from tierfold.compaction.deletion.deletion_plan import VacuumLimits, deletion_plan_of
from tierfold.compaction.deletion.dropped import Dropped
from tierfold.compaction.deletion.superseded import (
    Removal,
    SupersededBytes,
    all_gone_at_ms,
    joined,
    superseded_bytes,
)
from tierfold.compaction.model.bindings import UNDECLARED, Binding, Detached, ServedBy
from tierfold.compaction.model.origins import origin_of
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import RetiredSegment

DETACHED, BOUND, UNSET = Detached(), ServedBy(CLUSTER), UNDECLARED
COMPACT: Final = frozenset({"compact"})
BOTH: Final = frozenset({"compact", "delete"})
BROKER, OURS = "", "earlier"
RETIRED_MS: Final = 50_000
NEWEST_MS: Final = 1_000
WEEK_MS: Final = 7 * DAY_MS
VACUUM: Final = (Removal.VACUUM, RETIRED_MS + DAY_MS, "")
RETENTION: Final = (Removal.RETENTION, None, "")
NO_DELETE: Final = (Removal.KEPT, None, "the cleanup.policy set here has no delete")
FOR_EVER: Final = (Removal.KEPT, None, "retention.ms is -1")
NO_TIME: Final = (Removal.KEPT, None, "they have no timestamp")
EARLIER: Final = (
    "or earlier: brokers delete them themselves once their log start passes them, or if no live"
    " segment lies at or before them"
)
PUBLISHED: Final = (Removal.PUBLISHED, None, "")


def entry(writer: str, newest_ms: int = NEWEST_MS) -> RetiredSegment:
    segment = a_segment(0, 9, origin=origin_of(writer), max_timestamp_ms=newest_ms)
    return retired(segment, retired_at_ms=RETIRED_MS)


@pytest.mark.parametrize(
    ("binding", "writer", "policy", "retention_ms", "newest_ms", "expected"),
    [
        (DETACHED, BROKER, COMPACT, WEEK_MS, NEWEST_MS, VACUUM),
        (DETACHED, OURS, COMPACT, WEEK_MS, NEWEST_MS, VACUUM),
        (DETACHED, BROKER, BOTH, WEEK_MS, NEWEST_MS, VACUUM),
        (DETACHED, BROKER, BOTH, -1, -1, VACUUM),
        (BOUND, OURS, COMPACT, WEEK_MS, NEWEST_MS, PUBLISHED),
        (UNSET, OURS, BOTH, -1, -1, VACUUM),
        (BOUND, BROKER, COMPACT, WEEK_MS, NEWEST_MS, PUBLISHED),
        (UNSET, BROKER, COMPACT, WEEK_MS, NEWEST_MS, NO_DELETE),
        (BOUND, BROKER, BOTH, WEEK_MS, NEWEST_MS, PUBLISHED),
        (UNSET, BROKER, BOTH, WEEK_MS, NEWEST_MS, RETENTION),
        (UNSET, BROKER, BOTH, -1, NEWEST_MS, FOR_EVER),
        (UNSET, BROKER, BOTH, 0, NEWEST_MS, RETENTION),
        (UNSET, BROKER, BOTH, WEEK_MS, -1, NO_TIME),
    ],
)
def test_what_removes_a_superseded_segment_and_when(
    binding: Binding,
    writer: str,
    policy: frozenset[str],
    retention_ms: int,
    newest_ms: int,
    expected: tuple[Removal, int | None, str],
) -> None:
    rules = Rules(cleanup_policy=policy, retention_ms=retention_ms)
    (found,) = superseded_bytes([entry(writer, newest_ms)], rules, binding)
    assert (found.removal, found.gone_at_ms, found.why_kept) == expected
    assert found.size_bytes == 1000


@pytest.mark.parametrize("binding", [DETACHED, BOUND, UNSET])
def test_a_segment_whose_deletion_started_goes_on_every_tier(binding: Binding) -> None:
    going = replace(entry(BROKER), deletion_started_at_ms=RETIRED_MS + 2 * DAY_MS)
    (found,) = superseded_bytes([going], Rules(cleanup_policy=COMPACT), binding)
    assert (found.removal, found.gone_at_ms, found.why_kept) == VACUUM


def test_the_whole_log_of_an_overlapping_upload_goes() -> None:
    upload = replace(entry(BROKER), segment=a_segment(5, 9, skipped_offsets=5, skipped_bytes=300))
    (found,) = superseded_bytes([upload], Rules(), DETACHED)
    assert found.size_bytes == 1300


@pytest.mark.parametrize("binding", [DETACHED, BOUND, UNSET])
@pytest.mark.parametrize("writer", [BROKER, OURS])
@pytest.mark.parametrize("late_ms", [-1, 0])
def test_vacuum_deletes_at_the_promised_time_and_not_before(
    binding: Binding, writer: str, late_ms: int
) -> None:
    rules = Rules(cleanup_policy=COMPACT)
    (promised,) = superseded_bytes([entry(writer)], rules, binding)
    now_ms = (promised.gone_at_ms or 10 * WEEK_MS) + late_ms
    view = seen(a_state(a_chain(10, start_offset=10), retired=(entry(writer),)))
    plan = deletion_plan_of(view, rules, binding, VacuumLimits(now_ms=now_ms))
    is_deleted = promised.removal is Removal.VACUUM and late_ms == 0
    assert bool(plan.starting) is is_deleted


def part(removal: Removal, gone_at_ms: int | None, why_kept: str = "") -> SupersededBytes:
    return SupersededBytes(removal=removal, size_bytes=7, gone_at_ms=gone_at_ms, why_kept=why_kept)


def test_parts_are_joined_by_removal_and_reason_with_the_latest_time() -> None:
    kept, other = part(Removal.KEPT, None, "b"), part(Removal.KEPT, None, "a")
    vacuums = part(Removal.VACUUM, 5), part(Removal.VACUUM, 9)
    found = joined([kept, vacuums[0], other, kept, vacuums[1]])
    assert found == (
        replace(vacuums[1], size_bytes=14),
        other,
        replace(kept, size_bytes=14),
    )


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], None),
        ([part(Removal.VACUUM, 5)], 5),
        ([part(Removal.VACUUM, 5), part(Removal.VACUUM, 9)], 9),
        ([part(Removal.VACUUM, 5), part(Removal.KEPT, None)], None),
    ],
)
def test_all_are_gone_when_the_last_is(
    parts: Sequence[SupersededBytes], expected: int | None
) -> None:
    assert all_gone_at_ms(parts) == expected


def test_the_sentences() -> None:
    rules = Rules(cleanup_policy=COMPACT)
    by_vacuum, kept = superseded_bytes([entry(BROKER), entry(OURS)], rules, UNSET)
    assert by_vacuum.sentence("1970-01-02") == (
        "1 000 bytes of replaced segments stay until the first `tierfold vacuum` after 1970-01-02"
        " (the grace period is 1 d)"
    )
    assert kept.sentence("") == (
        "1 000 bytes of replaced segments stay: a broker may serve them, so `tierfold vacuum` keeps"
        " them, and nothing known expires them (the cleanup.policy set here has no delete). If no"
        " broker serves this tier, set tier.binding=detached"
    )
    (expired,) = superseded_bytes([entry(BROKER)], replace(rules, cleanup_policy=BOTH), UNSET)
    assert expired.sentence("") == (
        "1 000 bytes of replaced segments stay until brokers expire them by their own"
        " retention.ms, which tierfold was not told: name the brokers (--bootstrap-server), or set"
        " tier.binding=detached if none serves this tier"
    )


def test_beside_brokers_the_sentence_names_no_time() -> None:
    (served,) = superseded_bytes([entry(BROKER)], Rules(cleanup_policy=COMPACT), BOUND)
    assert served.sentence("").startswith("1 000 bytes of replaced segments stay until ")
    assert served.sentence("").endswith(
        "let brokers list them for deletion; they go a grace period (1 d) after brokers list"
        f" them, {EARLIER}"
    )


@pytest.mark.parametrize("writer", [BROKER, OURS])
@pytest.mark.parametrize("listed_ms", [RETIRED_MS - 5, RETIRED_MS + 5])
@pytest.mark.parametrize("late_ms", [-1, 0])
def test_what_brokers_list_goes_a_grace_period_after_the_later_of_both(
    writer: str, listed_ms: int, late_ms: int
) -> None:
    one, rules = entry(writer), Rules(cleanup_policy=COMPACT)
    listed = {one.segment.segment_id: listed_ms}
    (promised,) = superseded_bytes([one], rules, BOUND, Dropped(listed=listed))
    assert promised.removal is Removal.LISTED
    assert promised.gone_at_ms == max(listed_ms, RETIRED_MS) + DAY_MS
    limits = VacuumLimits(now_ms=promised.gone_at_ms + late_ms)
    is_past = limits.is_past_grace(one, listed)
    assert is_past is (late_ms == 0)
    assert promised.sentence("1970-01-02") == (
        "1 000 bytes of replaced segments stay until the first `tierfold vacuum --publish` after"
        f" 1970-01-02, a grace period (1 d) after brokers listed them for deletion, {EARLIER}"
    )


@pytest.mark.parametrize("how", ["never_named", "gone"])
@pytest.mark.parametrize("writer", [BROKER, OURS])
def test_what_brokers_do_not_have_goes_a_grace_period_after_it_was_replaced(
    how: str, writer: str
) -> None:
    """Such as a replacement that was replaced before it was published."""
    one, rules = entry(writer), Rules(cleanup_policy=COMPACT)
    dropped = Dropped(**{how: frozenset([one.segment.segment_id])})
    (promised,) = superseded_bytes([one], rules, BOUND, dropped)
    assert (promised.removal, promised.gone_at_ms, promised.why_kept) == VACUUM
    # Without a cluster the dates are those of before.
    assert superseded_bytes([one], rules, UNSET, dropped) == superseded_bytes([one], rules, UNSET)


def test_what_brokers_list_has_no_date_where_none_are_asked() -> None:
    one, rules = entry(BROKER), Rules(cleanup_policy=COMPACT)
    dropped = Dropped(listed={one.segment.segment_id: 1})
    (found,) = superseded_bytes([one], rules, UNSET, dropped)
    assert found.removal is Removal.KEPT
