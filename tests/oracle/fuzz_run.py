"""Many logs in one tier, passes of tierfold's command over it, and Kafka's on the same logs.

Each seed is a topic `t<seed>` of one partition. A pass compacts the whole tier with one command.
The live segments are then copied to local names, for Kafka's classes to read. Kafka's cleaner
starts from the view before the first pass and continues from its own results.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.jobs.commands import tierfold
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.recipes import (
    FIRST_PASS_MS,
    LEGACY_FROM,
    TS_START_MS,
    recipe,
    uploads_below_stable,
)
from tests.oracle.remote_views import RemoteSegment, all_segments, to_local, to_remote
from tierfold.compaction.commits.commit import AdvanceCleanerOffset, ReleaseClaim, proposed
from tierfold.compaction.discovery.view import state_with_new
from tierfold.compaction.model.units import NO_TIMESTAMP_MS
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.catalog.catalog import new_commit_id

SEEDS_VARIABLE: Final = "TIERFOLD_ORACLE_SEEDS"
SPARK_SEEDS_VARIABLE: Final = "TIERFOLD_SPARK_SEEDS"
SEGMENT_BYTES: Final = 100_000
DELETE_RETENTION_MS: Final = 1000
PASSES_MS: Final = tuple(FIRST_PASS_MS + at_ms for at_ms in (0, 999, 1000, 2000))
"""After the newest record; a millisecond before the delete horizons that the first pass set, and at
them; at those of the third, for a marker gets its horizon only once its data are gone.

A tombstone of magic 0 or 1 has no horizon before the first pass, which converts it or, in a segment
a second older than the last clean one, lets it go.
"""

PRODUCER_EXPIRATION_MS: Final = PASSES_MS[2] - TS_START_MS
"""For logs whose records all have the first timestamp: to the millisecond, at the third pass."""


_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": SEGMENT_BYTES,
    "producer.id.expiration.ms": PRODUCER_EXPIRATION_MS,
    "min.cleanable.dirty.ratio": 0,
    "delete.retention.ms": DELETE_RETENTION_MS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What lived in one partition after one pass, and what Kafka made of the same."""

    segments: tuple[RemoteSegment, ...]
    report: Mapping[str, Any]
    """What `tierfold compact` printed of the partition."""
    status: Mapping[str, Any]
    """The partition as `tierfold status` prints it."""
    view: Path
    """The live segments under local names."""
    oracle: Path
    """The log that Kafka's cleaner left, chained from the view before the first pass."""
    oracle_end: int
    """The first offset that Kafka's pass did not clean; 0: it found nothing to do."""
    producers: frozenset[int]
    """The ids that Kafka took for active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzedTopic:
    """One seed's log on its way through all passes."""

    seed: int
    tier: Path
    end_offset: int
    """The first offset beyond what was uploaded."""
    before: Path
    """The uploaded segments under local names, before the first pass."""
    passes: tuple[Pass, ...]


def seeds() -> tuple[int, ...]:
    """The seeds to run: `TIERFOLD_ORACLE_SEEDS`, as `FIRST:END` with the end excluded, or 55.

    Of those, 40 stand for logs of magic 2, and 15 for logs with batches of magic 0 and 1.
    """
    return seeds_of(SEEDS_VARIABLE, f"0:40,{LEGACY_FROM}:{LEGACY_FROM + 15}")


def spark_seeds() -> tuple[int, ...]:
    """The seeds to run on Spark, too: `TIERFOLD_SPARK_SEEDS`, or six; `make soak` runs all."""
    return seeds_of(SPARK_SEEDS_VARIABLE, f"0:4,{LEGACY_FROM}:{LEGACY_FROM + 2}")


def seeds_of(variable: str, otherwise: str) -> tuple[int, ...]:
    """The seeds that an environment variable names, in spans `FIRST:END`, the end excluded."""
    spans = os.environ.get(variable) or otherwise
    ranges = (range(*map(int, span.split(":"))) for span in spans.split(","))
    return tuple(seed for numbers in ranges for seed in numbers)


def run_passes(
    lab: KafkaLab, folder: Path, wanted: Iterable[int], engine: Sequence[str] = ()
) -> dict[int, FuzzedTopic]:
    """Make each seed's log, take them all through the passes, and have Kafka do the same.

    `engine`: the arguments of `compact` that choose one.
    """
    tier = folder / "tier"
    topics = {seed: _uploaded(lab, folder, tier, seed) for seed in wanted}
    for seed, topic in topics.items():
        if seed >= LEGACY_FROM:
            date(lab, topic.before, _first_dirty(seed), PASSES_MS[0])
    _checkpoint(tier)
    for number in range(len(PASSES_MS)):
        reports = told_by(
            "compact", tier, [*pass_arguments(number, anew=number > 0), *engine]
        )
        statuses = told_by("status", tier, ["--now", str(PASSES_MS[number])])
        for name, status in statuses.items():
            topic = topics[_seed_of(name)]
            done = _passed(lab, folder, (topic, reports[name], status))
            topics[topic.seed] = replace(topic, passes=(*topic.passes, done))
    return topics


def told_by(verb: str, tier: Path, arguments: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the verb says of each topic; raises AssertionError with its words where it fails."""
    ran = tierfold(verb, tier, "--json", *arguments)
    assert ran.code == 0, (
        f"{verb} exited with {ran.code}\n{ran.stdout[-4000:]}\n{ran.stderr[-4000:]}"
    )
    return {entry["topic"]: entry for entry in ran.entries}


def _seed_of(topic: str) -> int:
    return int(topic.removeprefix("t"))


def _first_dirty(seed: int) -> int:
    """Where the first pass begins: within a batch; the clean region below keeps its duplicates.

    That of a legacy log has whole segments, for their age decides on tombstones.
    """
    return 25 if seed < LEGACY_FROM else 400


def pass_arguments(number: int, *, anew: bool) -> list[str]:
    """Of `compact` in pass `number`, from 0 on; `anew`: all is cleaned again."""
    settings = [text for name, value in _SETTINGS.items() for text in ("--set", f"{name}={value}")]
    first_dirty = ["--first-dirty", "0"] if anew else []
    return ["--now", str(PASSES_MS[number]), *first_dirty, *settings]


def _checkpoint(tier: Path) -> None:
    """The catalog as a run left it that cleaned all below `_first_dirty`, as Kafka takes it too.

    Forced alone, a first dirty offset above what is clean keeps the tombstones: decision 0002.
    """
    context = run_context(str(tier), None, PASSES_MS[0])
    surveyed = survey(context, resolve(("cleanup.policy=compact",)), Scope())
    views = [partition.view for partition in surveyed if partition.view is not None]
    claims = context.catalog.claim(
        [state_with_new(view) for view in views], context.run, at_ms=context.now_ms
    )
    context.catalog.commit(
        [
            proposed(
                claim.state,
                AdvanceCleanerOffset(
                    epoch=claim.state.epoch,
                    offset=min(_first_dirty(_seed_of(key.topic)), claim.state.next_offset),
                ),
                ReleaseClaim(run=context.run),
                commit_id=new_commit_id(),
                at_ms=context.now_ms,
            )
            for key, claim in claims.items()
        ]
    )


def date(lab: KafkaLab, folder: Path, first_dirty: int, now_ms: int) -> None:
    """Gives each log file the modification time that we take its largest timestamp for.

    A segment without any timestamp keeps its tombstones, so its file is new; unless it is the last
    clean one, by whose age the tombstones of others go: none do, so it is old.
    """
    largest_ms: dict[str, int] = {}
    for batch in lab.batches(folder):
        known_ms = largest_ms.get(batch["file"], NO_TIMESTAMP_MS)
        largest_ms[batch["file"]] = max(known_ms, batch["maxTimestamp"])
    clean = (name for name in largest_ms if int(name[:20]) < first_dirty)
    last_clean = max(clean, default="")
    for name, known_ms in largest_ms.items():
        untimed_ms = 1 if name == last_clean else now_ms
        time_ns = 1_000_000 * (untimed_ms if known_ms == NO_TIMESTAMP_MS else known_ms)
        os.utime(folder / name, ns=(time_ns, time_ns))


def _uploaded(lab: KafkaLab, folder: Path, tier: Path, seed: int) -> FuzzedTopic:
    source = folder / "made" / f"t{seed}-0"
    made = lab.make(source, **recipe(seed))
    first_end = sorted(int(log.stem) for log in source.glob("*.log"))[1]
    stable = made["lastStableOffset"]
    # Where even the first segment is undecided, a held-back tier would be empty: upload it whole.
    held_back = uploads_below_stable(seed) and first_end <= stable
    remote = to_remote(source, tier, seed, below=stable if held_back else None)
    # A snapshot is taken at each segment's end; the newest uploaded one is the last in order.
    count = len(list(remote.glob("*.log")))
    end_offset = sorted(int(log.stem) for log in source.glob("*.log"))[count]
    before = to_local(all_segments(remote, end_offset - 1), folder / "before" / f"t{seed}-0")
    return FuzzedTopic(seed=seed, tier=tier, end_offset=end_offset, before=before, passes=())


def _passed(
    lab: KafkaLab,
    folder: Path,
    told: tuple[FuzzedTopic, Mapping[str, Any], Mapping[str, Any]],
) -> Pass:
    topic, report, status = told
    number = len(topic.passes)
    folder, name = folder / f"pass-{number + 1}", topic.before.name
    # Kafka's cleaner throws where the dirty region begins above what may be cleaned. There it gets
    # the whole log: did it find something after all, the two would differ.
    is_first = number == 0 and report["outcome"] == "compacted"
    segments = tuple(
        RemoteSegment(
            start_offset=segment["start_offset"],
            end_offset=segment["end_offset"],
            log=Path(segment["log"]),
        )
        for segment in status["segments"]
    )
    oracle = folder / "oracle" / name
    cleaned = lab.clean(
        topic.passes[-1].oracle if topic.passes else topic.before,
        oracle,
        now_ms=PASSES_MS[number],
        first_dirty=_first_dirty(topic.seed) if is_first else 0,
        delete_retention_ms=DELETE_RETENTION_MS,
        segment_bytes=SEGMENT_BYTES,
        producer_expiration_ms=PRODUCER_EXPIRATION_MS,
    )
    return Pass(
        segments=segments,
        report=report,
        status=status,
        view=to_local(segments, folder / "tierfold" / name),
        oracle=oracle,
        oracle_end=cleaned["passes"][0]["endOffset"],
        producers=frozenset(one["producerId"] for one in cleaned["passes"][0]["producers"]),
    )
