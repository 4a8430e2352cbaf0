"""A claimed round over a chain of segments, so that a test states only what matters to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from tests.compaction.builders import a_chain, a_state, a_view, cleaned_to
from tests.compaction.hash_keys import FINGERPRINT, HASH_KEY
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.compaction.planning.partition_plan import PartitionPlan, partition_plan

NOW_MS: Final = 2_000_000
RUN: Final = "run"
RULES: Final = Rules(
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=Fraction(0),
    segment_bytes=2000,
)
"""Two segments of `a_chain` fit into a group."""
THREE: Final = a_chain(11, 11, 11)
"""At 0 to 10, 11 to 21 and 22 to 32: a group of two, and one of the last."""


def a_claim(segments: Sequence[Segment] = THREE, **fields: Any) -> PartitionState:
    """The row that `RUN` holds, under epoch 1."""
    return a_state(segments, **{"epoch": 1, "owner_run": RUN} | fields)


def a_plan(segments: Sequence[Segment] = THREE, rules: Rules = RULES) -> PartitionPlan:
    """The plan of a partition that was never cleaned."""
    return partition_plan(a_view(segments), (), rules, NOW_MS)


def a_round(
    plan: PartitionPlan | None = None, state: PartitionState | None = None, **planned: Any
) -> Round:
    """A round of a plan, by default over `THREE`; `planned` are fields of its `Compact`."""
    plan = a_plan() if plan is None else plan
    plan = replace(plan, choice=replace(plan.compact, **planned))
    state = a_claim() if state is None else state
    return Round(
        index=0, state=state, plan=plan, now_ms=NOW_MS, hash_key=HASH_KEY, fingerprint=FINGERPRINT
    )


def cleaned(offset: int) -> PartitionState:
    """The row of `THREE`, clean below the offset."""
    return a_claim(cleaner_offsets=cleaned_to(offset))


def apart(*segments: Segment) -> tuple[SegmentGroup, ...]:
    """A group of each segment."""
    return tuple(SegmentGroup(segments=(segment,)) for segment in segments)
