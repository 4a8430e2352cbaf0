"""A person restores an earlier state of a partition that brokers serve.

The plan, its refusals and the change of the row are the product's (`commits.restore`,
`commits.published_restore`); the shell around them is that of `jobs.verbs.restore`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from tests.faults.broker_model.tier_contents import PARTS, Content, Kept
from tests.faults.simulation.served_environment import ServedEnvironment
from tests.faults.simulation.served_run import ServedRun
from tests.faults.simulation.served_table import Stopped, failure
from tests.faults.simulation.served_verbs import published
from tests.faults.simulation.simulation_scheduler import Actor
from tierfold.compaction.commits.commit import ReleaseClaim
from tierfold.compaction.commits.published_restore import (
    offsets_read_again,
    unpublishable_restore,
)
from tierfold.compaction.commits.restore import RestorePlan, restore_plan_of
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.steps import Done

STATES_BACK_MAX: Final = 25
"""How many claims and commits a person goes back at most."""


def restore(environment: ServedEnvironment, actor: Actor, name: str) -> None:
    """Complete what is open, make copies of an earlier state live, and publish that."""
    run = ServedRun(environment=environment, actor=actor, name=name)
    try:
        run.claim(adopts=True)
        if not isinstance(published(run, 0), Done):
            environment.happened("restore not begun")
            return
        run.epoch = 0  # It was released.
        run.claim(adopts=False)
        look = run.look()
        plan = _plan(run, look)
        if isinstance(plan, str):
            run.commit(look, ReleaseClaim(run=run.name))
            environment.happened(f"restore refused: {plan}")
            return
        run.commit(look, plan.update(at_ms=environment.now_ms, run=name, copies=_copied(run, plan)))
        environment.outcomes["restores"] += 1
        if isinstance(published(run, 0), Done):
            _check_read_again(run, plan)
    except (Stopped, UnreadableObject) as error:
        environment.happened(f"restore stopped: {error}")


def _plan(run: ServedRun, look: Look) -> RestorePlan | str:
    """What a restore changes, or why there is none: often of a state that can be restored."""
    environment, rng = run.environment, run.environment.rng
    rows = environment.rows[-STATES_BACK_MAX:]
    plans = [restore_plan_of(rng.choice(rows), look.row)]
    if rng.random() < 0.7:
        # A person sees in `history` which ones can be.
        plans += [restore_plan_of(earlier, look.row) for earlier in rows]
    changes = [one for one in plans if isinstance(one, RestorePlan) and not one.is_nothing]
    plan = rng.choice(changes or plans[:1])
    if isinstance(plan, Refusal):
        return plan.detail
    if plan.is_nothing:
        return "nothing to do"
    for segment in plan.back:
        # By a row that another run has changed since, nothing is committed.
        is_newest = look.row == environment.table.row
        if segment.segment_id in environment.deleted_by_runs and is_newest:
            environment.fail(f"a restore takes {segment.segment_id}, which a vacuum deleted")
        if segment.segment_id not in look.whole:
            return "objects are missing"
    refusal = unpublishable_restore(plan, look.row, environment.limits.batch_bytes_max)
    return plan if refusal is None else refusal.detail


def _copied(run: ServedRun, plan: RestorePlan) -> Sequence[Segment]:
    """Copy the objects of what comes back; raises UnreadableObject if one of them is gone."""
    environment, copies = run.environment, list[Segment]()
    for source in plan.back:
        copy = source.copied(environment.new_id(is_own=True, is_restored=True), run.name)
        content = environment.tier.contents[source.segment_id]
        content = content._replace(segment_id=copy.segment_id)
        for part in PARTS:
            put_copy = partial(_put_copy, environment, source.segment_id, content, part)
            environment.act(run.actor, f"copy {source.segment_id[:6]}.{part}", put_copy)
        copies.append(copy)
    return copies


def _put_copy(environment: ServedEnvironment, source_id: str, copy: Content, part: str) -> None:
    if (source_id, part) not in environment.tier.objects:
        raise failure(f"an object of {source_id} is gone")
    environment.tier.put(copy, part, environment.now_ms)


def _check_read_again(run: ServedRun, plan: RestorePlan) -> None:
    """Fail if consumers do not see again what the restore says.

    Unless something came meanwhile.
    """
    environment, cluster = run.environment, run.environment.cluster
    live = environment.table.row.segments
    copied_ids = {segment.first_id for segment in live if segment.written_by_run == run.name}
    is_as_left = copied_ids == {segment.first_id for segment in plan.back}
    if run.seen < len(cluster.sent) or not is_as_left:
        return
    expected = set(_records_of(environment, plan.segments))
    for bounds in offsets_read_again(plan):
        offsets = range(max(bounds.first, cluster.log.log_start), bounds.last + 1)
        served = cluster.whole.all_found(cluster.log.lineage, offsets)
        for offset, segment in served.items():
            records = environment.tier.contents[segment.segment_id].records
            seen = {record for record in records if record.offset == offset}
            if seen != {record for record in expected if record.offset == offset}:
                environment.fail(f"after a restore, consumers see {seen} at offset {offset}")
    environment.outcomes["restores seen"] += 1


def _records_of(environment: ServedEnvironment, segments: Sequence[Segment]) -> Iterator[Kept]:
    """What segments give to the log."""
    for segment in segments:
        for record in environment.tier.contents[segment.segment_id].records:
            if segment.start_offset <= record.offset <= segment.end_offset:
                yield record
