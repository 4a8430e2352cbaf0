"""A tombstone on a served row goes only when all has passed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.broker_events import uploaded
from tests.compaction.builders import CLUSTER, a_chain, a_state, cleaned_to, seen, segment_id
from tests.compaction.planning.test_local_copies import HOUR_MS, brokers
from tierfold.compaction.commits.commit import proposed
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.commits.seen_by_readers import local_ranges_noted
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.serving import Consent, ConsentKind, LocalRange, Pass
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.compaction.planning.drop_limits import (
    Readers,
    limits_beside,
    readers_of,
    why_waiting,
)
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
LOCAL: Final = LocalRange(end_offset=9, until_ms=LOCAL_MS)
SECOND: Final = LocalRange(end_offset=19, until_ms=LOCAL_MS)
ROW: Final = a_state(
    SEGMENTS,
    epoch=2,
    served_by=(CLUSTER,),
    passes=(PASS,),
    local_ranges=(LOCAL, SECOND),
    local_retention_ms=DAY_MS,
)
CONSENT: Final = Consent(kind=ConsentKind.DETACHED, given_at_ms=1, run="r")


def readers(now_ms: int, row: PartitionState = ROW, clean_until: int = 20) -> Readers | None:
    # Whatever follows ends before the note does.
    found = brokers(SEGMENTS, local_ms=DAY_MS)
    return readers_of(row, found, Rules(), clean_until=clean_until, now_ms=now_ms)


def goes(now_ms: int, clean_until: int = 20, **fields: Any) -> bool:
    found = readers(now_ms, replace(ROW, **fields), clean_until)
    return limits_beside(found, now_ms).is_due(FIRST)


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
            {"local_ranges": (replace(LOCAL, until_ms=LOCAL_MS + 1), SECOND)}, id="local for longer"
        ),
        pytest.param({"local_ranges": ()}, id="without a note of local copies"),
        pytest.param({"clean_until": 9}, id="above the clean region"),
    ],
)
def test_each_condition_counts(fields: dict[str, Any]) -> None:
    assert not goes(GOES_MS, **fields)


def test_a_horizon_ahead_stays() -> None:
    ahead = replace(FIRST, earliest_due_ms=GOES_MS + 1)
    for now_ms in (GOES_MS, GOES_MS + 1):
        found = limits_beside(readers(now_ms), now_ms)
        assert found.is_due(ahead) is (now_ms > GOES_MS)


@pytest.mark.parametrize(
    "row",
    [None, replace(ROW, served_by=(), passes=()), replace(ROW, consents=(CONSENT,), passes=())],
)
def test_on_a_row_that_no_broker_serves_the_horizon_alone_counts(
    row: PartitionState | None,
) -> None:
    found = readers_of(row, None, Rules(), clean_until=0, now_ms=HORIZON_MS)
    assert found is None
    assert limits_beside(found, HORIZON_MS).is_due(FIRST)
    assert not limits_beside(found, HORIZON_MS - 1).is_due(FIRST)


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
    assert why_waiting(readers(now_ms, replace(ROW, **fields)), FIRST, now_ms) == why


def test_it_says_why_the_end_of_local_copies_is_unknown() -> None:
    assert why_waiting(readers(GOES_MS), SEGMENTS[1], GOES_MS) == (
        "it is not known when the brokers' local copies end"
    )
    for_ever = brokers(SEGMENTS, local_ms=None)
    found = readers_of(ROW, for_ever, Rules(), clean_until=20, now_ms=GOES_MS)
    assert why_waiting(found, FIRST, GOES_MS) == (
        "no time limits the brokers' local copies (local.retention.ms)"
    )


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


def test_each_offset_has_its_own_limit() -> None:
    """Rounds merge segments all the time, and what was merged last is local for longest."""
    merged = replace(FIRST, end_offset=19)
    row = replace(ROW, segments=(merged, *a_chain(10, start_offset=20)), local_ranges=(
        LOCAL, replace(SECOND, until_ms=GOES_MS), LocalRange(end_offset=29, until_ms=GOES_MS)
    ))
    found = limits_beside(readers(GOES_MS, row), GOES_MS)
    horizons_ms, offsets = np.array([HORIZON_MS] * 3), np.array([8, 9, 10])
    assert found.have_passed(horizons_ms, offsets).tolist() == [True, True, False]
    ahead_ms = np.array([NO_HORIZON, GOES_MS, GOES_MS + 1])
    assert found.have_passed(ahead_ms, np.array([1, 1, 1])).tolist() == [False, True, False]
    early = replace(found, seen_until_ms=HORIZON_MS - 1)
    assert not early.have_passed(horizons_ms, offsets).any()
    # It is not rewritten for that alone, or it would be rewritten again for the rest.
    assert not found.is_due(merged)
    assert found.may_have_passed(HORIZON_MS, 9)
    assert not found.may_have_passed(HORIZON_MS, 10)


def test_an_upload_that_is_retired_beside_a_replacement_holds_its_tombstones() -> None:
    """Once brokers list it, only the note says until when its leader had it locally."""
    late_ms = GOES_MS - DAY_MS // 2
    again = segment_id("again")
    found = brokers_have(
        [*uploaded(0, 0, 9), *uploaded(10, 10, 19), *uploaded("again", 5, 9)]
    )
    segments = dict(found.view.segments)
    segments[again] = segments[again]._replace(since_ms=late_ms)
    found = replace(
        found, view=replace(found.view, segments=segments), local_retention_ms=DAY_MS
    )
    note = local_ranges_noted(ROW, found, Rules(), late_ms)
    row = applied(proposed(ROW, note, commit_id="retired", at_ms=late_ms), ROW)
    until_ms = late_ms + HOUR_MS + DAY_MS
    gone = [goes(at, local_ranges=row.local_ranges) for at in (GOES_MS, until_ms - 1, until_ms)]
    assert gone == [False, False, True]
