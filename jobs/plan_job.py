"""`tierfold plan`: what `compact` would do to each partition, and why not more."""

from __future__ import annotations

from jobs.outcome_reports import PartitionReport, survey_report
from jobs.settings import Settings
from jobs.survey import Scope, survey
from jobs.wiring import Wiring


def plan(live: Wiring, settings: Settings, scope: Scope) -> list[PartitionReport]:
    """One report per partition in scope; nothing is changed, no catalog is made.

    Raises BadSettings; whatever is wrong with one partition is in its report.
    """
    return [survey_report(each) for each in survey(live, settings, scope)]
