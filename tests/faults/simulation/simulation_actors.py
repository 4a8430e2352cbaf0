"""The actors of a scenario: runs, vacuums, brokers, readers, and people who run verbs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from tests.compaction.planning.plan_check import plan_violations
from tests.faults.simulation.environment_broker import (
    BROKER_FAULTS,
    History,
    delete_topic,
    history,
    upload,
)
from tests.faults.simulation.environment_checks import keys_of
from tests.faults.simulation.environment_model import Tier
from tests.faults.simulation.simulation_executor import simulated
from tests.faults.simulation.simulation_forgetting import forgets, restore_once
from tests.faults.simulation.simulation_scheduler import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    REJECTED,
    Actor,
    Fault,
)
from tests.faults.simulation.simulation_settings import Environment
from tierfold.compaction.deletion.deletion_plan import GRACE_MS, VacuumLimits
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.errors import TierfoldError, UnreadableObject
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.planning.chunks import UNBOUND
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Rest, RestReason
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    NOTHING_TO_DO,
    REFUSED,
    PartitionReport,
)
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.verbs.catalog_cleanup import catalog_cleaned
from tierfold.jobs.verbs.compact import carried_out
from tierfold.jobs.verbs.vacuum import vacuum
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid

FORGETS_TRUNCATED: Final = 0.9
"""The probability that a person runs `tierfold forget` if a log was truncated."""


def begin(environment: Environment) -> None:
    """Upload a few segments and start all actors."""
    rng, scheduler = environment.scheduler.rng, environment.scheduler
    before = Actor(name="before", scheduler=scheduler, is_witness=True)
    for log in tuple(environment.histories.values()):
        upload(before, environment.objects, log, rng.randint(1, len(log.to_come)))
        # If it starts late, a run claims the partition before an upload is incomplete.
        scheduler.spawn(
            f"broker of {log.key.topic}",
            partial(_broker, environment, log),
            allowed=BROKER_FAULTS,
            after_ms=rng.choice((0, HOUR_MS, 2 * DAY_MS)),
        )
    for number in range(rng.randint(2, 4)):
        # The first is a zombie: its claim or one of its commits stalls for hours or days. If it
        # starts late, there is often work that no other run takes.
        after_ms = rng.choice((0, HOUR_MS, 3 * DAY_MS) if number == 0 else (0, 0, HOUR_MS, DAY_MS))
        stalls_at = rng.choice((0, 1, 2, 2, 3)) if number == 0 else 0
        scheduler.spawn(
            f"run{number}", partial(runs, environment), after_ms=after_ms, stalls_at=stalls_at
        )
    for number in range(rng.randint(1, 2)):
        after_ms = rng.choice((HOUR_MS, DAY_MS + HOUR_MS, 2 * DAY_MS))
        scheduler.spawn(f"vacuum{number}", partial(vacuums, environment), after_ms=after_ms)
    for act, likely in (BOUND_PERSONS if environment.is_bound else PERSONS).items():
        is_due = act is forgets and any(
            log.written.lost for log in environment.histories.values()
        )
        if rng.random() < (FORGETS_TRUNCATED if is_due else likely):
            after_ms = rng.choice((MINUTE_MS, HOUR_MS, DAY_MS))
            scheduler.spawn("person", partial(act, environment), after_ms=after_ms)
    for number in range(rng.randint(0, 2)):
        after_ms = rng.choice((MINUTE_MS, HOUR_MS, DAY_MS))
        allowed = frozenset({Fault.STALLED})
        scheduler.spawn(f"reader{number}", partial(_reader, environment), allowed=allowed)
    if rng.random() < 0.2:
        log = rng.choice(tuple(environment.histories.values()))
        scheduler.spawn(
            "admin",
            partial(_recreates_topic, environment, log),
            allowed=BROKER_FAULTS,
            after_ms=rng.choice((MINUTE_MS, HOUR_MS)),
        )


def runs(environment: Environment, actor: Actor) -> None:
    """Run `compact` once or twice, as a job scheduler does."""
    for number in range(environment.scheduler.rng.randint(1, 2)):
        compact(environment, f"{actor.name}.{number}", actor)
        actor.sleep(_drawn_wait_ms(environment))


def compact(environment: Environment, run: str, actor: Actor) -> None:
    """Run `tierfold compact` and check its survey before it continues."""
    context = environment.run_context(actor, run)
    tiers = {key: environment.watch.tier(key) for key in environment.histories}
    try:
        plans = survey(context, environment.settings, Scope())
    except TierfoldError as error:
        environment.happened(run, "survey failed", error.what)
        return
    for plan in plans:
        _check_choice(environment, tiers.get(plan.key), plan, context.now_ms)
    environment.refused = {
        plan.key: plan.choice.detail for plan in plans if isinstance(plan.choice, Refusal)
    }
    due = [plan.key for plan in plans if plan.is_due]
    environment.due += sum(not environment.histories[key].is_deleted for key in due)
    engine = simulated(environment, actor)
    reports = carried_out(context, UNBOUND, engine, context.now_ms, plans)
    for plan, report in zip(plans, reports, strict=True):
        if isinstance(plan.choice, Refusal):
            how = f"refused: {plan.choice.reason}"
            environment.happened(run, how, f"{plan.key}: {plan.choice.detail}")
        elif plan.is_due:
            environment.happened(run, report.outcome, f"{report.key}: {report.reason}")
    _count_partial_deaths(environment, reports)


def _count_partial_deaths(environment: Environment, reports: Sequence[PartitionReport]) -> None:
    """Count runs in which a worker's death stopped one partition but not the other."""
    is_stopped = any(
        report.outcome == FAILED and "a worker died" in report.reason for report in reports
    )
    is_done = any(report.outcome == COMPACTED for report in reports)
    environment.outcomes["a worker death stops one of two"] += is_stopped and is_done


def _check_choice(
    environment: Environment, before: Tier | None, partition: PartitionPlan, began_ms: int
) -> None:
    """Fail if the survey accepts a truncated log, ignores waiting uploads, or plans wrongly.

    The survey must have seen whatever was in the tier before it and still is, except what the store
    failed to read. Of a newer leader's upload it may have seen only the `.log`. That shows that the
    older log was truncated, but cannot be used yet.
    """
    if wrong := plan_violations(partition, began_ms):
        environment.fail(f"{partition.key}: the plan contradicts the view: {'; '.join(wrong)}")
    if before is None or before.log.is_deleted or isinstance(partition.choice, Refusal):
        return
    seen, after = _without_unread(before, partition), environment.watch.tier(partition.key)
    if seen.is_truncated:
        environment.fail(f"{partition.key} is not refused, but its log was truncated: {seen.row}")
    if seen.row is None or after.row is None or not isinstance(partition.choice, Rest):
        return
    if seen.is_stalled(began_ms) and after.is_stalled(began_ms):
        environment.fail(
            f"{partition.key} is left unchanged, but uploads beyond {after.reach} have waited"
            " for a day"
        )
    is_idle = partition.choice.reason is RestReason.NOTHING_DIRTY
    ids = {upload.attempt.segment_id for upload in seen.whole}
    reach = after.reach_through([u for u in after.whole if u.attempt.segment_id in ids])
    if is_idle and reach > after.row.next_offset:
        environment.fail(
            f"{partition.key} is left unchanged, but uploads reach {reach}:"
            f" {partition.choice.detail}"
        )


def _without_unread(tier: Tier, partition: PartitionPlan) -> Tier:
    """Return the tier without the uploads that the store failed to read in this survey."""
    notes = () if partition.view is None else partition.view.notes
    failed = [note for note in notes if REJECTED in note]
    read = (
        held
        for held in tier.held
        if not any(note.startswith(f"segment {held.attempt.segment_id} ") for note in failed)
    )
    return replace(tier, held=tuple(read))


def vacuums(environment: Environment, actor: Actor) -> None:
    for number in range(environment.scheduler.rng.randint(2, 3)):
        deletion(environment, f"{actor.name}.{number}", actor)
        actor.sleep(_drawn_wait_ms(environment))


def deletion(
    environment: Environment, run: str, actor: Actor, *, is_diverged: bool = False
) -> None:
    """Run `tierfold vacuum`, with `--diverged` or without."""
    context = environment.run_context(actor, run)
    times = VacuumLimits(now_ms=context.now_ms, takes_set_apart=is_diverged)
    try:
        reports = vacuum(context, environment.settings, Scope(), times)
    except TierfoldError as error:
        environment.happened(run, "vacuum: survey failed", error.what)
        return
    due = [report for report in reports if report.outcome not in {NOTHING_TO_DO, REFUSED}]
    environment.due += sum(not environment.histories[report.key].is_deleted for report in due)
    for report in reports:
        for candidate in report.candidates:
            environment.outcomes[f"{candidate.kind} deleted"] += candidate.is_gone
        environment.happened(run, f"vacuum: {report.outcome}", f"{report.key}: {report.reason}")
        if report.outcome == REFUSED:
            environment.refused.setdefault(report.key, report.reason)
    environment.outcomes["old versions deleted"] += catalog_cleaned(context)


def gives_up_set_apart(environment: Environment, actor: Actor) -> None:
    """Run `tierfold vacuum --diverged`: a person gives up the segments that are set apart."""
    for log in environment.histories.values():
        log.is_given_up = True
    for number in range(2):
        actor.sleep(2 * DAY_MS)
        deletion(environment, f"{actor.name}.{number}", actor, is_diverged=True)


def restores(environment: Environment, actor: Actor) -> None:
    """Run `tierfold restore` to an earlier row."""
    rng = environment.scheduler.rng
    for number in range(rng.randint(1, 2)):
        keys = sorted(environment.commit_times_ms)
        if not keys:
            return
        key = rng.choice(keys)
        to_ms = rng.choice(environment.commit_times_ms[key][:3])
        restore_once(environment, key, str(to_ms), f"{actor.name}.{number}", actor)


PERSONS: Final[dict[Callable[[Environment, Actor], None], float]] = {
    restores: 0.4,
    gives_up_set_apart: 0.2,
    forgets: 0.1,
}
"""What people do, each with its probability per scenario."""

BOUND_PERSONS: Final = {restores: PERSONS[restores]}
"""The same if brokers serve the tier: then no one gives up what they uploaded."""


def _broker(environment: Environment, log: History, actor: Actor) -> None:
    """Upload the rest of a log, unless the topic is deleted."""
    while log.to_come and not log.is_deleted:
        upload(actor, environment.objects, log, 1)
        actor.sleep(_drawn_wait_ms(environment))


def _drawn_wait_ms(environment: Environment) -> int:
    return environment.scheduler.rng.choice((0, MINUTE_MS, 5 * HOUR_MS, DAY_MS, 2 * DAY_MS))


def _recreates_topic(environment: Environment, log: History, actor: Actor) -> None:
    """Delete a topic and create it again with another id."""
    delete_topic(actor, environment.objects, log)
    successor = history(environment.scheduler.rng, replace(log.key, topic_id=new_kafka_uuid()), 2)
    # A running `vacuum --diverged` may also survey the new topic id.
    successor.is_given_up = any(log.is_given_up for log in environment.histories.values())
    environment.histories[successor.key] = successor
    upload(actor, environment.objects, successor, 2 * len(successor.to_come))


def _reader(environment: Environment, actor: Actor) -> None:
    """Read a row, then its segments; they must be there until the grace period ends."""
    context = environment.run_context(actor, actor.name)
    for _ in range(6):
        actor.sleep(_drawn_wait_ms(environment))
        rows, read_at_ms = context.catalog.read().values(), environment.scheduler.now_ms
        for state in rows:
            for segment in state.segments:
                _read(environment, context, state, segment, read_at_ms)


def _read(
    environment: Environment,
    context: RunContext,
    state: PartitionState,
    segment: Segment,
    read_at_ms: int,
) -> None:
    """`read_at_ms`: when the row was read. A segment that `forget` gave up was never retired."""
    for key in keys_of(state.key, segment):
        try:
            context.tier.store.read(key)
        except UnreadableObject as error:
            if key in environment.histories[state.key].moved_away:
                return
            row = environment.watch.rows[state.key]
            is_named = segment.segment_id in row.live_ids | row.retired_ids
            left_at_ms = environment.scheduler.now_ms if is_named else read_at_ms
            retired_at_ms = environment.watch.retired_at_ms.get(key, left_at_ms)
            is_kept = environment.scheduler.now_ms - retired_at_ms < GRACE_MS
            if is_kept and not environment.histories[state.key].is_deleted:
                environment.fail(f"a reader of epoch {state.epoch} cannot read: {error}")
            return
