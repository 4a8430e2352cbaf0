"""Rounds that a run has claimed, for tests of one stage."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tierfold.compaction.cleaning.rounds import GroupTask, Round, group_tasks
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.claiming import begun_rounds
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.partition_run import PartitionRun
from tierfold.jobs.pipeline.round_execution import NO_TRANSACTIONS
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import resolve

NOW_MS: Final = 1_800_000_000_000
ALWAYS: Final = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0")


def claimed_rounds(tier: Path, *settings: str) -> tuple[HeldPartitions, list[Round]]:
    """Every partition of the tier, surveyed and claimed."""
    context = run_context(str(tier), None, NOW_MS)
    plans = survey(context, resolve([*ALWAYS, *settings]), Scope())
    runs = [PartitionRun(plan=plan).beginning(plan, NOW_MS) for plan in plans if plan.is_due]
    held = HeldPartitions(context=context, verb="compact")
    return held, begun_rounds(held, runs)[1]


def tasks_of(work: Round) -> list[GroupTask]:
    """The tasks of all groups of a round without transactions."""
    wanted = dict(enumerate(work.groups))
    return list(group_tasks(work, NO_TRANSACTIONS, wanted=wanted, plain={}, unscanned={}))
