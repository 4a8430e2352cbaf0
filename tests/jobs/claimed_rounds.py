"""Rounds as a run has claimed them, for tests that look at one stage."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from compaction.plan import Compact
from jobs.compact_job import _claimed
from jobs.outcome_reports import survey_report
from jobs.rounds import Round
from jobs.settings import resolve
from jobs.survey import Scope, survey
from jobs.wiring import Wiring, wired

NOW_MS: Final = 1_800_000_000_000
ALWAYS: Final = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0")


def claimed_rounds(tier: Path, *settings: str) -> tuple[Wiring, list[Round]]:
    """Every partition of the tier, surveyed and claimed."""
    live = wired(str(tier), None, NOW_MS)
    surveyed = survey(live, resolve([*ALWAYS, *settings]), Scope())
    due = [each for each in surveyed if isinstance(each.choice, Compact)]
    reports = {each.key: survey_report(each) for each in due}
    return live, _claimed(live, due, reports)
