"""Rounds that a run has claimed, for tests of one stage."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tierfold.compaction.planning.chunks import Chunk
from tierfold.compaction.planning.plan import Compact
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.run_loop import PartitionRun, rounds_of
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.pipeline.task_assignment import Round
from tierfold.jobs.settings.resolution import resolve

NOW_MS: Final = 1_800_000_000_000
ALWAYS: Final = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0")


def claimed_rounds(tier: Path, *settings: str) -> tuple[RunContext, list[Round]]:
    """Every partition of the tier, surveyed and claimed."""
    context = run_context(str(tier), None, NOW_MS)
    surveyed = survey(context, resolve([*ALWAYS, *settings]), Scope())
    begun = [
        (
            PartitionRun(surveyed=partition, plan=partition.choice),
            Chunk(plan=partition.choice, is_last=True),
        )
        for partition in surveyed
        if isinstance(partition.choice, Compact)
    ]
    return context, rounds_of(context, begun)
