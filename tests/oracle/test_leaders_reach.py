"""All seeds together reach every kind of overlap and every outcome of overlapping records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.oracle.leaders_run import LeadersRun, Step

KINDS = {
    *("chained", "nested", "same start", "same end", "identical"),
    *("ahead of its predecessor", "over compacted segments", "late and redundant"),
}
OUTCOMES = {
    *("record superseded", "aborted transaction listed", "delete horizon set"),
    *("undecided end of the log", "effective start above its own"),
}


def test_all_seeds_together_reach_every_kind_of_overlap(leaders: LeadersRun) -> None:
    met = Counter(kind for topic in leaders.topics.values() for kind in topic.layout.kinds)
    assert set(met) == KINDS, met


def test_all_seeds_together_reach_every_outcome(leaders: LeadersRun) -> None:
    met: Counter[str] = Counter()
    for topic in leaders.topics.values():
        for step in topic.steps:
            met.update(_outcomes(step))
    assert set(+met) == OUTCOMES, met


def _outcomes(step: Step) -> Counter[str]:
    before, after = (
        sum(len(batch["records"]) for batch in log) for log in (step.source, step.found)
    )
    segments = step.status["segments"]
    return Counter(
        {
            "record superseded": before - after,
            "aborted transaction listed": len(step.aborted),
            "delete horizon set": sum(b["deleteHorizonMs"] is not None for b in step.found),
            "undecided end of the log": 0 < step.oracle.end <= segments[-1]["end_offset"],
            "effective start above its own": sum(
                int(Path(segment["log"]).name[:20]) != segment["start_offset"]
                for segment in segments
            ),
        }
    )
