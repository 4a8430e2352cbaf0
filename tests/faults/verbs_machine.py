"""Real verbs in random order on one tier, with everything that happens to a tier in between.

Every step is drawn from a seed: brokers append, elect, upload in and out of order, and die on the
way; a person runs a verb, damages an object, brings it back; clocks jump both ways. After each step
`tests.faults.verbs_checks` looks at the tier. Only the run's own names and ids differ from one play
of a seed to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.faults import verbs_broker as broker
from tests.faults.verbs_checks import Broken, Deletion, Entry, Judge, rows_of, stalled
from tests.faults.verbs_meddling import Fault, drawn_fault
from tests.faults.verbs_model import Held, Partition, Upload
from tests.jobs.commands import ALWAYS, Ran, tierfold

HOUR_MS: Final = 3_600_000
THEN_MS: Final = 1_800_000_000_000
PLACES: Final = (("orders", 0), ("events", 1))
UPLOADS_MOST: Final = 120
"""A partition that has seen so many is deleted and made anew, so that steps stay quick."""

BAD: Final = frozenset({"refused", "failed", "unknown", "fenced", "lost_race"})
_JUMPS: Final = (1, 6, 25, 25, 49, -1, -30)
"""Hours."""


@dataclass(slots=True)
class Machine:
    """One tier, its brokers, and the person who runs verbs on it."""

    tier: Path
    seed: int
    kills: Callable[[Machine], None] | None = None
    """Runs a verb in a process of its own and kills it; None: nobody does."""
    rng: Random = field(init=False)
    now_ms: int = THEN_MS
    partitions: list[Partition] = field(default_factory=list)
    judge: Judge = field(default_factory=Judge)
    trace: list[str] = field(default_factory=list)
    """What was done, a line each."""
    counts: Counter[str] = field(default_factory=Counter)
    entries: dict[str, Entry] = field(default_factory=dict)
    """Of the last `status --json`, by topic id."""

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        (self.tier / broker.TIER_FOLDER).mkdir(parents=True)
        for topic, number in PLACES:
            self.partitions.append(self._new(topic, number))
        self.look()

    def play(self, steps: int) -> None:
        """So many steps; raises Broken with the steps that led there."""
        try:
            for _ in range(steps):
                self.step()
        except (AssertionError, ValueError, LookupError) as error:
            told = "\n".join(self.trace[-60:])
            raise Broken(f"seed {self.seed}, step {len(self.trace)}: {error}\n{told}") from error

    def step(self) -> None:
        """One, and a look at what it left."""
        self.now_ms += 60_000
        actions = [*_ACTIONS, *(((_kill, 4),) if self.kills else ())]
        (action,) = self.rng.choices(
            [act for act, _ in actions], [weight for _, weight in actions]
        )
        name = action.__name__.strip("_")
        self.trace.append(name)
        self.counts[name] += 1
        found = action(self)
        self.look(found if isinstance(found, Deletion) else None)

    def look(self, deletion: Deletion | None = None) -> None:
        """Judge every partition; raises Broken."""
        self._date_new_files()
        rows = rows_of(self.tier)
        ran = tierfold("status", self.tier, "--json", *self.clock)
        self.entries = {each["topic_id"]: each for each in ran.entries}
        is_bad = any(each["problem"] for each in self.entries.values())
        if ran.code != (3 if is_bad else 0):
            raise Broken(f"status ended with {ran.code}: {ran.stderr}")
        for each in self.partitions:
            self.judge.judge(each, rows.get(each.topic_id), self.entries[each.topic_id], deletion)

    def say(self, what: str) -> None:
        """Add to the step's line."""
        self.trace[-1] += f" · {what}"

    @property
    def clock(self) -> tuple[str, str]:
        """As an option."""
        return "--now", str(self.now_ms)

    def any_partition(self) -> Partition:
        """One of them."""
        found = self.rng.choice(self.partitions)
        self.say(str(found))
        return found

    def verb(self, *words: str | Path, fault: Fault | None = None) -> Ran | None:
        """Run a verb at this machine's time; None: it was killed. A bug's exit code is Broken."""
        self.say(" ".join(map(str, words[:1] + words[2:])))
        ran: Ran | None = None
        if fault is not None:
            self.say(str(fault))
        with nullcontext() if fault is None else fault.at_work():
            ran = tierfold(*words, "--json", *self.clock)
        if ran is None:
            self.counts[f"{words[0]} killed"] += 1
            return None
        self.say(f"exit {ran.code}")
        self.counts[f"{words[0]} exit {ran.code}"] += 1
        if ran.code not in {0, 3, 4}:
            raise Broken(f"exit {ran.code}: {ran.stderr}")
        if fault is None:
            self._justify(str(words[0]), ran)
        return ran

    def a_fault(self, chance: float) -> Fault | None:
        """One, sometimes."""
        return drawn_fault(self.rng) if self.rng.random() < chance else None

    def made_anew(self, partition: Partition) -> None:
        """Its topic is deleted and created again, under another id."""
        broker.removed(partition)
        self.judge.forget(partition.topic_id)
        again = self._new(partition.topic, partition.number)
        self.partitions[self.partitions.index(partition)] = again

    def _new(self, topic: str, number: int) -> Partition:
        found = broker.new_partition(self.rng, self.tier, topic, number)
        broker.append(self.rng, found, 4, self.now_ms)
        first = broker.next_segment(self.rng, found)
        if first is not None:
            broker.put(found, first, self.now_ms)
        return found

    def _justify(self, verb: str, ran: Ran) -> None:
        """Nothing ends badly that nothing is wrong with."""
        for each in ran.entries:
            partition = self._of(each["topic_id"])
            self.counts[f"{verb}: {each.get('outcome', 'read')}"] += 1
            if partition is None or partition.damaged or self.problem(partition):
                continue
            # A run's name, or a moment of a clock that went back, may stand for another line.
            is_other_line = verb == "restore" and each["outcome"] == "refused"
            is_bad = each.get("outcome") in BAD and not is_other_line
            if is_bad and not self._stalled(partition):
                raise Broken(f"{verb}: {partition} is {each['outcome']}: {each['reason']}")
            if each.get("faults"):
                raise Broken(f"{verb}: {partition}: {each['faults']}")
            if verb in {"plan", "compact"} and each["outcome"] == "nothing_to_do":
                waiting = self._stalled(partition)
                if waiting:
                    raise Broken(f"{partition} rests, and for a day there waited {waiting}")

    def _of(self, topic_id: str) -> Partition | None:
        return next((p for p in self.partitions if p.topic_id == topic_id), None)

    def problem(self, partition: Partition) -> str:
        """Why status refuses it; empty: it does not."""
        return str(self.entries[partition.topic_id]["problem"])

    def _stalled(self, partition: Partition) -> list[str]:
        row, entry = self.judge.row.get(partition.topic_id), self.entries[partition.topic_id]
        return stalled(partition, row, entry, partition.held(), self.now_ms)

    def _date_new_files(self) -> None:
        """What a run has just written bears the real clock's time, which is not this machine's."""
        for path in self.tier.glob(f"{broker.TIER_FOLDER}/*/*"):
            if path.stat().st_mtime < THEN_MS / 1000 - 60 * 24 * 3600:
                broker.written(path, self.now_ms)


def _upload(machine: Machine) -> None:
    """The leader uploads what it has rolled: whole, cut short, or so slowly that others pass it."""
    partition, rng = machine.any_partition(), machine.rng
    broker.append(rng, partition, rng.randint(1, 6), machine.now_ms)
    upload = broker.next_segment(rng, partition)
    if upload is not None:
        _arrives(machine, partition, upload)


def _arrives(machine: Machine, partition: Partition, upload: Upload) -> None:
    how = machine.rng.choices(("whole", "cut short", "delayed"), (74, 13, 13))[0]
    machine.say(f"{upload.stem} to {upload.end_offset}, {how}")
    machine.counts[f"upload {how}"] += 1
    if how == "delayed":
        partition.delayed.append(upload)
        return
    parts = machine.rng.randint(1, len(upload.parts) - 1) if how == "cut short" else None
    broker.put(partition, upload, machine.now_ms, parts=parts)
    if parts is not None and machine.rng.random() < 0.6:
        # It tries again, under another id and with other borders.
        partition.next_upload = min(partition.next_upload, upload.start_offset)


def _late_upload(machine: Machine) -> None:
    """Some leader's, of any of the last three epochs, with borders of its own."""
    partition = machine.any_partition()
    _arrives(machine, partition, broker.late_segment(machine.rng, partition))


def _catch_up(machine: Machine) -> None:
    """What was delayed arrives; what was cut short is brought to its end."""
    partition = machine.any_partition()
    for upload in partition.delayed:
        broker.put(partition, upload, machine.now_ms)
    partition.delayed.clear()
    for each in _incomplete(machine, partition):
        broker.put(partition, each.upload, machine.now_ms)


def _incomplete(machine: Machine, partition: Partition) -> Iterator[Held]:
    """Uploads that no row names and that lack something."""
    row = machine.judge.row.get(partition.topic_id)
    named = [*row["segments"], *(each["segment"] for each in row["retired"])] if row else []
    ids = {each["segment_id"] for each in named}
    harmed = {path.name.partition(".")[0] for path in partition.damaged}
    for name, each in partition.held().items():
        if not each.is_complete and name not in ids and each.upload.stem not in harmed:
            yield each


def _elect(machine: Machine) -> None:
    broker.elect_cleanly(machine.rng, machine.any_partition())


def _elect_uncleanly(machine: Machine) -> None:
    """Half of the deposed leaders have an upload on its way that the new one cut off."""
    partition = machine.any_partition()
    deposed = partition.log
    if len(deposed.batches) < 2:
        return
    broker.elect_uncleanly(machine.rng, partition)
    machine.say(f"epoch {partition.log.epoch} from {partition.log.next_offset} on")
    if machine.rng.random() < 0.5:
        tail = deposed.batches[-machine.rng.randint(1, 3) :]
        partition.delayed.append(broker.segment(machine.rng, partition, deposed, tail))


def _jump(machine: Machine) -> None:
    hours = machine.rng.choice(_JUMPS)
    machine.say(f"{hours} h")
    machine.now_ms += hours * HOUR_MS


def _damage(machine: Machine) -> None:
    """Somebody harms an object: of a live segment any, of an upload its end or a part."""
    partition = machine.any_partition()
    if partition.damaged:
        return
    live = {segment["id"] for segment in machine.entries[partition.topic_id]["segments"]}
    paths = sorted(path for path in partition.folder.glob("0*") if path.name[21:43] in live)
    if not paths:
        return
    path = machine.rng.choice(paths)
    content = path.read_bytes()
    harms = ("removed", "cut", "flipped") if path.suffix == ".log" else ("removed",)
    harm = machine.rng.choice(harms)
    machine.say(f"{path.name} {harm}")
    partition.damaged[path] = content
    path.unlink()
    if harm == "cut":
        path.write_bytes(content[:-7])
    elif harm == "flipped":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    machine.judge.noticed(partition)


def _heal(machine: Machine) -> None:
    """What was harmed is brought back, unless all of its segment is gone by now."""
    for partition in machine.partitions:
        for path, content in partition.damaged.items():
            if any(partition.folder.glob(f"{path.name.partition('.')[0]}.*")):
                path.write_bytes(content)
                broker.written(path, machine.now_ms)
        partition.damaged.clear()
        machine.judge.noticed(partition)


def _way_out(machine: Machine) -> None:
    """A refused partition is helped: what is missing arrives, or else its topic is made anew.

    On first sight incomplete uploads are moved away, as the refusal says.
    """
    old = [each for each in machine.partitions if len(each.uploads) > UPLOADS_MOST]
    bad = [p for p in machine.partitions if machine.problem(p) and not p.damaged]
    if not old and not bad:
        return
    partition = machine.rng.choice(old or bad)
    machine.say(str(partition))
    is_old = bool(old)
    unfinished = list(_incomplete(machine, partition))
    if not is_old and partition.topic_id not in machine.judge.row and unfinished:
        for each in unfinished:
            for path in list(partition.folder.glob(f"{each.upload.stem}.*")):
                path.unlink()
        machine.judge.noticed(partition)
    elif is_old or machine.rng.random() < 0.5:
        machine.say("made anew")
        machine.made_anew(partition)


def _plan(machine: Machine) -> None:
    machine.verb("plan", machine.tier, *ALWAYS, fault=machine.a_fault(0.1))


def _compact(machine: Machine) -> None:
    rng = machine.rng
    sizes = rng.choice(((), (), ("segment.bytes=900",), ("segment.bytes=900", "chunk.bytes=1")))
    kept_ms = rng.choice((1, HOUR_MS, 24 * HOUR_MS))
    settings = [word for each in sizes for word in ("--set", each)]
    machine.verb(
        *("compact", machine.tier, *ALWAYS, "--set", f"delete.retention.ms={kept_ms}", *settings),
        fault=machine.a_fault(0.35),
    )


def _verify(machine: Machine) -> None:
    machine.verb("verify", machine.tier, fault=machine.a_fault(0.1))


def _retain(machine: Machine) -> Deletion | None:
    rng = machine.rng
    grace_hours, orphan_hours = rng.choice((0, 1, 24)), rng.choice((1, 24, 24))
    is_detached, is_dry = rng.random() < 0.7, rng.random() < 0.25
    machine.verb(
        *("retain", machine.tier, *ALWAYS),
        *("--grace-period", f"{grace_hours}h", "--orphan-age", f"{orphan_hours}h"),
        *(("--set", "tier.binding=detached") if is_detached else ()),
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
    )


def _restore(machine: Machine) -> None:
    partition, rng = machine.any_partition(), machine.rng
    ran = machine.verb("history", machine.tier, partition.folder.name)
    lines: Sequence[dict[str, Any]] = ran.entries[0]["history"] if ran is not None else ()
    ways_back = [each for each in lines if each["is_restorable"]]
    if not ways_back:
        return
    to = rng.choice(ways_back)
    word = str(to["committed_at_ms"]) if rng.random() < 0.5 else str(to["run"])
    dry = ("--dry-run",) if rng.random() < 0.2 else ()
    machine.verb(
        *("restore", machine.tier, partition.folder.name, "--to", word, *dry),
        fault=machine.a_fault(0.25),
    )


def _kill(machine: Machine) -> None:
    if machine.kills is not None:
        machine.kills(machine)


_ACTIONS: Final[tuple[tuple[Callable[[Machine], object], int], ...]] = (
    (_upload, 40),
    (_late_upload, 9),
    (_catch_up, 7),
    (_elect, 8),
    (_elect_uncleanly, 5),
    (_jump, 6),
    (_damage, 3),
    (_heal, 5),
    (_way_out, 9),
    (_plan, 8),
    (_compact, 10),
    (_verify, 2),
    (_retain, 10),
    (_restore, 5),
)
"""With how often each comes, in relation to the others."""
