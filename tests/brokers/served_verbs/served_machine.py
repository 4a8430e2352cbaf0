"""Real verbs in random order on topics that a real broker serves; a consumer reads after each.

    a step    records are written, or the log start moves; a verb runs, is killed, or only looks
    after it  a consumer reads both topics from the start: no error, the newest value of each key,
              no deleted key
    the end   runs go on until nothing is open: brokers have exactly what the catalog has as live

The verbs' clock is ahead of the machine's by hours that only grow, so that graces end.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.brokers.cluster import KafkaCluster
from tests.brokers.served_verbs.served_model import KEYS, Model, Violation
from tests.brokers.test_third_send import scripted_sends
from tests.brokers.topics import KeyValue
from tests.faults.publishing_kills.served_topic import ids_in, latest_of, views_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran, tierfold
from tests.storage.call_scripts import Killed, killed
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.service_notes import FOLDER

HOUR_MS: Final = 3_600_000
_ROUNDS_MAX: Final = 6
"""Within so many runs of `compact` and `vacuum` everything must be done at the end."""
_KILLS: Final = ("claim", "write", "put", "commit", "send", "delete")
"""Operations at which a run is killed."""


@dataclass(slots=True, kw_only=True)
class Machine:
    """Two topics of one cluster, and one catalog; steps are drawn from a seed."""

    kafka: KafkaCluster
    folder: Path
    seed: int
    models: tuple[Model, ...]
    rng: Random = field(init=False)
    hours: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)

    @classmethod
    def of(cls, kafka: KafkaCluster, folder: Path, seed: int) -> Machine:
        """The machine, with new topics of one and of two partitions."""
        topics = [kafka.create(f"verbs-{seed}-{parts}", partitions=parts) for parts in (1, 2)]
        models = tuple(Model(topic=topic) for topic in topics)
        machine = cls(kafka=kafka, folder=folder, seed=seed, models=models)
        for model in models:
            for partition in range(model.topic.partitions):
                machine._write(model, partition)
        return machine

    def play(self, steps: int) -> None:
        """Play so many steps, and the end; raises Violation, with what was done."""
        moves = [move for move, weight in MOVES for _ in range(weight)]
        try:
            for _ in range(steps):
                move = self.rng.choice(moves)
                self.note(move.__name__.strip("_"))
                move(self)
                self._read()
            self._end()
        except Violation as violation:
            shown = "\n".join(self.steps[-40:])
            raise Violation(f"seed {self.seed}: {violation}\n{shown}") from violation

    def note(self, what: str) -> None:
        """Remember a step."""
        self.steps.append(f"{len(self.steps)} at +{self.hours:.1f} h: {what}")
        self.counts[what.partition(":")[0]] += 1

    @property
    def catalog(self) -> Path:
        return self.folder / "catalog"

    def run(self, verb: str, *words: str | Path) -> Ran:
        """Run a verb with the cluster, by its clock."""
        now_ms = time.time_ns() // 1_000_000 + int(self.hours * HOUR_MS)
        named = (verb, self.kafka.tier, *words, "--catalog", self.catalog)
        ran = tierfold(
            *named, "--bootstrap-server", self.kafka.servers, "--json", CLOCK, str(now_ms)
        )
        said = [_said(entry) for entry in ran.entries]
        self.note(f"{verb}: {ran.code}, {', '.join(said)}")
        return ran

    @property
    def scope(self) -> tuple[str, ...]:
        return tuple(word for model in self.models for word in ("--topic", model.topic.name))

    def compact(self) -> Ran:
        """Compact and publish; tombstones go after an hour."""
        margin = self.rng.choice((0, 1))
        settings = (f"tail.margin.segments={margin}", f"delete.retention.ms={HOUR_MS}")
        words = [word for setting in settings for word in ("--set", setting)]
        canary = self.rng.choice(("off", "borders"))
        publishing = ("--publish", "--canary", canary, "--readers-begin-again")
        return self.run(
            "compact", *self.scope, *ALWAYS, *words, *publishing, "--if-held", "take-over"
        )

    def vacuum(self) -> Ran:
        """Delete what was listed an hour ago, and send it."""
        graces = ("--grace-period", "1h", "--orphan-age", "1h", "--yes")
        return self.run("vacuum", *self.scope, *graces, "--publish", "--canary", "off")

    def rows(self) -> dict[tuple[str, int], PartitionState]:
        """The catalog's rows, by topic and partition."""
        catalog = Catalog(str(self.catalog))
        found = catalog.read() if catalog.exists() else {}
        return {(key.topic, key.partition): row for key, row in found.items()}

    def _write(self, model: Model, partition: int) -> None:
        for _ in range(self.rng.randint(1, 3)):
            records: list[KeyValue] = [
                (b"key-%d" % self.rng.randrange(KEYS), self._value())
                for _ in range(self.rng.randint(1, 8))
            ]
            model.write(partition, records)
        model.topic.wait_until_tiered()

    def _value(self) -> bytes | None:
        return None if self.rng.random() < 0.25 else b"%d" % self.rng.getrandbits(40)

    def _read(self) -> None:
        for model in self.models:
            model.check(latest_of(self.kafka, model.topic))

    def _end(self) -> None:
        """Nothing fails any longer: everything must be published, deleted and forgotten."""
        for _ in range(_ROUNDS_MAX):
            self.must_do(self.compact())
            self._read()
            self.hours += 2
            self.must_do(self.vacuum())
            self._read()
            if not self._open():
                return
        raise Violation(f"still open after {_ROUNDS_MAX} rounds: {self._open()}")

    def must_do(self, ran: Ran) -> None:
        """Raise Violation if a run refused or failed."""
        if ran.code != 0:
            raise Violation(f"a run that nothing disturbed ended with {ran.code}")

    def _open(self) -> list[str]:
        """Where brokers, catalog and tier differ."""
        rows, found = self.rows(), []
        for model in self.models:
            for number, view in views_of(self.kafka, model.topic).items():
                row = rows[model.topic.name, number]
                finished = ids_in(view, SegmentState.COPY_FINISHED)
                others = set(view.segments) - finished
                if finished != row.live_ids or others or row.retired:
                    found.append(f"{row.key}: {finished ^ row.live_ids} {others} {row.retired_ids}")
        return found


def _said(entry: dict[str, Any]) -> str:
    """What a run says of a partition; its reason only where a person has to read it."""
    outcome = entry["outcome"]
    why = f" ({entry['reason']})" if outcome in {"refused", "failed"} else ""
    return f"{entry['topic']}-{entry['partition']} {outcome}{why}"


def _append(machine: Machine) -> None:
    model = machine.rng.choice(machine.models)
    machine._write(model, machine.rng.randrange(model.topic.partitions))


def _compact(machine: Machine) -> None:
    machine.must_do(machine.compact())


def _vacuum(machine: Machine) -> None:
    machine.hours += machine.rng.choice((0.0, 1.2, 30.0))
    machine.must_do(machine.vacuum())


def _be_killed(machine: Machine) -> None:
    """A run is killed before or after one of its calls; the next one takes its claims over."""
    operation, number = machine.rng.choice(_KILLS), machine.rng.randint(1, 6)
    step, is_done = f"{operation} {number}", machine.rng.random() < 0.5
    run: Callable[[], Ran] = machine.rng.choice((machine.compact, machine.compact, machine.vacuum))
    try:
        with scripted_sends(killed(step, is_done=is_done)):
            run()
    except Killed:
        machine.note(f"killed: {run.__name__}, {step}{' done' if is_done else ''}")


def _restore(machine: Machine) -> None:
    """A person goes back to an earlier state of a partition, if the verb allows it."""
    rows = machine.rows()
    if not rows:
        return
    topic, partition = machine.rng.choice(sorted(rows))
    name = f"{topic}-{partition}"
    ran = tierfold("history", machine.kafka.tier, name, "--catalog", machine.catalog, "--json")
    (entry,) = ran.entries
    states = [one for one in entry["history"] if one["is_restorable"] and not one["is_current"]]
    if not states:
        return
    to = machine.rng.choice(states)["committed_at"]
    ran = machine.run("restore", name, "--to", to, "--publish")
    if ran.code not in {0, 3}:
        raise Violation(f"restore ended with {ran.code}")


def _look(machine: Machine) -> None:
    for verb, words in (("status", ()), ("plan", ALWAYS), ("verify", ("--engine", "local"))):
        machine.must_do(machine.run(verb, *machine.scope, *words))


def _delete_records(machine: Machine) -> None:
    model = machine.rng.choice(machine.models)
    partition = machine.rng.randrange(model.topic.partitions)
    start, end = model.starts.get(partition, 0), model.ends[partition]
    offset = machine.rng.randint(start, min(end, start + 12))
    model.delete_records(partition, offset)
    machine.note(f"log start: {model.topic.name}-{partition} at {offset}")


def _lose_catalog(machine: Machine) -> None:
    """The catalog is gone, and `forget` takes over what brokers have, once nothing is open."""
    if not machine.rows():
        return
    machine.hours += 2
    shutil.rmtree(machine.catalog)
    for model in machine.models:
        for number in range(model.topic.partitions):
            name = f"{model.topic.name}-{number}"
            machine.must_do(machine.run("forget", name))


MOVES: Final[tuple[tuple[Callable[[Machine], None], int], ...]] = (
    (_append, 8),
    (_compact, 6),
    (_be_killed, 5),
    (_vacuum, 3),
    (_restore, 2),
    (_look, 1),
    (_delete_records, 1),
    (_lose_catalog, 1),
)


def played(kafka: KafkaCluster, folder: Path, seed: int, steps: int) -> Machine:
    """Play a machine with this seed; at the end the tier forgets which catalog publishes."""
    machine = Machine.of(kafka, folder, seed)
    try:
        machine.play(steps)
    finally:
        shutil.rmtree(kafka.tier / FOLDER, ignore_errors=True)
    return machine
