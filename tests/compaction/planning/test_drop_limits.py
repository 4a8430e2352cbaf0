"""A tombstone on a served row goes only when all has passed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.builders import CLUSTER, a_chain, a_state
from tests.compaction.planning.test_local_copies import brokers
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.serving import Consent, ConsentKind, LocalRange, Pass
from tierfold.compaction.planning.drop_limits import DropLimits, drop_limits

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


def test_the_time_is_known_if_the_pass_is_published_and_local_copies_end() -> None:
    served = limits(GOES_MS).served
    assert served is not None
    assert served.goes_at_ms(FIRST, HORIZON_MS) == GOES_MS
    assert served.goes_at_ms(FIRST, GOES_MS + 5) == GOES_MS + 5
    for row in (replace(ROW, passes=()), replace(ROW, local_retention_ms=None, local_ranges=())):
        unknown = limits(GOES_MS, replace(row)).served
        assert unknown is not None
        assert (unknown.goes_at_ms(FIRST, HORIZON_MS) is None) is (not row.passes)
    assert served.goes_at_ms(SEGMENTS[1], HORIZON_MS) is None
