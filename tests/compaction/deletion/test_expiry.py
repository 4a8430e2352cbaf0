"""Which segments expire: compared with a model of Kafka's loop, and case by case (SEMANTICS 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_chain
from tierfold.compaction.deletion.expiry import ExpiryReason, expired_head
from tierfold.compaction.model.rules import LONG_MAX, Rules
from tierfold.compaction.model.segments import Segment

NOW_MS: Final = 1_000_000
DELETE: Final = frozenset({"delete"})
TIME, SIZE, LOG_START = ExpiryReason.TIME, ExpiryReason.SIZE, ExpiryReason.LOG_START


def log(*ages_ms: int | None, sizes: Sequence[int] = ()) -> tuple[Segment, ...]:
    """Segments of ten offsets and 100 bytes, by the age of the newest record; None: unknown."""
    chain = a_chain(*[10] * len(ages_ms), size_bytes=100)
    bytes_each = sizes or [100] * len(ages_ms)
    return tuple(
        replace(
            segment, max_timestamp_ms=-1 if age_ms is None else NOW_MS - age_ms, size_bytes=size
        )
        for segment, age_ms, size in zip(chain, ages_ms, bytes_each, strict=True)
    )


def rules(policy: frozenset[str] = DELETE, **fields: Any) -> Rules:
    return replace(Rules(cleanup_policy=policy, retention_ms=-1), **fields)


def reasons(
    segments: Sequence[Segment], of: Rules, log_start_offset: int = 0
) -> list[ExpiryReason]:
    found = expired_head(segments, of, log_start_offset, NOW_MS)
    assert [expired.segment for expired in found] == list(segments[: len(found)])
    return [expired.reason for expired in found]


@pytest.mark.parametrize(
    ("segments", "fields", "expected"),
    [
        ((), {"retention_ms": 0, "retention_bytes": 0}, []),
        # Strictly older: at exactly retention.ms it stays.
        (log(101, 100), {"retention_ms": 100}, [TIME]),
        (log(1, 0), {"retention_ms": 0}, [TIME]),
        # Up to the first that stays, whatever comes after it.
        (log(50, 500, 500), {"retention_ms": 100}, []),
        (log(500, 50, 500), {"retention_ms": 100}, [TIME]),
        # Its age is unknown.
        (log(None, 500), {"retention_ms": 100}, []),
        (log(500, None, 500), {"retention_ms": 100}, [TIME]),
        (log(500, 400), {"retention_ms": -1}, []),
        (log(500, 400), {"retention_ms": LONG_MAX}, []),
        # As long as the rest without the segment is still as large.
        (log(0, 0, 0), {"retention_bytes": 300}, []),
        (log(0, 0, 0), {"retention_bytes": 299}, []),
        (log(0, 0, 0), {"retention_bytes": 200}, [SIZE]),
        (log(0, 0, 0), {"retention_bytes": 0}, [SIZE, SIZE, SIZE]),
        (log(0, 0, 0), {"retention_bytes": -1}, []),
        (log(0, 0, 0, sizes=[150, 10, 10]), {"retention_bytes": 100}, []),
        # A segment that expires by its age reduces the size, too.
        (log(500, 0, 0), {"retention_ms": 100, "retention_bytes": 200}, [TIME]),
        (log(500, 0, 0), {"retention_ms": 100, "retention_bytes": 100}, [TIME, SIZE]),
        # A segment too large to expire by size may expire by age, and the next one by size.
        (
            log(500, 0, 0, sizes=[150, 50, 50]),
            {"retention_ms": 100, "retention_bytes": 49},
            [TIME, SIZE],
        ),
    ],
)
def test_the_head_expires_by_age_and_by_size(
    segments: tuple[Segment, ...], fields: dict[str, int], expected: list[ExpiryReason]
) -> None:
    assert reasons(segments, rules(**fields)) == expected


@pytest.mark.parametrize("policy", [frozenset[str](), frozenset({"compact"})])
def test_without_delete_nothing_expires_by_age_or_size(policy: frozenset[str]) -> None:
    assert reasons(log(500, 500), rules(policy, retention_ms=0, retention_bytes=0)) == []


def test_a_policy_of_compact_and_delete_deletes_too() -> None:
    both = rules(frozenset({"compact", "delete"}), retention_ms=100)
    assert reasons(log(500, 50), both) == [TIME]


@pytest.mark.parametrize("policy", [frozenset[str](), frozenset({"compact"}), DELETE])
@pytest.mark.parametrize(("log_start", "expected"), [(9, 0), (10, 1), (19, 1), (20, 2), (30, 3)])
def test_a_segment_below_the_log_start_expires_under_every_policy(
    policy: frozenset[str], log_start: int, expected: int
) -> None:
    assert reasons(log(0, 0, 0), rules(policy), log_start) == [LOG_START] * expected


def test_segments_below_the_log_start_reduce_the_excess_size() -> None:
    # Unlike Kafka, where a second one would expire here: 100 bytes are enough.
    assert reasons(log(0, 0, 0), rules(retention_bytes=200), 10) == [LOG_START]


def kafkas_loop(segments: Sequence[Segment], of: Rules) -> list[ExpiryReason]:
    """`RLMExpirationTask.cleanupExpiredRemoteLogSegments` without its log start, line by line."""
    cleanup_until_ms = NOW_MS - of.retention_ms if of.retention_ms > -1 else None
    if cleanup_until_ms is not None and cleanup_until_ms < 0:
        cleanup_until_ms = None
    total = sum(segment.size_bytes for segment in segments)
    remaining = total - of.retention_bytes if 0 <= of.retention_bytes < total else None
    found: list[ExpiryReason] = []
    for segment in segments:
        if cleanup_until_ms is not None and segment.max_timestamp_ms < cleanup_until_ms:
            remaining = None if remaining is None else max(0, remaining - segment.size_bytes)
            found.append(TIME)
        elif remaining is not None and remaining > 0 and remaining - segment.size_bytes >= 0:
            remaining -= segment.size_bytes
            found.append(SIZE)
        else:
            break
    return found


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), max_size=8),
    st.integers(-1, 70) | st.just(LONG_MAX),
    st.integers(-1, 200),
)
def test_it_is_kafkas_loop(shape: list[tuple[int, int]], ms: int, size_bytes: int) -> None:
    segments = log(*(age for age, _ in shape), sizes=[size for _, size in shape])
    of = rules(retention_ms=ms, retention_bytes=size_bytes)
    assert reasons(segments, of) == kafkas_loop(segments, of)
