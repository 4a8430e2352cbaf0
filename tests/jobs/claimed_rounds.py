"""Rounds as a run has claimed them, for tests that look at one stage."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from compaction.chunks import Chunk
from compaction.plan import Compact
from jobs.rounds import Round
from jobs.scope import Scope
from jobs.settings import resolve
from jobs.survey import survey
from jobs.waves import Work, rounds_of
from jobs.wiring import Wiring, wired

NOW_MS: Final = 1_800_000_000_000
ALWAYS: Final = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0")


def claimed_rounds(tier: Path, *settings: str) -> tuple[Wiring, list[Round]]:
    """Every partition of the tier, surveyed and claimed."""
    live = wired(str(tier), None, NOW_MS)
    surveyed = survey(live, resolve([*ALWAYS, *settings]), Scope())
    begun = [
        (Work(surveyed=each, plan=each.choice), Chunk(plan=each.choice, is_last=True))
        for each in surveyed
        if isinstance(each.choice, Compact)
    ]
    return live, rounds_of(live, begun)
