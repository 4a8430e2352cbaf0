"""The person in the state machine, who runs verbs and resolves refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.faults.random_verbs.verbs_checks import Deletion
from tests.faults.random_verbs.verbs_expected import effective_row
from tests.faults.random_verbs.verbs_machine import HOUR_MS, UPLOADS_MOST, Machine
from tests.faults.random_verbs.verbs_way_out import (
    forget_in_the_end,
    incomplete,
    is_diverged,
    moved_away,
)
from tests.jobs.commands import ALWAYS


def way_out(machine: Machine) -> None:
    """Resolve the refusal of a partition, or create its topic again.

    A partition whose log was cut off is forgotten, most of the time. Without a row, incomplete
    uploads are moved away, as the refusal asks. Otherwise missing uploads may still arrive.
    """
    old = [partition for partition in machine.partitions if len(partition.uploads) > UPLOADS_MOST]
    bad = [p for p in machine.partitions if machine.problem(p) and not p.damaged]
    if not old and not bad:
        return
    partition = machine.rng.choice(old or bad)
    machine.say(str(partition))
    unfinished = list(incomplete(machine, partition))
    is_new = effective_row(machine.checker.row.get(partition.topic_id)) is None
    if not old and is_new and unfinished:
        moved_away(machine, partition, unfinished)
    elif not old and is_diverged(machine, partition) and machine.rng.random() < 0.8:
        forget_in_the_end(machine, partition)
    elif old or machine.rng.random() < 0.5:
        machine.say("created again")
        machine.created_again(partition)


def plan(machine: Machine) -> None:
    machine.verb("plan", machine.tier, *ALWAYS, fault=machine.a_fault(0.1))


def compact(machine: Machine) -> None:
    rng = machine.rng
    sizes = rng.choice(((), (), ("segment.bytes=900",), ("segment.bytes=900", "chunk.bytes=1")))
    kept_ms = rng.choice((1, HOUR_MS, 24 * HOUR_MS))
    settings = [word for size in sizes for word in ("--set", size)]
    machine.verb(
        *("compact", machine.tier, *ALWAYS, "--set", f"delete.retention.ms={kept_ms}", *settings),
        fault=machine.a_fault(0.35),
    )


def verify(machine: Machine) -> None:
    machine.verb("verify", machine.tier, fault=machine.a_fault(0.1))


def vacuum(machine: Machine) -> Deletion | None:
    rng = machine.rng
    grace_hours, orphan_hours = rng.choice((0, 1, 24)), rng.choice((1, 24, 24))
    is_detached, is_dry = rng.random() < 0.7, rng.random() < 0.25
    takes_set_apart = rng.random() < 0.2
    machine.verb(
        *("vacuum", machine.tier, *ALWAYS),
        *("--grace-period", f"{grace_hours}h", "--orphan-age", f"{orphan_hours}h"),
        *(("--set", "tier.binding=detached") if is_detached else ()),
        *(("--diverged",) if takes_set_apart else ()),
        *(("--dry-run",) if is_dry else ()),
        fault=machine.a_fault(0.35),
    )
    if is_dry:
        return None
    return Deletion(
        now_ms=machine.now_ms,
        grace_ms=grace_hours * HOUR_MS,
        orphan_age_ms=orphan_hours * HOUR_MS,
        is_detached=is_detached,
        takes_set_apart=takes_set_apart,
    )


def restore(machine: Machine) -> None:
    partition, rng = machine.any_partition(), machine.rng
    ran = machine.verb("history", machine.tier, partition.folder.name)
    lines: Sequence[dict[str, Any]] = ran.entries[0]["history"] if ran is not None else ()
    restorable = [line for line in lines if line["is_restorable"]]
    if not restorable:
        return
    to = rng.choice(restorable)
    word = str(to["committed_at_ms"]) if rng.random() < 0.5 else str(to["run"])
    dry = ("--dry-run",) if rng.random() < 0.2 else ()
    machine.verb(
        *("restore", machine.tier, partition.folder.name, "--to", word, *dry),
        fault=machine.a_fault(0.25),
    )
