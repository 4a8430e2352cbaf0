"""Which ages a person set so short that `vacuum` deletes what may still be needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tierfold.compaction.deletion.deletion_plan import VacuumLimits
from tierfold.compaction.model.rules import DAY_MS
from tierfold.compaction.model.wording import duration

GRACE_USUAL_MS: Final = 3_600_000
"""A grace period below an hour is short: readers of the earlier row may still be at work."""

ORPHAN_AGE_USUAL_MS: Final = DAY_MS
"""An orphan age below a day is short: a run may still commit what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortAge:
    """An age that is short, and what that risks."""

    option: str
    given_ms: int
    usual_ms: int
    risk: str
    """A clause."""

    @property
    def sentence(self) -> str:
        """What was short, and the risk."""
        given, usual = duration(self.given_ms), duration(self.usual_ms)
        return f"{self.option} is {given}, below {usual}: {self.risk}."


def short_ages(limits: VacuumLimits) -> tuple[ShortAge, ...]:
    """Return the ages of one `vacuum` that are short, the grace period first."""
    grace = ShortAge(
        option="--grace-period",
        given_ms=limits.grace_ms,
        usual_ms=GRACE_USUAL_MS,
        risk="readers may still need replaced segments, and `restore` cannot bring them back",
    )
    orphan_age = ShortAge(
        option="--orphan-age",
        given_ms=limits.orphan_age_ms,
        usual_ms=ORPHAN_AGE_USUAL_MS,
        risk="a run at work may not have committed what it wrote",
    )
    return tuple(age for age in (grace, orphan_age) if age.given_ms < age.usual_ms)
