"""The metadata topic of a served partition is lost, once; a person rebuilds it.

The decision, the rows and the check of events are the product's (`publishing.lost_metadata`,
`commits.rebuilt_row`, `planning.rebuild_look`); the shell is that of
`jobs.publishing.joint_rebuild`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tests.compaction.builders import CLUSTER
from tests.faults.broker_model.consumers import Fetched, Unavailable
from tests.faults.broker_model.metadata_cache import FINISHED
from tests.faults.broker_model.tier_contents import PARTS
from tests.faults.simulation.served_brokers import restarts
from tests.faults.simulation.served_environment import ServedEnvironment
from tests.faults.simulation.served_losses import listed
from tests.faults.simulation.served_run import ServedRun
from tests.faults.simulation.served_segments import brokers_of, upload_event, uploaded
from tests.faults.simulation.served_table import Stopped, failure
from tests.faults.simulation.served_verbs import LOOKS_MAX
from tests.faults.simulation.simulation_scheduler import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    Actor,
)
from tierfold.compaction.commits.commit import ReleaseClaim
from tierfold.compaction.commits.rebuilt_row import rebuilt, row_to_claim, with_metadata_of
from tierfold.compaction.commits.row_changes import claimed
from tierfold.compaction.deletion.dropped import left_behind
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.planning.rebuild_look import unknown_uploads, without_deleted
from tierfold.compaction.publishing.event_check import ForbiddenEvent, checked
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.lost_metadata import (
    LostAlready,
    NameAgain,
    NothingLost,
    RebuildStep,
    StopCopying,
    rebuild_step,
    with_rebuilds,
)
from tierfold.compaction.publishing.must_be_finished import must_be_finished
from tierfold.compaction.publishing.ranges import OffsetRange
from tierfold.compaction.publishing.steps import RefusalCode, Refused, Send

WAITS_MS: Final = (0, MINUTE_MS, HOUR_MS, 8 * HOUR_MS)
LOSES_MAX: Final = 1000
ROUNDS: Final = 12
STOPS_COPYING: Final = 0.3


def loses_metadata(environment: ServedEnvironment, actor: Actor) -> None:
    """Truncate the topic at any time; then a person rebuilds, as often as it takes."""
    cluster, rng = environment.cluster, environment.rng
    actor.sleep(rng.choice((0, MINUTE_MS, HOUR_MS, DAY_MS)) + rng.randrange(HOUR_MS))
    if rng.random() < 0.5:
        _awaits_events(environment, actor)
    for _ in range(LOSES_MAX):
        if environment.act(actor, "lose the metadata topic", cluster.lose_metadata):
            break
        actor.sleep(MINUTE_MS)
    else:
        return
    environment.outcomes["the metadata topic was lost"] += 1
    for brokers in cluster.brokers:
        environment.outcomes["brokers had not read all that was lost"] += brokers.lacks
    for number in range(ROUNDS):
        actor.sleep(rng.choice(WAITS_MS))
        if not environment.is_rebuild_due:
            copies_on(environment)
            continue
        if rng.random() < STOPS_COPYING:
            environment.act(actor, "stop the copying", partial(_stop_copying, environment))
            if rng.random() < 0.8:
                actor.sleep(rng.choice((0, MINUTE_MS)))
                restarts(environment, actor)
        name = f"rebuild{number}"
        environment.scheduler.spawn(name, partial(rebuild, environment, name=name))


def _awaits_events(environment: ServedEnvironment, actor: Actor) -> None:
    """Wait until a broker has not read all of the topic."""
    cluster = environment.cluster
    for _ in range(200):
        if any(broker.applied < len(cluster.sent) for broker in cluster.brokers):
            return
        actor.sleep(10 * SECOND_MS)


def _stop_copying(environment: ServedEnvironment) -> None:
    environment.cluster.is_copying = False
    # Local copies stay for as long.
    environment.cluster.log.local_ms = 2**62
    environment.outcomes["copying stopped"] += 1


def copies_on(environment: ServedEnvironment) -> None:
    """Let copying go on once all is named again."""
    if not environment.is_rebuild_due:
        environment.cluster.is_copying = True


def rebuild(environment: ServedEnvironment, actor: Actor, name: str) -> None:
    """Name again what the metadata topic lost, or say why not."""
    run = ServedRun(environment=environment, actor=actor, name=name, is_rebuild=True)
    try:
        _Rebuild(run).played()
    except (Stopped, UnreadableObject) as error:
        environment.happened(f"rebuild stopped: {error}")


@dataclass(slots=True)
class _Rebuild:
    """One run of `rebuild`."""

    run: ServedRun
    is_unserved: bool = False
    """Whether a consumer got nothing at the log start; it is not asked again."""

    def played(self) -> None:
        run, environment = self.run, self.run.environment
        plain = run.look()
        look = self._with_lost(plain)
        step = self._decided(look)
        if not isinstance(step, NameAgain | NothingLost):
            self._refuses(plain, step)
            return
        if isinstance(step, NothingLost) and plain.row.cluster == look.row.cluster:
            environment.happened("rebuild has nothing to do")
            self._move_out(plain, unknown_uploads(look))
            return
        self._claim(plain.row, look.row)
        for _ in range(LOOKS_MAX):
            plain = run.look()
            look = self._with_lost(plain)
            match step := self._decided(look):
                case NameAgain():
                    self._sends(look, step)
                case NothingLost():
                    self._notes(plain)
                    self._checks(look)  # No other run has changed the row since.
                    return
                case _:
                    run.commit(plain, ReleaseClaim(run=run.name))
                    self._refuses(plain, step)
                    return
        environment.fail(f"{run.name} looks for ever: {step}")

    def _claim(self, before: PartitionState, row: PartitionState) -> None:
        run, environment = self.run, self.run.environment
        after = claimed(
            row_to_claim(before, row, replace(CLUSTER, metadata_start=run.metadata_start)),
            run=run.name,
            commit_id=run.commit_id(),
            at_ms=environment.now_ms,
        )
        environment.table.claim(run.actor, before, after)
        run.epoch = after.epoch

    def _with_lost(self, plain: Look) -> Look:
        """The look with what the row and the listing say of the log."""
        run, contents = self.run, self.run.environment.tier.contents
        row = with_metadata_of(plain.row, replace(CLUSTER, metadata_start=run.metadata_start))
        row = without_deleted(row, [*listed(plain)], plain.log_start)
        assert row is not None
        whole = [
            upload_event(contents[segment_id], plain.now_ms)
            for segment_id in sorted(plain.whole - row.named_ids)
            if plain.is_upload(segment_id)
        ]
        row = run.adopted(row, whole, plain.log_start)
        start = min((one.own_start_offset for one in row.segments), default=0)
        covered = [
            uploaded(added, added.start_offset, ())
            for added in whole
            if added.segment_id not in row.named_ids
            and start <= added.start_offset
            and added.end_offset < row.next_offset
        ]
        return with_rebuilds(replace(plain, row=row), covered)

    def _decided(self, look: Look) -> RebuildStep:
        is_copying = self.run.environment.cluster.is_copying
        step = rebuild_step(look, is_served=True, is_copying=is_copying)
        if not isinstance(step, NameAgain):
            return step
        if not self.is_unserved:
            self.is_unserved = not self._is_served(look.log_start)
        return rebuild_step(look, is_served=not self.is_unserved, is_copying=is_copying)

    def _is_served(self, log_start: int) -> bool:
        environment = self.run.environment
        fetch = partial(environment.cluster.fetch, log_start)
        found = environment.act(self.run.actor, "read at the log start", fetch, is_read=True)
        if isinstance(found, Unavailable):
            raise failure("the partition has no leader")
        return isinstance(found, Fetched)

    def _sends(self, look: Look, step: NameAgain) -> None:
        if isinstance(forbidden := checked(look, step.events), ForbiddenEvent):
            self.run.environment.fail(f"{self.run.name}: its own check forbids {forbidden}")
        self.run.environment.outcomes[f"rebuild: {step.order}"] += 1
        why = "the metadata topic was lost"
        self.run.send(Send(purpose=step.purpose, events=step.events, why=why))

    def _checks(self, look: Look) -> None:
        """Fail if brokers lack what they must have as finished, and no broker is at work on it."""
        at_work = {one.added.segment_id for one in look.uploads_at_work if one.added.broker_id >= 0}
        live = {
            one.segment_id: OffsetRange(one.own_start_offset, one.end_offset)
            for one in look.row.segments
            if one.segment_id not in at_work and one.end_offset >= look.log_start
        }
        for segment_id in sorted(must_be_finished(live)):
            # What a run has only started, `compact` finishes as before.
            if look.is_upload(segment_id) and look.state_of(segment_id) is not FINISHED:
                self.run.environment.fail(f"{segment_id} is not finished by {self.run.name}")

    def _notes(self, plain: Look) -> None:
        run = self.run
        found = replace(CLUSTER, metadata_start=run.metadata_start)
        note = rebuilt(plain.row, found, at_ms=run.environment.now_ms, run=run.name)
        updates = () if note is None else (note,)
        run.commit(plain, *updates, ReleaseClaim(run=run.name))
        run.environment.happened("rebuild ended: all is named")

    def _refuses(self, plain: Look, step: RebuildStep) -> None:
        environment = self.run.environment
        environment.happened(f"rebuild refused by {type(step).__name__}: {step}")
        match step:
            case Refused():
                finished = {one.added.segment_id for one in plain.finished}
                if step.code is RefusalCode.NO_ORDER and not finished <= plain.whole:
                    return  # An upload was finished after the listing: the next look has it.
                self.run.judge_refusal(plain, step)
            case StopCopying():
                environment.act(
                    self.run.actor, "stop the copying", partial(_stop_copying, environment)
                )
            case LostAlready(segments=segments):
                self._move_out(plain, [one.segment_id for one in segments])

    def _move_out(self, plain: Look, ids: Iterable[str]) -> None:
        """A person moves out of the tier what a refusal names and lies below the log start.

        Unless brokers still know it, and delete it.
        """
        environment = self.run.environment
        known = {one for broker in environment.cluster.brokers for one in broker.cache.segments}
        below = [
            segment_id
            for segment_id in sorted(set(ids) - known)
            if environment.tier.contents[segment_id].end < plain.log_start
        ]
        _move(environment, self.run.actor, below)


def move_out_what_a_loss_left(environment: ServedEnvironment, actor: Actor) -> None:
    """A person does what `doctor` says of what a rebuild does not name again (`left_by_a_loss`)."""
    if not 0 <= environment.table.row.rebuilt_at_ms <= environment.now_ms - DAY_MS:
        return
    run = ServedRun(environment=environment, actor=actor, name="doctor")
    try:
        look = run.look()
    except (Stopped, UnreadableObject):
        return
    left = left_behind(look.row, brokers_of(environment, look))
    _move(environment, actor, sorted(left & environment.tier.present()))


def _move(environment: ServedEnvironment, actor: Actor, ids: Sequence[str]) -> None:
    """Move segments out of the tier."""
    for segment_id in ids:
        for part in PARTS:
            environment.act(
                actor,
                f"move {segment_id[:6]}.{part} out of the tier",
                partial(_moved, environment, segment_id, part),
            )
    environment.outcomes["moved out of the tier"] += len(ids)


def _moved(environment: ServedEnvironment, segment_id: str, part: str) -> None:
    environment.is_by_run = False
    environment.tier.remove(segment_id, part)
