"""What a step of the machine may be: those of CI, and those that are left to soak."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.brokers.cluster import KafkaCluster
from tests.brokers.served_verbs.served_machine import HOUR_MS, Machine
from tests.brokers.served_verbs.served_model import Violation
from tests.brokers.test_rebuild import truncate
from tests.brokers.test_third_send import scripted_sends
from tests.brokers.test_whose_cluster import copied_as
from tests.faults.publishing_kills.served_topic import views_of
from tests.jobs.commands import Ran, tierfold
from tests.storage.call_scripts import Killed, at, killed
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid
from tierfold.storage.tiers.service_notes import FOLDER

Move = Callable[[Machine], None]
Moves = Mapping[Move, int]
"""By move, its weight."""

_CALLS: Final = ("claim", "open_new", "copy", "commit", "exchange", "send", "delete")
"""Operations at which a run is killed, or a broker is restarted."""


def append(machine: Machine) -> None:
    """Records are written and uploaded; where timestamps decide, some are late."""
    if machine.strategy is CompactionStrategy.TIMESTAMP and machine.rng.random() < 0.5:
        machine.write_late(*machine.any_partition())
    machine.write(*machine.any_partition())


def compact(machine: Machine) -> None:
    """A run that nothing disturbs."""
    machine.must_do(machine.compact())


def vacuum(machine: Machine) -> None:
    """A run that nothing disturbs, perhaps after the grace period."""
    machine.hours += machine.rng.choice((0.0, 1.2, 30.0))
    machine.must_do(machine.vacuum())


def be_killed(machine: Machine) -> None:
    """A run is killed before or after one of its calls; the next one takes its claims over."""
    append(machine)  # There is something to do.
    step, is_done = _drawn_call(machine)
    runs = (machine.compact, machine.compact, machine.vacuum, lambda: _restored(machine))
    run: Callable[[], Ran | None] = machine.rng.choice(runs)
    try:
        with scripted_sends(killed(step, is_done=is_done)):
            run()
    except Killed:
        machine.note(f"killed: {step}{' done' if is_done else ''}")


def restore(machine: Machine) -> None:
    """A person goes back to an earlier state of a partition, if the verb allows it."""
    ran = _restored(machine)
    if ran is not None and ran.code not in {0, 3}:
        raise Violation(f"restore ended with {ran.code}: {ran.stderr}")


def look(machine: Machine) -> None:
    """All verbs that change nothing."""
    machine.must_do(machine.run("status", *machine.scope))
    machine.must_do(machine.run("plan", *machine.scope, *machine.settings))
    machine.must_do(machine.run("verify", *machine.scope, "--engine", "local"))
    machine.must_do(machine.run("rebuild", *machine.scope))
    model, partition = machine.any_partition()
    if (model.topic.name, partition) in machine.rows():
        _history(machine, f"{model.topic.name}-{partition}")
    config = ("config", model.topic.name, "--bootstrap-server", machine.kafka.servers)
    machine.must_do(tierfold(*config, *machine.settings))
    for log in model.topic.logs(partition)[-1:]:
        machine.must_do(tierfold("dump", log))


def delete_records(machine: Machine) -> None:
    """The log start moves, perhaps into a batch."""
    model, partition = machine.any_partition()
    start, end = model.starts.get(partition, 0), model.ends[partition]
    offset = machine.rng.randint(start, min(end, start + 12))
    machine.follower.close()
    model.delete_records(partition, offset)
    machine.note(f"log start: {model.topic.name}-{partition} at {offset}")
    machine.settle()
    machine.follower.open()


def lose_catalog(machine: Machine) -> None:
    """The catalog is gone, and `forget` takes over what brokers have, once nothing is open."""
    if not machine.rows():
        return
    machine.hours += 2
    shutil.rmtree(machine.catalog)
    for path in machine.strange:  # Only the catalog had the word that they are left alone.
        path.unlink()
    machine.strange.clear()
    if machine.has_lost_metadata:
        _move_out(machine)
    for model in machine.models:
        for number in range(model.topic.partitions):
            name = f"{model.topic.name}-{number}"
            machine.must_do(machine.run("forget", name))


def leave_alone(machine: Machine) -> None:
    """There is a segment that brokers never had, and a person says that it is left alone."""
    model, partition = machine.any_partition()
    folder, strange = model.topic.folder(partition), new_kafka_uuid()
    logs = model.topic.logs(partition)
    row = machine.rows().get((model.topic.name, partition))
    if row is not None:  # What a killed run has left may lack objects, or lie below the log start.
        logs = [log for log in logs if log.stem[21:] in row.live_ids]
    if not logs:
        return
    copied_as(folder, machine.rng.choice(logs).stem[21:], strange)
    machine.strange += folder.glob(f"*{strange}*")
    name = f"{model.topic.name}-{partition}"
    machine.must_do(machine.run("forget", name, "--leave-alone", strange))


def restart(machine: Machine) -> None:
    """A broker restarts, after SIGTERM or SIGKILL."""
    is_killed = machine.rng.random() < 0.5
    machine.restart(is_killed=is_killed)
    machine.note(f"broker {'killed' if is_killed else 'restarted'}")


def restart_during_a_run(machine: Machine) -> None:
    """A broker restarts before or after one call of a run, which may fail for it."""
    append(machine)
    step, is_done = _drawn_call(machine)
    is_killed = machine.rng.random() < 0.5

    def restarts() -> None:
        machine.note(f"broker {'killed' if is_killed else 'restarted'}: at {step}")
        machine.restart(is_killed=is_killed)

    with scripted_sends(at(step, restarts, is_done=is_done)):
        ran = machine.rng.choice((machine.compact, machine.vacuum))()
    if ran.code not in {0, 3, 4, 5}:
        raise Violation(f"a run beside a broker that restarts ended with {ran.code}: {ran.stderr}")


def change_retention(machine: Machine) -> None:
    """Tombstones go earlier or later."""
    machine.delete_retention_ms = machine.rng.choice((0, HOUR_MS, 24 * HOUR_MS))


def change_strategy(machine: Machine) -> None:
    """By KIP-280's order: producers write what is compared before it is, and until it is not."""
    if machine.strategy is CompactionStrategy.OFFSET:
        machine.strategy = CompactionStrategy.TIMESTAMP
    else:
        machine.strategy = CompactionStrategy.OFFSET
        machine.settle()
    machine.note(f"strategy: {machine.strategy}")


def change_leader(machine: Machine) -> None:
    """Another broker leads a topic, before what was written last is uploaded."""
    model, partition = machine.any_partition()
    nodes = [node for node in machine.kafka.nodes if node != model.topic.leader()]
    if not nodes:
        return
    model.write(partition, [(b"key-0", machine.value())])
    model.topic.move_leader(node := machine.rng.choice(nodes))
    model.topic.wait_until_tiered()
    machine.note(f"leader: {model.topic.name} at {node}")


def lose_metadata(machine: Machine) -> None:
    """The metadata topic is lost, and `rebuild` names all again; then a broker may restart.

    What was written and not published would be refused, so a run completes it before.
    """
    machine.must_do(machine.compact())
    truncate(machine.kafka)
    machine.has_lost_metadata = True
    rebuild = ("rebuild", *machine.scope, "--publish", "--if-held", "take-over")
    step, is_done = _drawn_call(machine)
    try:
        with scripted_sends(killed(step, is_done=is_done)):
            machine.must_do(machine.run(*rebuild))
    except Killed:
        machine.note(f"killed: rebuild, {step}{' done' if is_done else ''}")
    machine.must_do(machine.run(*rebuild))
    if machine.rng.random() < 0.5:
        restart(machine)


def _move_out(machine: Machine) -> None:
    """As a refusal of `forget` asks for: nothing else says that runs which died left these.

    What a rebuild only began, because it was replaced, the next catalog takes for dead uploads.
    """
    for model in machine.models:
        for number, view in views_of(machine.kafka, model.topic).items():
            begun = view.in_state(SegmentState.COPY_STARTED)
            machine.given_up |= {one.added.segment_id for one in begun}
            for path in model.topic.folder(number).iterdir():
                if path.name[21:43] not in view.segments:
                    shutil.move(path, machine.folder)


def _drawn_call(machine: Machine) -> tuple[str, bool]:
    """A call of a run, and whether something happens only after it."""
    step = f"{machine.rng.choice(_CALLS)} {machine.rng.choice((1, 1, 1, 2, 2, 3, 6))}"
    return step, machine.rng.random() < 0.5


def _restored(machine: Machine) -> Ran | None:
    """A restore to some state of some partition; None: there is none."""
    rows = machine.rows()
    if not rows:
        return None
    topic, partition = machine.rng.choice(sorted(rows))
    name = f"{topic}-{partition}"
    (entry,) = _history(machine, name).entries
    states = [one for one in entry["history"] if one["is_restorable"] and not one["is_current"]]
    if not states:
        return None
    to = machine.rng.choice(states)["committed_at"]
    return machine.run("restore", name, "--to", to, "--publish", "--if-held", "take-over")


def _history(machine: Machine, name: str) -> Ran:
    ran = tierfold("history", machine.kafka.tier, name, "--catalog", machine.catalog, "--json")
    machine.must_do(ran)
    return ran


MOVES: Final[Moves] = {
    append: 8,
    compact: 6,
    be_killed: 5,
    vacuum: 3,
    restore: 2,
    look: 1,
    delete_records: 1,
    lose_catalog: 1,
    leave_alone: 1,
    change_retention: 1,
    change_strategy: 1,
}
SOAK_MOVES: Final[Moves] = {
    **MOVES,
    restart: 1,
    restart_during_a_run: 2,
    change_leader: 1,
    lose_metadata: 1,
}
"""Those that take longer, or need a cluster of their own."""


def played(
    kafka: KafkaCluster, folder: Path, seed: int, steps: int, moves: Moves = MOVES
) -> Machine:
    """Play a machine with this seed; at the end the tier forgets which catalog publishes."""
    machine = Machine.of(kafka, folder, seed)
    try:
        machine.play(steps, moves)
    finally:
        shutil.rmtree(kafka.tier / FOLDER, ignore_errors=True)
    return machine
