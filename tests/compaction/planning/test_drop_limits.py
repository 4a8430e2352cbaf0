"""A tombstone on a served row goes only when all has passed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.builders import CLUSTER, a_chain, a_state, cleaned_to, seen
from tests.compaction.planning.test_local_copies import brokers
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.serving import Consent, ConsentKind, LocalRange, Pass
from tierfold.compaction.planning.drop_limits import DropLimits, drop_limits
from tierfold.compaction.planning.explanation import explained
from tierfold.compaction.planning.plan import Choice, Compact, Rest, propose
from tierfold.compaction.planning.regions import Regions, regions_of
from tierfold.compaction.publishing.steps import Done

HORIZON_MS: Final = 100 * DAY_MS
PUBLISHED_MS: Final = 101 * DAY_MS
LOCAL_MS: Final = 103 * DAY_MS
GOES_MS: Final = LOCAL_MS + DAY_MS
"""With the default `delete.retention.ms`, a day."""

SEGMENTS: Final = tuple(
    replace(one, origin=Compacted("run"), earliest_due_ms=HORIZON_MS) for one in a_chain(10, 10)
)
FIRST: Final[Segment] = SEGMENTS[0]
PASS: Final = Pass(epoch=1, horizon_ms=None, published_at_ms=PUBLISHED_MS, has_spared=False)
LOCAL: Final = LocalRange(segment_id=FIRST.segment_id, until_ms=LOCAL_MS)
ROW: Final = a_state(
    SEGMENTS,
    epoch=2,
    served_by=(CLUSTER,),
    passes=(PASS,),
    local_ranges=(LOCAL,),
    local_retention_ms=DAY_MS,
)
CONSENT: Final = Consent(kind=ConsentKind.DETACHED, given_at_ms=1, run="r")


def limits(now_ms: int, row: PartitionState = ROW, clean_until: int = 20) -> DropLimits:
    # Whatever follows ends before the note does.
    found = brokers(SEGMENTS, local_ms=DAY_MS)
    return drop_limits(row, found, Rules(), clean_until=clean_until, now_ms=now_ms)


def goes(now_ms: int, clean_until: int = 20, **fields: Any) -> bool:
    return limits(now_ms, replace(ROW, **fields), clean_until).is_due(FIRST)


def test_all_must_have_passed() -> None:
    assert [goes(at) for at in (HORIZON_MS, PUBLISHED_MS + DAY_MS, GOES_MS - 1)] == [False] * 3
    assert goes(GOES_MS)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"passes": ()}, id="no pass"),
        pytest.param({"passes": (replace(PASS, published_at_ms=None),)}, id="unpublished"),
        pytest.param(
            {"passes": (replace(PASS, published_at_ms=LOCAL_MS + 1),)}, id="published late"
        ),
        pytest.param({"passes": (replace(PASS, has_spared=True),)}, id="a record was spared"),
        pytest.param(
            {"passes": (replace(PASS, horizon_ms=HORIZON_MS - 1),)}, id="of a later pass"
        ),
        pytest.param(
            {"local_ranges": (replace(LOCAL, until_ms=LOCAL_MS + 1),)}, id="local for longer"
        ),
        pytest.param({"local_ranges": ()}, id="without a note of local copies"),
        pytest.param({"clean_until": 9}, id="above the clean region"),
    ],
)
def test_each_condition_counts(fields: dict[str, Any]) -> None:
    assert not goes(GOES_MS, **fields)


def test_a_horizon_ahead_stays() -> None:
    ahead = replace(FIRST, earliest_due_ms=GOES_MS + 1)
    assert not limits(GOES_MS).is_due(ahead)
    assert limits(GOES_MS + 1).is_due(ahead)


@pytest.mark.parametrize(
    "row",
    [None, replace(ROW, served_by=(), passes=()), replace(ROW, consents=(CONSENT,), passes=())],
)
def test_on_a_row_that_no_broker_serves_the_horizon_alone_counts(
    row: PartitionState | None,
) -> None:
    found = drop_limits(row, None, Rules(), clean_until=0, now_ms=HORIZON_MS)
    assert found.passed_until_ms(FIRST) == HORIZON_MS
    assert found.is_due(FIRST)


UNPUBLISHED: Final = "the pass that lets them go is not published"


@pytest.mark.parametrize(
    ("now_ms", "fields", "why"),
    [
        pytest.param(HORIZON_MS - 1, {}, "", id="the horizon is ahead"),
        pytest.param(GOES_MS, {}, "", id="all has passed"),
        pytest.param(GOES_MS, {"passes": ()}, UNPUBLISHED, id="unpublished"),
        pytest.param(
            GOES_MS - 3_600_000,
            {},
            "for 1 h more, until consumers have seen their pass for delete.retention.ms (1 d)",
            id="local copies",
        ),
        pytest.param(
            GOES_MS,
            {"passes": (replace(PASS, published_at_ms=GOES_MS),)},
            "for 1 d more, until consumers have seen their pass for delete.retention.ms (1 d)",
            id="published just now",
        ),
    ],
)
def test_it_says_why_a_tombstone_stays(now_ms: int, fields: dict[str, Any], why: str) -> None:
    assert limits(now_ms, replace(ROW, **fields)).why_waiting(FIRST) == why


def test_it_says_why_the_end_of_local_copies_is_unknown() -> None:
    assert limits(GOES_MS).why_waiting(SEGMENTS[1]) == (
        "it is not known when the brokers' local copies end"
    )
    forever = drop_limits(
        ROW, brokers(SEGMENTS, local_ms=None), Rules(), clean_until=20, now_ms=GOES_MS
    )
    assert forever.why_waiting(FIRST).endswith("has no limit")


# The plan: a clean log of two segments, of which the second one's local copies never end.

COMPACTED: Final = Rules(cleanup_policy=frozenset({"compact"}), tail_margin_segments=0)


def planned(now_ms: int, row: PartitionState = ROW) -> tuple[Choice, list[str]]:
    """The choice, and why each segment is treated as it is."""
    row = replace(row, cleaner_offsets=cleaned_to(20))
    view = replace(seen(row), brokers=brokers(SEGMENTS, local_ms=DAY_MS))
    regions = regions_of(view, None, COMPACTED, now_ms)
    assert isinstance(regions, Regions)
    choice = propose(view, COMPACTED, regions, now_ms, Done())
    return choice, [one.why for one in explained(view, COMPACTED, regions, choice, now_ms)]


def test_a_clean_partition_is_due_only_when_all_has_passed() -> None:
    early, why = planned(GOES_MS - 1)
    assert isinstance(early, Rest)
    assert early.notes == (
        "tombstones or markers of 1 segment stay beyond their delete horizon: for 1 ms more, until"
        " consumers have seen their pass for delete.retention.ms (1 d)",
        "tombstones or markers of 1 segment stay beyond their delete horizon: it is not known when"
        " the brokers' local copies end",
    )
    assert why[0] == (
        "clean; tombstones or markers in it stay beyond their delete horizon: for 1 ms more, until"
        " consumers have seen their pass for delete.retention.ms (1 d)"
    )
    due, _ = planned(GOES_MS)
    assert isinstance(due, Compact)
    assert due.is_partial
    assert due.sources == (FIRST,)


def test_on_a_tier_that_no_broker_serves_it_is_due_at_its_horizon() -> None:
    alone = replace(ROW, served_by=(), passes=(), local_ranges=())
    due, _ = planned(HORIZON_MS, alone)
    assert isinstance(due, Compact)
    assert due.sources == SEGMENTS
