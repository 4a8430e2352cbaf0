"""The person in the state machine: runs verbs, and resolves refusals.

    resolve_refusal     resolve a refusal, or create the topic again
    forget              run `tierfold forget` once
    forget_until_done   do what its refusals ask for, until the partition is forgotten
    plan, compact, verify, vacuum, restore
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from tests.faults.random_verbs import verbs_broker as broker
from tests.faults.random_verbs.verbs_checks import Deletion, Forgetting, Violation
from tests.faults.random_verbs.verbs_expected import effective_row, unknown_to
from tests.faults.random_verbs.verbs_machine import HOUR_MS, UPLOADS_MAX, Machine
from tests.faults.random_verbs.verbs_model import Held, Partition
from tests.jobs.commands import ALWAYS

TRIES: Final = 12
DAY_MS: Final = 24 * HOUR_MS

_RESTORE: Final = re.compile(r"`tierfold restore [^`]* --to (\S+)`")
_VACUUM: Final = re.compile(r"[Rr]un `tierfold vacuum`")
_DOUBTFUL: Final = re.compile(r"the new log may need them: ([^.]+)\. ")
_GAP: Final = re.compile(r"move the segments below offset (\d+) out of the tier")
_NOT_TRUNCATED: Final = "no unclean leader election truncated its log"


def resolve_refusal(machine: Machine) -> None:
    """Resolve the refusal of a partition, or create its topic again.

    Without a row, incomplete uploads are moved away, as the refusal asks. If the log was truncated,
    the partition is mostly forgotten. Other refusals may end when missing uploads arrive.
    """
    old = [partition for partition in machine.partitions if len(partition.uploads) > UPLOADS_MAX]
    bad = [p for p in machine.partitions if machine.problem(p) and not p.damaged]
    if not old and not bad:
        return
    partition = machine.rng.choice(old or bad)
    machine.note(str(partition))
    unfinished = list(incomplete(machine, partition))
    is_new = effective_row(machine.checker.row.get(partition.topic_id)) is None
    if not old and is_new and unfinished:
        move_away(machine, partition, unfinished)
    elif not old and is_diverged(machine, partition) and machine.rng.random() < 0.8:
        forget_until_done(machine, partition)
    elif old or machine.rng.random() < 0.5:
        machine.note("recreated")
        machine.recreate_topic(partition)


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
    more = [option for option in ("--dry-run", "--copy") if rng.random() < 0.3]
    machine.verb(
        *("restore", machine.tier, partition.folder.name, "--to", word, *more),
        fault=machine.a_fault(0.25),
    )


def is_diverged(machine: Machine, partition: Partition) -> bool:
    """Whether `status` asks for `tierfold forget`, and no object is damaged."""
    return "tierfold forget" in machine.problem(partition) and not partition.damaged


def forget(machine: Machine) -> Forgetting:
    """Run `tierfold forget` once, mostly on a diverged partition."""
    rng = machine.rng
    diverged = [partition for partition in machine.partitions if is_diverged(machine, partition)]
    partition = rng.choice(diverged if diverged and rng.random() < 0.8 else machine.partitions)
    dry = ("--dry-run",) if rng.random() < 0.2 else ()
    fault = machine.a_fault(0.3)
    machine.verb("forget", machine.tier, partition.folder.name, *dry, fault=fault)
    return Forgetting(topic_id=partition.topic_id)


def forget_until_done(machine: Machine, partition: Partition) -> None:
    """Do what the refusals of `tierfold forget` ask for; raises Violation if they do not end."""
    reason = ""
    doubtful: set[str] = set()
    for _ in range(TRIES):
        ran = machine.verb("forget", machine.tier, partition.folder.name)
        machine.inspect(Forgetting(topic_id=partition.topic_id))
        if ran is None:
            return
        (found,) = ran.entries
        reason = found["reason"]
        if found["outcome"] != "refused" or _NOT_TRUNCATED in reason:
            if is_diverged(machine, partition):
                raise Violation(f"{partition} is diverged, but not forgotten: {reason}")
            _bring_back(machine, partition, doubtful)
            return
        machine.inspect(_resolve_obstacle(machine, partition, reason))
        doubtful |= _set_aside(machine, partition, reason)
    raise Violation(f"{partition} is refused again and again: {reason}")


def _resolve_obstacle(machine: Machine, partition: Partition, reason: str) -> Deletion | None:
    """Do the first thing that the refusal asks for; raises Violation if it asks for nothing."""
    restore_to, gap = _RESTORE.search(reason), _GAP.search(reason)
    if restore_to is not None:
        machine.verb("restore", machine.tier, partition.folder.name, "--to", restore_to[1])
    elif _VACUUM.search(reason):
        return vacuum_later(machine)
    elif "live segments out of the tier" in reason:
        row = machine.checker.row[partition.topic_id]
        ours = {segment["segment_id"] for segment in row["segments"] if segment["written_by_run"]}
        _move_segments_away(machine, partition, ours)
    elif gap is not None:
        below = [upload for upload in partition.held().values() if upload.end_offset < int(gap[1])]
        move_away(machine, partition, below)
    elif " lacks " in reason:
        short = [upload for upload in partition.held().values() if not upload.is_complete]
        if machine.rng.random() < 0.5:
            move_away(machine, partition, short)
        else:
            for held in short:
                broker.put(partition, held.upload, machine.now_ms)
    elif _DOUBTFUL.search(reason) is None:
        raise Violation(f"{partition}: the refusal does not say what to do: {reason}")
    return None


def _set_aside(machine: Machine, partition: Partition, reason: str) -> set[str]:
    """Move away segments that a dead run may have written; return the ids of brokers' segments."""
    named = to_set_aside(reason)
    if named:
        _move_segments_away(machine, partition, named)
    return named & partition.uploads.keys()


def to_set_aside(reason: str) -> set[str]:
    """The ids of the segments that a refusal asks to move away and to bring back in part.

    Empty: it asks for `vacuum` first, or for something else.
    """
    found = _DOUBTFUL.search(reason)
    if found is None or "bring back" not in reason or _VACUUM.search(reason):
        return set()
    return set(re.findall(r"[\w-]{22}", found[1]))


def _bring_back(machine: Machine, partition: Partition, segment_ids: set[str]) -> None:
    for path in [path for path in partition.moved_away if path.name[21:43] in segment_ids]:
        path.write_bytes(partition.moved_away.pop(path))
        broker.set_modified(path, machine.now_ms)
    machine.counts["segments brought back"] += len(segment_ids)
    machine.checker.accept_changes(partition)


def vacuum_later(machine: Machine, hours: int = 25) -> Deletion:
    """Run `tierfold vacuum` some hours later, on a detached tier."""
    machine.now_ms += hours * HOUR_MS
    machine.verb("vacuum", machine.tier, *ALWAYS, "--set", "tier.binding=detached")
    return Deletion(
        now_ms=machine.now_ms, grace_ms=DAY_MS, orphan_age_ms=DAY_MS, is_detached=True
    )


def incomplete(machine: Machine, partition: Partition) -> Iterator[Held]:
    """Yield the incomplete uploads that the row does not name."""
    row = machine.checker.row.get(partition.topic_id)
    corrupted = {path.name.partition(".")[0] for path in partition.damaged}
    for segment in unknown_to(row, partition.held()):
        if not segment.is_complete and segment.upload.stem not in corrupted:
            yield segment


def move_away(machine: Machine, partition: Partition, uploads: Iterable[Held]) -> None:
    """Move all objects of these uploads out of the tier."""
    _move_segments_away(machine, partition, {held.upload.segment_id for held in uploads})


def _move_segments_away(machine: Machine, partition: Partition, segment_ids: set[str]) -> None:
    machine.note(f"{len(segment_ids)} moved away")
    machine.counts["segments moved away"] += len(segment_ids)
    for path in sorted(partition.folder.glob("0*")):
        if path.name[21:43] in segment_ids:
            partition.move_away(path)
    machine.checker.accept_changes(partition)
