"""KIP-1241's table: when a rolled segment is uploaded, and which settings contradict each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfold.compaction.model.rules import LONG_MAX, Rules
from tierfold.compaction.uploading.copy_lag import (
    UploadReason,
    copy_lag_of,
    is_expired,
    lag_violations,
)
from tierfold.compaction.uploading.local_log import LocalSegment

NOW_MS = 1_000_000
YOUNG = LocalSegment(start_offset=0, end_offset=9, size_bytes=10, max_timestamp_ms=NOW_MS - 50)
FOREVER = Rules(retention_ms=-1, retention_bytes=-1)
KEPT = Rules(
    retention_ms=-1, retention_bytes=-1, local_retention_ms=100, local_retention_bytes=1000
)


def reason(rules: Rules, age_ms: int, behind_bytes: int) -> UploadReason:
    segment = LocalSegment(
        start_offset=0, end_offset=9, size_bytes=10, max_timestamp_ms=NOW_MS - age_ms
    )
    return copy_lag_of(rules).reason(segment, behind_bytes, NOW_MS)


@pytest.mark.parametrize(
    ("lag_ms", "lag_bytes", "by_age", "by_size"),
    [
        # lag.ms, lag.bytes, from which age on, from how much behind it; 0: at once, None: never
        (0, 0, 0, 0),
        (0, 500, 0, 0),
        (0, -1, 0, 0),
        (50, 0, 0, 0),
        (-1, 0, 0, 0),
        (50, 500, 50, 500),
        (50, -1, 50, 1000),
        (-1, 500, 100, 500),
        (-1, -1, 100, 1000),
    ],
)
def test_either_lag_is_enough(
    lag_ms: int, lag_bytes: int, by_age: int, by_size: int
) -> None:
    rules = replace(KEPT, remote_copy_lag_ms=lag_ms, remote_copy_lag_bytes=lag_bytes)
    if not by_age:
        assert reason(rules, 0, 0) is UploadReason.NO_LAG
        return
    assert reason(rules, by_age - 1, by_size - 1) is UploadReason.LAGGING
    assert reason(rules, by_age, 0) is UploadReason.OLD
    assert reason(rules, 0, by_size) is UploadReason.BEHIND


@pytest.mark.parametrize(
    ("lag_ms", "lag_bytes", "expected"),
    [
        (50, -1, UploadReason.OLD),
        (-1, 500, UploadReason.BEHIND),
        (-1, -1, UploadReason.LAGGING),
    ],
)
def test_a_lag_as_long_as_what_is_kept_forever_never_passes(
    lag_ms: int, lag_bytes: int, expected: UploadReason
) -> None:
    rules = replace(FOREVER, remote_copy_lag_ms=lag_ms, remote_copy_lag_bytes=lag_bytes)
    assert reason(rules, 10**9, LONG_MAX) is expected


def test_a_segment_of_the_future_is_not_held_back() -> None:
    rules = replace(KEPT, remote_copy_lag_ms=50)
    assert reason(rules, -1, 0) is UploadReason.OLD


def test_local_retention_is_as_the_topics_unless_it_is_set() -> None:
    rules = Rules(retention_ms=70, retention_bytes=700)
    assert (rules.kept_locally_ms, rules.kept_locally_bytes) == (70, 700)
    lag = copy_lag_of(replace(rules, remote_copy_lag_ms=-1, remote_copy_lag_bytes=-1))
    assert (lag.age_ms, lag.behind_bytes) == (70, 700)


@pytest.mark.parametrize(
    ("changes", "first", "second"),
    [
        ({"local_retention_ms": 101}, "local_retention_ms", "retention_ms"),
        ({"local_retention_ms": -1}, "local_retention_ms", "retention_ms"),
        ({"local_retention_bytes": 1001}, "local_retention_bytes", "retention_bytes"),
        ({"remote_copy_lag_ms": 101}, "remote_copy_lag_ms", "local_retention_ms"),
        (
            {"local_retention_ms": 40, "remote_copy_lag_ms": 41},
            "remote_copy_lag_ms",
            "local_retention_ms",
        ),
        ({"remote_copy_lag_bytes": 1001}, "remote_copy_lag_bytes", "local_retention_bytes"),
    ],
)
def test_what_kafka_refuses_is_refused(
    changes: dict[str, int], first: str, second: str
) -> None:
    rules = replace(Rules(retention_ms=100, retention_bytes=1000), **changes)
    assert [(one.first, one.second) for one in lag_violations(rules)] == [(first, second)]


def test_a_lag_is_free_where_everything_is_kept_locally() -> None:
    rules = replace(FOREVER, remote_copy_lag_ms=LONG_MAX, remote_copy_lag_bytes=LONG_MAX)
    assert list(lag_violations(rules)) == []
    assert list(lag_violations(Rules(remote_copy_lag_ms=-1, remote_copy_lag_bytes=-1))) == []


@pytest.mark.parametrize(
    ("changes", "behind_bytes", "expected"),
    [
        ({"retention_ms": 50}, 0, False),
        ({"retention_ms": 49}, 0, True),
        ({"retention_ms": -1, "retention_bytes": 100}, 99, False),
        ({"retention_ms": -1, "retention_bytes": 100}, 100, True),
        ({"retention_ms": 49, "cleanup_policy": frozenset({"compact"})}, 0, False),
    ],
)
def test_what_would_expire_at_once_is_known(
    changes: dict[str, int], behind_bytes: int, *, expected: bool
) -> None:
    rules = replace(Rules(cleanup_policy=frozenset({"delete"})), **changes)
    assert is_expired(rules, YOUNG, behind_bytes, NOW_MS) is expected
