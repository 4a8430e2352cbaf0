"""Drawn logs: regions (SEMANTICS 1), and rounds for passed delete horizons alone (2), are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pictures.cleaning import (
    APART,
    RETENTION_MS,
    RULES,
    cleaned,
    last_stable,
    planned,
    seen,
    vacuumed,
)
from tests.pictures.log_pictures import Log, drawn, picture
from tests.pictures.scenarios import check, scenarios
from tierfold.compaction.model.leader_epochs import is_within_lineage
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.compaction.planning.plan import Compact, Rest, RestReason
from tierfold.compaction.planning.regions import Regions, regions_of

NOW_MS = 1_000_000
LAGS = replace(RULES, min_compaction_lag_ms=50, max_compaction_lag_ms=100)


def with_ages(log: Log, ages_ms: Sequence[int]) -> Log:
    """The log with segments whose records have these ages at `NOW_MS`."""
    segments = [
        replace(
            segment,
            first_timestamp_ms=NOW_MS - age_ms,
            max_timestamp_ms=NOW_MS - age_ms,
        )
        for segment, age_ms in zip(log.segments, ages_ms, strict=True)
    ]
    return replace(log, segments=tuple(segments))


def divided(log: Log, cleaner_offset: int | None = None) -> str:
    """The regions in which each segment lies."""
    view = seen(log, cleaner_offset=cleaner_offset)
    regions = regions_of(view, last_stable(log), LAGS, NOW_MS)
    assert isinstance(regions, Regions)
    spans = {
        "cleaned": regions.cleaned,
        "dirty": regions.dirty,
        "young": regions.uncleanable,
        "unstable": regions.unstable,
    }
    return " | ".join(
        "+".join(
            name
            for name, span in spans.items()
            if not span.is_empty
            and span.start < segment.next_offset
            and segment.start_offset < span.end
        )
        for segment in log.segments
    )


@pytest.mark.parametrize(
    ("text", "ages_ms", "cleaner_offset", "expected"),
    [
        # In offset order: cleaned, dirty, held back by min.compaction.lag.ms, unstable.
        ("0:a=1 | 1:b=1 | 2:c=1 | P1(3:d=1) | 4:e=1", [90, 90, 20, 20, 20], 1,
         "cleaned | dirty | young | unstable | unstable"),
        # Without a cleaner offset, or with one below the start or above the end, all is dirty.
        ("5:a=1 | 6:b=1", [90, 90], None, "dirty | dirty"),
        ("5:a=1 | 6:b=1", [90, 90], 4, "dirty | dirty"),
        ("5:a=1 | 6:b=1", [90, 90], 8, "dirty | dirty"),
        ("5:a=1 | 6:b=1", [90, 90], 7, "cleaned | cleaned"),
        # The first dirty offset may lie inside a segment.
        ("0:a=1 1:b=1 | 2:c=1", [90, 90], 1, "cleaned+dirty | dirty"),
        # An open transaction holds back the whole segment in which it begins.
        ("0:a=1 | 1:b=1 P1(2:c=1) | 3:d=1", [90, 90, 90], None, "dirty | unstable | unstable"),
        # A decided transaction holds nothing back, wherever its marker is.
        ("0:a=1 | P1(1:b=1) | 2:P1:C", [90, 90, 90], None, "dirty | dirty | dirty"),
        # The oldest open transaction counts.
        ("P1(0:a=1) 1:P1:C | P2(2:b=1) | P1(3:c=1) | 4:P2:A", [90] * 4, None,
         "dirty | dirty | unstable | unstable"),
        # The first young segment holds all later ones back; the LSO comes first.
        ("0:a=1 | 1:b=1 | 2:c=1", [90, 20, 90], None, "dirty | young | young"),
        ("P1(0:a=1) | 1:b=1", [20, 20], None, "unstable | unstable"),
        # An overdue segment makes younger ones below it dirty, but no undecided ones.
        ("0:a=1 | 1:b=1 | 2:c=1", [20, 200, 20], None, "dirty | dirty | young"),
        ("0:a=1 | P1(1:b=1) | 2:c=1", [20, 20, 200], None, "dirty | unstable | unstable"),
    ],
)
def test_where_a_segment_lies(
    text: str, ages_ms: list[int], cleaner_offset: int | None, expected: str, tmp_path: Path
) -> None:
    log = with_ages(picture(text, tmp_path), ages_ms)
    assert divided(log, cleaner_offset) == expected


@pytest.mark.parametrize(
    ("lineage", "expected"),
    [
        # RemoteLogManager.isRemoteSegmentWithinLeaderEpochs.
        ([(0, 0), (2, 1), (3, 3)], [True, True, True]),
        # Its first epoch starts below the lineage's start for it.
        ([(1, 0), (2, 1), (3, 4)], [True, True, False]),
        # A later one starts elsewhere, or is unknown.
        ([(0, 0), (2, 2), (3, 3)], [False, True, True]),
        ([(0, 0), (1, 1), (3, 3)], [False, False, True]),
        # The last offset must lie below the next epoch's start.
        ([(0, 0), (2, 1), (3, 3), (4, 4)], [True, True, True]),
        ([(0, 0), (2, 1), (4, 2)], [True, False, False]),
    ],
)
def test_segments_outside_the_lineage_are_set_apart(
    lineage: list[tuple[int, int]], expected: list[bool], tmp_path: Path
) -> None:
    log = picture("0:a=1 e2 1:b=1 | 2:c=1 | e3 3:d=1", tmp_path)
    epochs = [LeaderEpoch(epoch=epoch, start_offset=offset) for epoch, offset in lineage]
    assert [is_within_lineage(segment, epochs) for segment in log.segments] == expected


def test_a_tombstone_of_a_clean_partition_goes_without_new_data(tmp_path: Path) -> None:
    log = picture("0:a=1 | 1:b=1 2:a= | 3:c=1", tmp_path)
    first = cleaned(log, rules=APART)
    assert drawn(first) == "0.. 1:b=1 2:a=^1000 | 3:c=1"
    resting = planned(first, cleaner_offset=4, now_ms=RETENTION_MS - 1, rules=APART)
    assert isinstance(resting, Rest)
    assert resting.reason is RestReason.NOTHING_DIRTY
    after = vacuumed(first, now_ms=RETENTION_MS, rules=APART)
    assert drawn(after) == "0.. 1:b=1 ..2 | 3:c=1"
    # Nothing else is due, and the other segment is the same as before.
    assert isinstance(planned(after, cleaner_offset=4, now_ms=10**9, rules=APART), Rest)
    assert after.segments[-1] == first.segments[-1]


def test_only_due_segments_are_rewritten(tmp_path: Path) -> None:
    log = picture("0:a=1 | 1:k= | 2:b=1 | 3:l= 4:c=1 | 5:d=1", tmp_path)
    first = cleaned(log, rules=APART)
    plan = planned(first, cleaner_offset=6, now_ms=RETENTION_MS, rules=APART)
    assert isinstance(plan, Compact)
    assert [(group.start_offset, group.end_offset) for group in plan.groups] == [(1, 1), (3, 4)]
    after = vacuumed(first, now_ms=RETENTION_MS, rules=APART)
    assert drawn(after) == "0:a=1 | 1:() | 2:b=1 | 3.. 4:c=1 | 5:d=1"
    assert [after.segments[i] for i in (0, 2, 4)] == [first.segments[i] for i in (0, 2, 4)]


@scenarios("""
A segment of which nothing is left keeps its offsets by an empty batch.
# The round leaves its neighbours alone, so that none of them can take its offsets.
0:a=1 | 1:k= 2:k= ..3 | 4:b=1
apart -> 0:a=1 | 1.. 2:k=^1000 ..3 | 4:b=1
vacuum apart now_ms=1000 -> 0:a=1 | 1.. 3:() | 4:b=1

Two neighbours that are both due are merged.
0:a=1 1:k= | 2:l= 3:b=1 | 4:c=1
apart -> 0:a=1 1:k=^1000 | 2:l=^1000 3:b=1 | 4:c=1
vacuum now_ms=1000 -> 0:a=1 3:b=1 | 4:c=1
""")
def test_segments_that_are_due(scenario: list[str], tmp_path: Path) -> None:
    check(scenario, tmp_path)


def test_a_marker_goes_when_no_segment_holds_a_batch_of_its_transaction(tmp_path: Path) -> None:
    # A batch of the first transaction is left, in another segment; no batch of the second is.
    text = "P1(0:a=1) | 1:P1:C | P1(2:b=1) | 3:P1:C 4:b=2 | 5:c=1"
    first = cleaned(picture(text, tmp_path), rules=APART, now_ms=RULES.producer_id_expiration_ms)
    assert drawn(first) == "P1(0:a=1) | 1:P1:C ..2 | 3:P1:C 4:b=2 | 5:c=1"
    # The second pass finds no batch of the second transaction, and sets its marker's horizon.
    now_ms = 2 * RULES.producer_id_expiration_ms
    second = cleaned(first, rules=APART, now_ms=now_ms)
    horizon_ms = now_ms + RETENTION_MS
    assert drawn(second) == f"P1(0:a=1) | 1:P1:C ..2 | 3:P1:C^{horizon_ms} 4:b=2 | 5:c=1"
    assert [segment.earliest_due_ms for segment in second.segments] == [
        None,
        None,
        horizon_ms,
        None,
    ]
    third = vacuumed(second, now_ms=horizon_ms, rules=APART)
    assert drawn(third) == "P1(0:a=1) | 1:P1:C ..2 | 3.. 4:b=2 | 5:c=1"


def test_a_due_segment_that_keeps_a_batch_of_the_transaction_elsewhere_keeps_its_marker(
    tmp_path: Path,
) -> None:
    # The marker has a horizon; data of its transaction are in a segment that is not due.
    log = picture("P1(0:a=1) | 1:P1:C^500 2:b=1 | 3:c=1", tmp_path)
    due = replace(log.segments[1], earliest_due_ms=500)
    concerned = replace(log, segments=(log.segments[0], due, log.segments[2]))
    after = vacuumed(concerned, now_ms=RULES.producer_id_expiration_ms, rules=APART)
    assert drawn(after) == drawn(log)
    # It is rewritten, so that the catalog no longer has the passed time.
    assert after.segments[1].segment_id != due.segment_id
    assert after.segments[1].earliest_due_ms is None
