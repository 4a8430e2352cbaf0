"""Rules that cannot both hold: a table of cases, each with its source."""

from __future__ import annotations

import pytest

from compaction.rules import LONG_MAX, CompactionStrategy, Rules, contradictions

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
def test_what_cannot_hold_together(
    rules: Rules, expected: list[tuple[str, str, str]], source: str
) -> None:
    found = contradictions(rules)
    assert [(each.first, each.says, each.second) for each in found] == expected, source
    assert all(each.remedy for each in found)
