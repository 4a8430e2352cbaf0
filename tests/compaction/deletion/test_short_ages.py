"""Which ages are short: a grace period below an hour, an orphan age below a day."""

from __future__ import annotations

import pytest

from tierfold.compaction.deletion.deletion_plan import VacuumLimits
from tierfold.compaction.deletion.short_ages import short_ages

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("grace_ms", "orphan_age_ms", "short"),
    [
        (HOUR_MS, 24 * HOUR_MS, []),
        (HOUR_MS - 1, 24 * HOUR_MS, ["--grace-period"]),
        (HOUR_MS, 24 * HOUR_MS - 1, ["--orphan-age"]),
        (0, 0, ["--grace-period", "--orphan-age"]),
    ],
)
def test_what_is_short(grace_ms: int, orphan_age_ms: int, short: list[str]) -> None:
    limits = VacuumLimits(now_ms=0, grace_ms=grace_ms, orphan_age_ms=orphan_age_ms)
    assert [age.option for age in short_ages(limits)] == short


def test_the_defaults_are_not_short() -> None:
    assert short_ages(VacuumLimits(now_ms=0)) == ()


def test_a_sentence_says_what_was_given_and_what_it_risks() -> None:
    (age,) = short_ages(VacuumLimits(now_ms=0, grace_ms=600_000))
    assert age.sentence.startswith("--grace-period is 10 min, below 1 h: readers ")
