"""Who acts in a story: runs, brokers, readers, and whoever deletes a topic and creates it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from rich.console import Console

from tests.faults.simulation.environment_broker import (
    BROKER_FAULTS,
    History,
    delete_topic,
    history,
    upload,
)
from tests.faults.simulation.environment_checks import keys_of
from tests.faults.simulation.environment_model import Tier
from tests.faults.simulation.simulation_forgetting import takes_back
from tests.faults.simulation.simulation_pipeline import VirtualPipeline
from tests.faults.simulation.simulation_scheduler import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    NOT_TAKEN,
    Actor,
    Fault,
)
from tests.faults.simulation.simulation_settings import World
from tierfold.compaction.deletion.deletion_plan import GRACE_MS, VacuumLimits
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.errors import TierfoldError, UnreadableObject
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.planning.chunks import UNBOUND
from tierfold.compaction.planning.plan import Rest, RestReason
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.partition_report import NOTHING_TO_DO, REFUSED
from tierfold.jobs.pipeline.run_loop import Waves
from tierfold.jobs.pipeline.survey import Surveyed, in_order_of_work, survey
from tierfold.jobs.verbs.restore import restore
from tierfold.jobs.verbs.vacuum import catalog_cleaned, vacuum
from tierfold.storage.kafka.kafka_uuid import new_segment_id

QUIET: Final = Console(quiet=True)

FORGETS_A_FORK: Final = 0.9
"""How often somebody forgets what an unclean election cut off, where there was one."""


def begin(world: World) -> None:
    rng, scheduler = world.scheduler.rng, world.scheduler
    before = Actor(name="before", scheduler=scheduler, is_witness=True)
    for log in tuple(world.histories.values()):
        upload(before, world.objects, log, rng.randint(1, len(log.to_come)))
        # Where it begins late, the partition has been claimed before an upload is cut short.
        scheduler.spawn(
            f"broker of {log.key.topic}",
            partial(_broker, world, log),
            allowed=BROKER_FAULTS,
            after_ms=rng.choice((0, HOUR_MS, 2 * DAY_MS)),
        )
    for number in range(rng.randint(2, 4)):
        # The first is a zombie: it sleeps for long over its claim, or over one of its commits.
        # One that comes late often finds what no other run will do instead of it.
        after_ms = rng.choice((0, HOUR_MS, 3 * DAY_MS) if number == 0 else (0, 0, HOUR_MS, DAY_MS))
        naps_at = rng.choice((0, 1, 2, 2, 3)) if number == 0 else 0
        scheduler.spawn(
            f"run{number}", partial(_runs, world), after_ms=after_ms, naps_at=naps_at
        )
    for number in range(rng.randint(1, 2)):
        after_ms = rng.choice((HOUR_MS, DAY_MS + HOUR_MS, 2 * DAY_MS))
        scheduler.spawn(f"sweeper{number}", partial(_sweeps, world), after_ms=after_ms)
    for act, likely in PERSONS.items():
        is_due = act is takes_back and any(log.written.lost for log in world.histories.values())
        if rng.random() < (FORGETS_A_FORK if is_due else likely):
            after_ms = rng.choice((MINUTE_MS, HOUR_MS, DAY_MS))
            scheduler.spawn("person", partial(act, world), after_ms=after_ms)
    for number in range(rng.randint(0, 2)):
        after_ms = rng.choice((MINUTE_MS, HOUR_MS, DAY_MS))
        allowed = frozenset({Fault.STALLED})
        scheduler.spawn(f"reader{number}", partial(_reader, world), allowed=allowed)
    if rng.random() < 0.2:
        log = rng.choice(tuple(world.histories.values()))
        scheduler.spawn(
            "admin",
            partial(_made_anew, world, log),
            allowed=BROKER_FAULTS,
            after_ms=rng.choice((MINUTE_MS, HOUR_MS)),
        )


def _runs(world: World, actor: Actor) -> None:
    """A scheduler's runs, one after the other."""
    for number in range(world.scheduler.rng.randint(1, 2)):
        compact(world, f"{actor.name}.{number}", actor)
        actor.sleep(_a_while_ms(world))


def compact(world: World, run: str, actor: Actor) -> None:
    """What `jobs.verbs.compact.compact` does, without a session of Spark."""
    context = world.run_context(actor, run)
    tiers = {key: world.watch.tier(key) for key in world.histories}
    try:
        surveyed = survey(context, world.settings, Scope())
    except TierfoldError as error:
        world.happened(run, "survey failed", error.what)
        return
    for partition in surveyed:
        _judged(world, tiers.get(partition.key), partition, context.now_ms)
    world.refused = {
        partition.key: partition.choice.detail
        for partition in surveyed
        if isinstance(partition.choice, Refusal)
    }
    due = in_order_of_work(surveyed)
    world.due += sum(not world.histories[partition.key].is_deleted for partition in due)
    waves = Waves(
        context=context,
        pipeline=VirtualPipeline(driver=actor, world=world, tier=context.tier),
        budget=UNBOUND,
        started_at_ms=context.now_ms,
        record=lambda *_: None,
    )
    for report in waves.run(due):
        world.happened(run, report.outcome, f"{report.key}: {report.reason}")
    for each in surveyed:
        if isinstance(each.choice, Refusal):
            how = f"refused: {each.choice.reason}"
            world.happened(run, how, f"{each.key}: {each.choice.detail}")


def _judged(world: World, before: Tier | None, partition: Surveyed, began_ms: int) -> None:
    """Raises Broken where a partition is served stale, or nobody is told that it stands still.

    What the tier held before the look and still holds must have been seen.
    """
    if before is None or before.log.is_deleted or isinstance(partition.choice, Refusal):
        return
    after = world.watch.tier(partition.key)
    if _told(before, partition).is_cut_off:
        world.broken(f"{partition.key} goes on, and its log was cut off below {before.row}")
    if before.row is None or after.row is None or not isinstance(partition.choice, Rest):
        return
    if before.has_stood_still(began_ms) and after.has_stood_still(began_ms):
        world.broken(
            f"{partition.key} rests, and uploads beyond {after.reach} have waited for a day"
        )
    is_idle = partition.choice.reason is RestReason.NOTHING_DIRTY
    if is_idle and min(before.reach, after.reach) > after.row.next_offset:
        world.broken(
            f"{partition.key} rests, and {after.reach} can be reached: {partition.choice.detail}"
        )


def _told(tier: Tier, partition: Surveyed) -> Tier:
    """The tier without what this look says that the store did not let it read."""
    notes = () if partition.view is None else partition.view.notes
    failed = [note for note in notes if NOT_TAKEN in note]
    read = (
        held
        for held in tier.held
        if not any(note.startswith(f"segment {held.attempt.segment_id} ") for note in failed)
    )
    return replace(tier, held=tuple(read))


def _sweeps(world: World, actor: Actor) -> None:
    for number in range(world.scheduler.rng.randint(2, 3)):
        deletion(world, f"{actor.name}.{number}", actor)
        actor.sleep(_a_while_ms(world))


def deletion(world: World, run: str, actor: Actor, *, is_diverged: bool = False) -> None:
    """`tierfold vacuum`, with `--diverged` or without."""
    context = world.run_context(actor, run)
    times = VacuumLimits(now_ms=context.now_ms, takes_set_apart=is_diverged)
    try:
        reports = vacuum(context, world.settings, Scope(), times, QUIET)
    except TierfoldError as error:
        world.happened(run, "vacuum: no look", error.what)
        return
    due = [report for report in reports if report.outcome not in {NOTHING_TO_DO, REFUSED}]
    world.due += sum(not world.histories[report.key].is_deleted for report in due)
    for report in reports:
        for candidate in report.candidates:
            world.outcomes[f"{candidate.kind} deleted"] += candidate.is_gone
        world.happened(run, f"vacuum: {report.outcome}", f"{report.key}: {report.reason}")
        if report.outcome == REFUSED:
            world.refused.setdefault(report.key, report.reason)
    world.outcomes["old versions deleted"] += catalog_cleaned(context, QUIET)


def _gives_up(world: World, actor: Actor) -> None:
    """`tierfold vacuum --diverged`: a person gives up what lies outside the lineage."""
    for log in world.histories.values():
        log.is_given_up = True
    for number in range(2):
        actor.sleep(2 * DAY_MS)
        deletion(world, f"{actor.name}.{number}", actor, is_diverged=True)


def _restores(world: World, actor: Actor) -> None:
    """`tierfold restore`, to some earlier row."""
    rng = world.scheduler.rng
    for number in range(rng.randint(1, 2)):
        context = world.run_context(actor, f"{actor.name}.{number}")
        keys = sorted(world.moments)
        if not keys:
            return
        key = rng.choice(keys)
        moment_ms = rng.choice(world.moments[key][:3])
        try:
            done = restore(context, f"{key}-{key.topic_id}", str(moment_ms), QUIET)
        except TierfoldError as error:
            world.happened(context.run, "restore: no look", error.what)
        else:
            report = done.report
            world.happened(context.run, f"restore: {report.outcome}", f"{key}: {report.reason}")


PERSONS: Final[dict[Callable[[World, Actor], None], float]] = {
    _restores: 0.4,
    _gives_up: 0.2,
    takes_back: 0.1,
}
"""What people do in a story, and in how many of them."""


def _broker(world: World, log: History, actor: Actor) -> None:
    """What is not yet uploaded, until the topic is deleted."""
    while log.to_come and not log.is_deleted:
        upload(actor, world.objects, log, 1)
        actor.sleep(_a_while_ms(world))


def _a_while_ms(world: World) -> int:
    return world.scheduler.rng.choice((0, MINUTE_MS, 5 * HOUR_MS, DAY_MS, 2 * DAY_MS))


def _made_anew(world: World, log: History, actor: Actor) -> None:
    """A topic is deleted and created again: its name stays, its id does not."""
    delete_topic(actor, world.objects, log)
    anew = history(world.scheduler.rng, replace(log.key, topic_id=new_segment_id()), 2)
    # A vacuum that gives things up may be at work, and finds the new incarnation as well.
    anew.is_given_up = any(log.is_given_up for log in world.histories.values())
    world.histories[anew.key] = anew
    upload(actor, world.objects, anew, 2 * len(anew.to_come))


def _reader(world: World, actor: Actor) -> None:
    """Reads a row, and then what it names: for the grace period all of it is there."""
    context = world.run_context(actor, actor.name)
    for _ in range(6):
        actor.sleep(_a_while_ms(world))
        for state in context.catalog.read().values():
            for segment in state.segments:
                _read(world, context, state, segment)


def _read(world: World, context: RunContext, state: PartitionState, segment: Segment) -> None:
    for key in keys_of(state.key, segment):
        try:
            context.tier.store.read(key)
        except UnreadableObject as error:
            if key in world.histories[state.key].moved_away:
                return
            retired_at_ms = world.watch.retired_at_ms.get(key, world.scheduler.now_ms)
            is_kept = world.scheduler.now_ms - retired_at_ms < GRACE_MS
            if is_kept and not world.histories[state.key].is_deleted:
                world.broken(f"a reader of epoch {state.epoch}: {error}")
            return
