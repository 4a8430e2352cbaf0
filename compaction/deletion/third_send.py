"""Where brokers serve a partition, its deletion follows from looks under the run's claim.

    before   `confirmed` keeps of the plan what the look allows to be deleted
    after    `read_back`: what brokers still list stays in the row

A look that shows a half-done swap allows nothing: `why_open`.

Rule: PUBLISHING 1.3, 3.6, 6.1; `publishing.deletions` decides.
"""

from __future__ import annotations

from dataclasses import replace

from tierfold.compaction.deletion.deletion_plan import DeletionPlan
from tierfold.compaction.deletion.dropped import dropped_in
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.metadata_loss import is_known_since
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.steps import Delete, Deletion, Done, Refused, Step, Wait


def why_open(step: Step) -> str:
    """Why nothing may be deleted before something else is done, a sentence; empty: it may."""
    match step:
        case Done() | Wait():
            return ""
        case Refused():
            return f"nothing can be published, so nothing is deleted: {step.why}"
        case _:
            return (
                f"an earlier swap is not wholly published ({step.why}), and `tierfold compact`"
                " completes it"
            )


def confirmed(plan: DeletionPlan, look: Look, deletion: Deletion) -> DeletionPlan:
    """The plan without what this look, after all events that it asked for, does not let go.

    What brokers have forgotten, or never had, and has no object, only leaves the row.
    """
    present = look.present
    if present is None:
        raise ValueError("nothing is deleted by a look without a listing")
    dropped = dropped_in(look, plan.marked_ids)
    deletable = frozenset(deletion.segment_ids) if isinstance(deletion, Delete) else frozenset()
    may_go = deletable | (dropped.may_leave_row - present)
    return replace(
        plan,
        starting=tuple(one for one in plan.starting if one.segment.segment_id in may_go),
        going=tuple(one for one in plan.going if one.segment.segment_id in may_go),
        orphans=tuple(one for one in plan.orphans if _was_never_given(look, one)),
        dropped=dropped,
        listed_again=(),
    )


def _was_never_given(look: Look, orphan: ListedSegment) -> bool:
    """Whether no run can have given the orphan to brokers."""
    cluster = look.row.cluster
    start = 0 if cluster is None else cluster.metadata_start
    is_known = is_known_since(look.row, start, orphan.modified_ms)
    return is_known and not look.was_named(orphan.segment_id)


def read_back(plan: DeletionPlan, look: Look) -> DeletionPlan:
    """The plan with what brokers have of its segments afterwards."""
    return replace(plan, dropped=dropped_in(look, plan.marked_ids))
