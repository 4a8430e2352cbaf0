"""The steps of the state machine: what may happen to a tier, drawn by weight.

    play    play many steps
    step    play one and check the tier: a broker uploads, a leader is elected, the clock jumps,
            an object is damaged or restored, or a person runs a verb (`verbs_people`)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.faults.random_verbs import verbs_broker as broker
from tests.faults.random_verbs import verbs_people as people
from tests.faults.random_verbs.verbs_checks import Allowed, Violation
from tests.faults.random_verbs.verbs_machine import HOUR_MS, Machine
from tests.faults.random_verbs.verbs_model import Partition, Upload

_JUMPS: Final = (1, 6, 25, 25, 49, -1, -30)
"""Hours."""


def play(machine: Machine, steps: int) -> None:
    """Play `steps` steps; raises Violation with the last steps before it."""
    try:
        for _ in range(steps):
            step(machine)
    except (AssertionError, ValueError, LookupError) as error:
        lines = "\n".join(machine.trace[-60:])
        place = f"seed {machine.seed}, step {len(machine.trace)}"
        raise Violation(f"{place}: {error}\n{lines}") from error


def step(machine: Machine) -> None:
    """Play one step and check the tier."""
    machine.now_ms += 60_000
    actions = [*_ACTIONS, *(((_kill, 4),) if machine.kills else ())]
    (action,) = machine.rng.choices([act for act, _ in actions], [weight for _, weight in actions])
    name = action.__name__.strip("_")
    machine.trace.append(name)
    machine.counts[name] += 1
    machine.inspect(action(machine))


def _upload(machine: Machine) -> None:
    """The leader uploads its next segment: whole, incomplete, or later."""
    partition, rng = machine.any_partition(), machine.rng
    broker.append(rng, partition, rng.randint(1, 6), machine.now_ms)
    upload = broker.next_segment(rng, partition)
    if upload is not None:
        _arrives(machine, partition, upload)


def _arrives(machine: Machine, partition: Partition, upload: Upload) -> None:
    how = machine.rng.choices(("whole", "incomplete", "delayed"), (74, 13, 13))[0]
    machine.note(f"{upload.stem} to {upload.end_offset}, {how}")
    machine.counts[f"upload {how}"] += 1
    if how == "delayed":
        partition.delayed.append(upload)
        return
    parts = machine.rng.randint(1, len(upload.parts) - 1) if how == "incomplete" else None
    broker.put(partition, upload, machine.now_ms, parts=parts)
    if parts is not None and machine.rng.random() < 0.6:
        # The leader uploads it again, with another id and other borders.
        partition.next_upload = min(partition.next_upload, upload.start_offset)


def _late_upload(machine: Machine) -> None:
    """The leader of one of the last three epochs uploads a segment with other borders."""
    partition = machine.any_partition()
    _arrives(machine, partition, broker.late_segment(machine.rng, partition))


def _catch_up(machine: Machine) -> None:
    """Delayed uploads arrive, and incomplete ones become complete."""
    partition = machine.any_partition()
    for upload in partition.delayed:
        broker.put(partition, upload, machine.now_ms)
    partition.delayed.clear()
    for held in people.incomplete(machine, partition):
        broker.put(partition, held.upload, machine.now_ms)


def _elect(machine: Machine) -> None:
    broker.elect_cleanly(machine.rng, machine.any_partition())


def _elect_uncleanly(machine: Machine) -> None:
    """Elect uncleanly; half of the time, truncated records are uploaded later."""
    partition = machine.any_partition()
    deposed = partition.log
    if len(deposed.batches) < 2:
        return
    broker.elect_uncleanly(machine.rng, partition)
    machine.note(f"epoch {partition.log.epoch} from {partition.log.next_offset} on")
    if machine.rng.random() < 0.5:
        tail = deposed.batches[-machine.rng.randint(1, 3) :]
        partition.delayed.append(broker.segment(machine.rng, partition, deposed, tail))


def _jump(machine: Machine) -> None:
    hours = machine.rng.choice(_JUMPS)
    machine.note(f"{hours} h")
    machine.now_ms += hours * HOUR_MS


def _damage(machine: Machine) -> None:
    """Damage an object of a live segment: remove it, or truncate or change the end of a `.log`."""
    partition = machine.any_partition()
    if partition.damaged:
        return
    live = {segment["id"] for segment in machine.entries[partition.topic_id]["segments"]}
    paths = sorted(path for path in partition.folder.glob("0*") if path.name[21:43] in live)
    if not paths:
        return
    path = machine.rng.choice(paths)
    content = path.read_bytes()
    kinds = ("removed", "truncated", "changed") if path.suffix == ".log" else ("removed",)
    kind = machine.rng.choice(kinds)
    machine.note(f"{path.name} {kind}")
    partition.damaged[path] = content
    path.unlink()
    if kind == "truncated":
        path.write_bytes(content[:-7])
    elif kind == "changed":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    machine.checker.accept_changes(partition)


def _heal(machine: Machine) -> None:
    """Restore damaged objects, unless their whole segment is gone."""
    for partition in machine.partitions:
        for path, content in partition.damaged.items():
            if any(partition.folder.glob(f"{path.name.partition('.')[0]}.*")):
                path.write_bytes(content)
                broker.set_modified(path, machine.now_ms)
        partition.damaged.clear()
        machine.checker.accept_changes(partition)


def _kill(machine: Machine) -> None:
    if machine.kills is not None:
        machine.kills(machine)


_ACTIONS: Final[tuple[tuple[Callable[[Machine], Allowed], int], ...]] = (
    (_upload, 40),
    (_late_upload, 9),
    (_catch_up, 7),
    (_elect, 8),
    (_elect_uncleanly, 7),
    (_jump, 6),
    (_damage, 3),
    (_heal, 5),
    (people.resolve_refusal, 9),
    (people.plan, 8),
    (people.compact, 10),
    (people.verify, 2),
    (people.vacuum, 10),
    (people.restore, 5),
    (people.forget, 5),
)
"""The steps and their weights."""
