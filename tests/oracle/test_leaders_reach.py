"""The seeds together reach every kind of overlap and every outcome of overlapping records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.oracle.leaders_run import Led, Step

KINDS = {
    *("chained", "nested", "same start", "same end", "the same twice"),
    *("before what it follows", "over compacted ones", "late and superseded"),
}
OUTCOMES = {
    *("record superseded", "aborted transaction listed", "delete horizon set"),
    *("undecided at first", "live, cut and unchanged"),
}


def test_all_seeds_together_meet_every_kind_of_overlap(led: Led) -> None:
    met = Counter(kind for topic in led.topics.values() for kind in topic.layout.kinds)
    assert set(met) == KINDS, met


def test_all_seeds_together_meet_every_outcome(led: Led) -> None:
    met: Counter[str] = Counter()
    for topic in led.topics.values():
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
            "undecided at first": 0 < step.oracle_end <= segments[-1]["end_offset"],
            "live, cut and unchanged": sum(
                int(Path(segment["log"]).name[:20]) != segment["start_offset"]
                for segment in segments
            ),
        }
    )
