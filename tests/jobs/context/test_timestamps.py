"""Timestamps are parsed in several forms, and a printed one is parsed back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.context.timestamps import timestamp_ms_of, timestamp_text

TIME_MS = 1_795_275_046_123


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-11-21T15:30:46.123Z", TIME_MS),
        ("2026-11-21T15:30:46.123", TIME_MS),
        ("2026-11-21 15:30:46.1239", TIME_MS),
        ("2026-11-21T16:30:46.123+01:00", TIME_MS),
        ("2026-11-21T15:30", 1_795_275_000_000),
        ("2026-11-21", 1_795_219_200_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1795275046123", TIME_MS),
    ],
)
def test_a_time_is_parsed(text: str, time_ms: int) -> None:
    assert timestamp_ms_of(text, where="--to") == time_ms


@given(st.integers(0, 253_402_300_799_999))
def test_a_printed_time_is_parsed_back(time_ms: int) -> None:
    assert timestamp_ms_of(timestamp_text(time_ms), where="--to") == time_ms


def test_a_time_beyond_the_calendar_is_printed_as_a_number() -> None:
    assert timestamp_text(2**63 - 1) == str(2**63 - 1)


@pytest.mark.parametrize(
    "text", ["20261121T153046-hVb2Qx0A", "yesterday", "", "-5", "١٢", "2026", "20261121"]
)
def test_a_name_and_its_prefix_are_not_timestamps(text: str) -> None:
    assert timestamp_ms_of(text, where="--to") is None


def test_a_number_with_too_many_digits_is_not_a_timestamp() -> None:
    assert timestamp_ms_of("9" * 19, where="--to") == 10**19 - 1
    assert timestamp_ms_of("9" * 5000, where="--to") is None


@pytest.mark.parametrize("text", ["2026-13-01", "2026-02-30T00:00", "2026-1-1", "2026-11-21T25:00"])
def test_an_impossible_date_is_refused(text: str) -> None:
    with pytest.raises(BadSettings, match=rf"'{text}' is not a timestamp.*2026-11-21T15:30:46"):
        timestamp_ms_of(text, where="--to")
