"""Rules that cannot both hold, or should not: tables of cases, each with its source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfold.compaction.model.rules import (
    LONG_MAX,
    CompactionStrategy,
    Rules,
    outlasting,
    setting_violations,
)

HEADER = CompactionStrategy.HEADER
TIMESTAMP = CompactionStrategy.TIMESTAMP
LAGS = ("max_compaction_lag_ms", "is below", "min_compaction_lag_ms")
NAMELESS = ("compaction_strategy", "needs", "compaction_strategy_header")


@pytest.mark.parametrize(
    ("rules", "expected", "source"),
    [
        (Rules(), [], "Kafka's defaults"),
        (
            Rules(min_compaction_lag_ms=6, max_compaction_lag_ms=5),
            [LAGS],
            "LogConfig.validateValues: min > max is refused",
        ),
        (Rules(min_compaction_lag_ms=5, max_compaction_lag_ms=5), [], "the same: equal is not"),
        (Rules(min_compaction_lag_ms=LONG_MAX), [], "the same: both never"),
        (
            Rules(compaction_strategy=HEADER),
            [NAMELESS],
            "KIP-280 would fall back to offset; SEMANTICS 3 names no header to read",
        ),
        (Rules(compaction_strategy=HEADER, compaction_strategy_header="v"), [], "KIP-280"),
        (Rules(compaction_strategy=TIMESTAMP), [], "KIP-280: the header is the other's"),
        (
            Rules(compaction_strategy_header="v"),
            [],
            "KIP-280: read under strategy header alone, so that a broker may name it for all",
        ),
        (
            Rules(
                min_compaction_lag_ms=2, max_compaction_lag_ms=1, compaction_strategy=HEADER
            ),
            [LAGS, NAMELESS],
            "both",
        ),
    ],
)
def test_settings_that_contradict_each_other(
    rules: Rules, expected: list[tuple[str, str, str]], source: str
) -> None:
    found = list(setting_violations(rules))
    assert [
        (violation.first, violation.says, violation.second) for violation in found
    ] == expected, source
    assert all(violation.remedy for violation in found)


@pytest.mark.parametrize(
    ("segment_ms", "max_lag_ms", "fields"),
    [
        (9, 9, ()),
        (10, 9, ("segment_ms",)),
        (9, 10, ("max_compaction_lag_ms",)),
        (11, 11, ("segment_ms", "max_compaction_lag_ms")),
    ],
)
def test_a_tombstone_should_outlast_what_keeps_a_late_record_back(
    segment_ms: int, max_lag_ms: int, fields: tuple[str, ...]
) -> None:
    rules = Rules(
        compaction_strategy=TIMESTAMP,
        delete_retention_ms=10,
        segment_ms=segment_ms,
        max_compaction_lag_ms=max_lag_ms,
    )
    assert outlasting(rules) == fields
    assert outlasting(replace(rules, compaction_strategy=CompactionStrategy.OFFSET)) == ()
