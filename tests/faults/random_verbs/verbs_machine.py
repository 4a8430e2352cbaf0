"""A state machine: real verbs in random order on one tier, with events between them.

A seed draws every step (`verbs_steps`). Brokers append, elect leaders, upload in and out of order,
and die midway. A person runs a verb, damages an object or restores it. The clock jumps forwards and
backwards. After each step `verbs_checks` checks the tier. If a seed is played again, only the names
and ids of tierfold's runs differ.
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
from tests.faults.random_verbs.verbs_checks import Allowed, Checker, Violation, rows_of
from tests.faults.random_verbs.verbs_expected import Entry, stalled
from tests.faults.random_verbs.verbs_faults import Fault, drawn_fault
from tests.faults.random_verbs.verbs_model import Partition
from tests.faults.random_verbs.verbs_published import published
from tests.jobs.commands import CLOCK, Ran, tierfold
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

HOUR_MS: Final = 3_600_000
THEN_MS: Final = 1_800_000_000_000
PLACES: Final = (("orders", 0), ("events", 1))
UPLOADS_MAX: Final = 120
"""A partition with more uploads is created again, so that steps stay fast."""

WRITING: Final = frozenset({"compact", "vacuum", "restore", "forget"})
BAD: Final = frozenset({"refused", "failed", "unknown", "fenced", "lost_race"})


@dataclass(slots=True)
class Machine:
    """One tier, its brokers, and the person who runs verbs on it."""

    tier: Path
    seed: int
    kills: Callable[[Machine], None] | None = None
    """Runs a verb in its own process and kills it; None: no step kills a process."""
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
        """Check every partition; raises Violation."""
        self._date_new_files()
        rows = rows_of(self.tier)
        ran = tierfold("status", self.tier, "--json", "--segments", *self.clock)
        self.entries = {entry["topic_id"]: entry for entry in ran.entries}
        is_bad = any(entry["reason"] for entry in self.entries.values())
        if ran.code != (3 if is_bad else 0):
            raise Violation(f"status ended with {ran.code}: {ran.stderr}")
        for partition in self.partitions:
            self.checker.check(
                partition, rows.get(partition.topic_id), self.entries[partition.topic_id], allowed
            )
        if rows:
            self._publish()

    def note(self, what: str) -> None:
        """Add to the line of the current step."""
        self.trace[-1] += f" · {what}"

    @property
    def clock(self) -> tuple[str, str]:
        """This machine's time, as `tierfold` of the tests takes it."""
        return CLOCK, str(self.now_ms)

    def any_partition(self) -> Partition:
        """Draw a partition."""
        found = self.rng.choice(self.partitions)
        self.note(str(found))
        return found

    def verb(self, *words: str | Path, fault: Fault | None = None) -> Ran | None:
        """Run a verb at this machine's time; None: it was killed. Raises Violation."""
        self.note(" ".join(map(str, words[:1] + words[2:])))
        ran: Ran | None = None
        if fault is not None:
            self.note(str(fault))
        with nullcontext() if fault is None else fault.at_work():
            # The clock jumps backwards too, and the person who runs a verb knows it.
            insists = ("--clock-is-right",) if words[0] in WRITING else ()
            ran = tierfold(*words, "--json", *insists, *self.clock)
        if ran is None:
            self.counts[f"{words[0]} killed"] += 1
            return None
        self.note(f"exit {ran.code}")
        self.counts[f"{words[0]} exit {ran.code}"] += 1
        if ran.code not in {0, 3, 4}:
            raise Violation(f"exit {ran.code}: {ran.stderr}")
        if fault is None:
            self._check_outcomes(str(words[0]), ran)
        return ran

    def a_fault(self, chance: float) -> Fault | None:
        """Draw a fault with this probability, else None."""
        return drawn_fault(self.rng) if self.rng.random() < chance else None

    def recreate_topic(self, partition: Partition) -> None:
        """Delete the partition's topic and create it again, with another id."""
        broker.delete_topic(partition)
        self.checker.drop_topic(partition.topic_id)
        again = self._new(partition.topic, partition.number)
        self.partitions[self.partitions.index(partition)] = again

    def _new(self, topic: str, number: int) -> Partition:
        found = broker.new_partition(self.rng, self.tier, topic, number)
        broker.append(self.rng, found, 4, self.now_ms)
        first = broker.next_segment(self.rng, found)
        if first is not None:
            broker.put(found, first, self.now_ms)
        return found

    def _publish(self) -> None:
        """See what publishing would do with each row; raises Violation."""
        catalog = Catalog(str(self.tier / CATALOG_FOLDER))
        rows = {key.topic_id: row for key, row in catalog.read().items()}
        for partition in self.partitions:
            row = rows.get(partition.topic_id)
            if row is None or partition.damaged or partition.moved_away:
                continue
            how = published(partition, row, partition.held(), catalog.fingerprint())
            self.counts[f"published: {how}"] += 1

    def _check_outcomes(self, verb: str, ran: Ran) -> None:
        """Check that the state of each partition justifies its outcome; raises Violation."""
        for entry in ran.entries:
            partition = next((p for p in self.partitions if p.topic_id == entry["topic_id"]), None)
            self.counts[f"{verb}: {entry.get('outcome', 'read')}"] += 1
            if partition is None or partition.damaged or self.problem(partition):
                continue
            # The run or time may select another state, as the clock jumps backwards too.
            is_other_state = verb == "restore" and entry["outcome"] == "refused"
            is_bad = entry.get("outcome") in BAD and not is_other_state
            if is_bad and not self._stalled(partition):
                raise Violation(f"{verb}: {partition} is {entry['outcome']}: {entry['reason']}")
            if entry.get("corruptions"):
                raise Violation(f"{verb}: {partition}: {entry['corruptions']}")
            if entry.get("outcome") in {"planned", "forgotten"} and verb == "forget":
                raise Violation(f"{partition} is sound, but forget accepts it: {entry['outcome']}")
            is_idle = verb in {"plan", "compact"} and entry["outcome"] == "nothing_to_do"
            if is_idle and (waiting := self._stalled(partition)):
                what = f"{partition} is left unchanged, but these have waited for a day"
                raise Violation(f"{what}: {waiting}")

    def problem(self, partition: Partition) -> str:
        """Return why `status` refuses the partition; empty: it does not."""
        return str(self.entries[partition.topic_id]["reason"])

    def _stalled(self, partition: Partition) -> list[str]:
        row, entry = self.checker.row.get(partition.topic_id), self.entries[partition.topic_id]
        return stalled(partition, row, entry, partition.held(), self.now_ms)

    def _date_new_files(self) -> None:
        """Set the machine's time on files that runs wrote; they have the real clock's time."""
        for path in self.tier.glob(f"{broker.TIER_FOLDER}/*/*"):
            if path.stat().st_mtime < THEN_MS / 1000 - 60 * 24 * 3600:
                broker.set_modified(path, self.now_ms)
