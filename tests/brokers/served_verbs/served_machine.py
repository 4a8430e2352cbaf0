"""Real verbs in random order on topics that a real broker serves; consumers read after each.

    a step    records are written, or the log start moves; a verb runs, is killed, or only looks; a
              broker restarts; a setting changes; the catalog or the metadata topic is lost
    after it  a consumer reads both topics from the start: no error, the newest value of each key,
              no deleted key; another one reads on from where it was
    the end   runs go on until nothing is open: brokers have exactly what the catalog has as live

The verbs' clock is ahead of the machine's by hours that only grow, so that graces end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.brokers.cluster import KafkaCluster
from tests.brokers.served_verbs.served_follower import Follower
from tests.brokers.served_verbs.served_model import KEYS, Model, Violation
from tests.brokers.topics import KeyValue
from tests.faults.publishing_kills.served_topic import ids_in, messages_of, views_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran, tierfold
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.catalog.catalog import Catalog

HOUR_MS: Final = 3_600_000
_ROUNDS_MAX: Final = 6
"""Within so many runs of `compact` and `vacuum` everything must be done at the end."""
_READ_ON_MAX: Final = 10
"""Records that the follower reads after a step."""


@dataclass(slots=True, kw_only=True)
class Machine:
    """Two topics of one cluster, and one catalog; steps are drawn from a seed."""

    kafka: KafkaCluster
    folder: Path
    seed: int
    models: tuple[Model, ...]
    follower: Follower = field(init=False)
    rng: Random = field(init=False)
    hours: float = 0.0
    strategy: CompactionStrategy = CompactionStrategy.OFFSET
    delete_retention_ms: int = HOUR_MS
    strange: list[Path] = field(default_factory=list)
    """Objects that brokers never had, which a person leaves alone."""
    has_lost_metadata: bool = False
    """Whether the metadata topic was lost: what it does not name says nothing any longer."""
    given_up: set[str] = field(default_factory=set)
    """Uploads that a rebuild began, and that no catalog has: they stay as those that died do."""
    counts: Counter[str] = field(default_factory=Counter)
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.follower = Follower(self.kafka, self.models)

    @classmethod
    def of(cls, kafka: KafkaCluster, folder: Path, seed: int) -> Machine:
        """The machine, with new topics of one and of two partitions, each on all brokers."""
        topics = [
            kafka.create(f"verbs-{seed}-{parts}", partitions=parts, replicas=kafka.nodes)
            for parts in (1, 2)
        ]
        models = tuple(Model(topic=topic) for topic in topics)
        machine = cls(kafka=kafka, folder=folder, seed=seed, models=models)
        for model in models:
            for partition in range(model.topic.partitions):
                machine.write(model, partition)
        return machine

    def play(self, steps: int, moves: Mapping[Callable[[Machine], None], int]) -> None:
        """Play so many steps, and the end; raises Violation, with what was done.

        `moves`: what a step may be, with its weight.
        """
        try:
            self.follower.open()
            for _ in range(steps):
                (move,) = self.rng.choices(list(moves), list(moves.values()))
                self.note(move.__name__)
                move(self)
                self.read()
            self._end()
        except Violation as violation:
            shown = "\n".join(self.steps[-40:])
            raise Violation(f"seed {self.seed}: {violation}\n{shown}") from violation
        finally:
            self.follower.close()

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

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings of `plan` and `compact`."""
        settings = (
            f"delete.retention.ms={self.delete_retention_ms}",
            f"compaction.strategy={self.strategy}",
        )
        return (*ALWAYS, *(word for setting in settings for word in ("--set", setting)))

    def compact(self) -> Ran:
        """Compact and publish."""
        margin = ("--set", f"tail.margin.segments={self.rng.choice((0, 1))}")
        canary = self.rng.choice(("off", "borders"))
        publishing = ("--publish", "--canary", canary, "--readers-begin-again")
        return self.run(
            "compact", *self.scope, *self.settings, *margin, *publishing, "--if-held", "take-over"
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

    def any_partition(self) -> tuple[Model, int]:
        """One of the partitions of all topics."""
        model = self.rng.choice(self.models)
        return model, self.rng.randrange(model.topic.partitions)

    def write(self, model: Model, partition: int) -> None:
        """Append a few segments to a partition, and wait until all is uploaded."""
        for _ in range(self.rng.randint(1, 3)):
            records: list[KeyValue] = [
                (b"key-%d" % self.rng.randrange(KEYS), self.value())
                for _ in range(self.rng.randint(1, 8))
            ]
            model.write(partition, records)
        model.topic.wait_until_tiered()

    def write_late(self, model: Model, partition: int) -> None:
        """Append older records of keys that have a value, and wait until all is uploaded.

        Not of deleted ones: without the tombstone nothing would show that the record is older.
        """
        newest = [one for (at, _), one in model.newest.items() if at == partition]
        has_value = {one.key for one in newest if one.value is not None}
        records: list[KeyValue] = [
            (key, self.value()) for key in sorted(has_value) if self.rng.random() < 0.5
        ]
        if records:
            model.write(partition, records, late=self.rng.randint(1, 20))
        model.topic.wait_until_tiered()

    def settle(self) -> None:
        """Write a new value of each key on whose newest one the strategies differ."""
        for model in self.models:
            for partition, key in sorted(model.disputed):
                model.write(partition, [(key, self.value())])
            model.topic.wait_until_tiered()

    def value(self) -> bytes | None:
        """A new value, or a tombstone."""
        return None if self.rng.random() < 0.25 else b"%d" % self.rng.getrandbits(40)

    def restart(self, *, is_killed: bool) -> None:
        """Restart a broker, and wait until all can be read, and its replicas are in sync."""
        broker = self.kafka.brokers[self.rng.choice(self.kafka.nodes) - 1]
        self.follower.close()
        self.kafka.restart(broker, is_killed=is_killed)
        topics, nodes = [model.topic for model in self.models], {*self.kafka.nodes}
        places = [(topic, part) for topic in topics for part in range(topic.partitions)]
        self.kafka.wait(
            lambda: all(topic.in_sync(part) == nodes for topic, part in places), "all replicas"
        )
        self.follower.open()

    def read(self) -> None:
        """Read as consumers do; raises Violation."""
        for model in self.models:
            model.check(messages_of(self.kafka, model.topic))
        self.follower.read(self.rng.randint(0, _READ_ON_MAX))

    def _end(self) -> None:
        """Nothing fails any longer: everything must be published, deleted and forgotten."""
        for _ in range(_ROUNDS_MAX):
            self.must_do(self.compact())
            self.read()
            self.hours += 2
            self.must_do(self.vacuum())
            self.read()
            if not self._open():
                self.follower.catch_up()
                return
        raise Violation(f"still open after {_ROUNDS_MAX} rounds: {self._open()}")

    def must_do(self, ran: Ran) -> None:
        """Raise Violation if a run refused or failed."""
        if ran.code != 0:
            raise Violation(f"a run that nothing disturbed ended with {ran.code}: {ran.stderr}")

    def _open(self) -> list[str]:
        """Where brokers, catalog and tier differ."""
        rows, differences = self.rows(), []
        for model in self.models:
            for number, view in views_of(self.kafka, model.topic).items():
                row = rows[model.topic.name, number]
                finished = ids_in(view, SegmentState.COPY_FINISHED)
                others = {
                    segment_id: segment.state
                    for segment_id, segment in view.segments.items()
                    if segment_id not in finished | self.given_up
                }
                if finished != row.live_ids or others or row.retired:
                    what = (finished ^ row.live_ids, others, row.retired_ids)
                    differences.append(f"{row.key}: {what}")
        return differences


def _said(entry: dict[str, Any]) -> str:
    """What a run says of a partition; its reason only where a person has to read it."""
    outcome = entry["outcome"]
    why = f" ({entry['reason']})" if outcome in {"refused", "failed"} else ""
    return f"{entry['topic']}-{entry['partition']} {outcome}{why}"
