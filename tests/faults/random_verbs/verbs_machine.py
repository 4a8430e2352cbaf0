"""A state machine: real verbs in random order on one tier, among other events.

A seed draws every step (`verbs_steps`): brokers append, elect, upload in and out of order, and die
midway. A person runs a verb, damages an object, and restores it. Clocks jump forwards and back.
After each step `verbs_checks` checks the tier. Two plays of a seed differ only in the names and ids
of tierfold's runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from tests.faults.random_verbs import verbs_broker as broker
from tests.faults.random_verbs.verbs_checks import Allowed, Broken, Checker, rows_of
from tests.faults.random_verbs.verbs_expected import Entry, stalled
from tests.faults.random_verbs.verbs_faults import Fault, drawn_fault
from tests.faults.random_verbs.verbs_model import Partition
from tests.jobs.commands import Ran, tierfold

HOUR_MS: Final = 3_600_000
THEN_MS: Final = 1_800_000_000_000
PLACES: Final = (("orders", 0), ("events", 1))
UPLOADS_MOST: Final = 120
"""The most uploads of a partition before it is created again, so that steps stay fast."""

BAD: Final = frozenset({"refused", "failed", "unknown", "fenced", "lost_race"})


@dataclass(slots=True)
class Machine:
    """One tier, its brokers, and the person who runs verbs on it."""

    tier: Path
    seed: int
    kills: Callable[[Machine], None] | None = None
    """Runs a verb in its own process and kills it; None: no step does that."""
    rng: Random = field(init=False)
    now_ms: int = THEN_MS
    partitions: list[Partition] = field(default_factory=list)
    checker: Checker = field(default_factory=Checker)
    trace: list[str] = field(default_factory=list)
    """One line per step."""
    counts: Counter[str] = field(default_factory=Counter)
    entries: dict[str, Entry] = field(default_factory=dict)
    """The entries of the last `status --json`, by topic id."""

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        (self.tier / broker.TIER_FOLDER).mkdir(parents=True)
        for topic, number in PLACES:
            self.partitions.append(self._new(topic, number))
        self.inspect()

    def inspect(self, allowed: Allowed = None) -> None:
        """Check every partition; raises Broken."""
        self._date_new_files()
        rows = rows_of(self.tier)
        ran = tierfold("status", self.tier, "--json", *self.clock)
        self.entries = {entry["topic_id"]: entry for entry in ran.entries}
        is_bad = any(entry["reason"] for entry in self.entries.values())
        if ran.code != (3 if is_bad else 0):
            raise Broken(f"status ended with {ran.code}: {ran.stderr}")
        for partition in self.partitions:
            self.checker.check(
                partition, rows.get(partition.topic_id), self.entries[partition.topic_id], allowed
            )

    def note(self, what: str) -> None:
        """Add to the step's line."""
        self.trace[-1] += f" · {what}"

    @property
    def clock(self) -> tuple[str, str]:
        """This machine's time as an option."""
        return "--now", str(self.now_ms)

    def any_partition(self) -> Partition:
        """Draw a partition."""
        found = self.rng.choice(self.partitions)
        self.note(str(found))
        return found

    def verb(self, *words: str | Path, fault: Fault | None = None) -> Ran | None:
        """Run a verb at this machine's time; None: it was killed. Raises Broken after a bug."""
        self.note(" ".join(map(str, words[:1] + words[2:])))
        ran: Ran | None = None
        if fault is not None:
            self.note(str(fault))
        with nullcontext() if fault is None else fault.at_work():
            ran = tierfold(*words, "--json", *self.clock)
        if ran is None:
            self.counts[f"{words[0]} killed"] += 1
            return None
        self.note(f"exit {ran.code}")
        self.counts[f"{words[0]} exit {ran.code}"] += 1
        if ran.code not in {0, 3, 4}:
            raise Broken(f"exit {ran.code}: {ran.stderr}")
        if fault is None:
            self._justify(str(words[0]), ran)
        return ran

    def a_fault(self, chance: float) -> Fault | None:
        """Draw a fault with this probability."""
        return drawn_fault(self.rng) if self.rng.random() < chance else None

    def created_again(self, partition: Partition) -> None:
        """Delete the partition's topic and create it again, with another id."""
        broker.removed(partition)
        self.checker.forget(partition.topic_id)
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
        """Check that a bad outcome has a reason; raises Broken."""
        for entry in ran.entries:
            partition = next((p for p in self.partitions if p.topic_id == entry["topic_id"]), None)
            self.counts[f"{verb}: {entry.get('outcome', 'read')}"] += 1
            if partition is None or partition.damaged or self.problem(partition):
                continue
            # A run's name may select another line, and so may a time after the clock jumped back.
            is_other_line = verb == "restore" and entry["outcome"] == "refused"
            is_bad = entry.get("outcome") in BAD and not is_other_line
            if is_bad and not self._stalled(partition):
                raise Broken(f"{verb}: {partition} is {entry['outcome']}: {entry['reason']}")
            if entry.get("corruptions"):
                raise Broken(f"{verb}: {partition}: {entry['corruptions']}")
            if entry.get("outcome") in {"planned", "forgotten"} and verb == "forget":
                raise Broken(f"{partition} is sound, and forget takes it: {entry['outcome']}")
            is_idle = verb in {"plan", "compact"} and entry["outcome"] == "nothing_to_do"
            if is_idle and (waiting := self._stalled(partition)):
                raise Broken(f"{partition} is left alone, though these waited for a day: {waiting}")

    def problem(self, partition: Partition) -> str:
        """Return why status refuses it; empty: it does not."""
        return str(self.entries[partition.topic_id]["reason"])

    def _stalled(self, partition: Partition) -> list[str]:
        row, entry = self.checker.row.get(partition.topic_id), self.entries[partition.topic_id]
        return stalled(partition, row, entry, partition.held(), self.now_ms)

    def _date_new_files(self) -> None:
        """Give new files of a run the machine's time; they have the time of the real clock."""
        for path in self.tier.glob(f"{broker.TIER_FOLDER}/*/*"):
            if path.stat().st_mtime < THEN_MS / 1000 - 60 * 24 * 3600:
                broker.written(path, self.now_ms)
