"""Many logs, a tier for each course, passes of tierfold's own command, and Kafka's on the same.

Each seed is a topic `t<seed>` of one partition. A pass compacts the whole tier with one command, so
that Spark starts once for all its seeds; what lives afterwards is copied to local names, for
Kafka's classes to read. Kafka's cleaner gets the view before the first pass, then goes its own way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from compaction.commit import AdvanceCleanerOffset, ReleaseClaim, proposed
from compaction.units import NO_TIMESTAMP_MS
from compaction.view import state_with_new
from jobs.scope import Scope
from jobs.settings import resolve
from jobs.survey import survey
from jobs.wiring import wired
from storage.catalog import new_commit_id
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.recipes import LEGACY_FROM, TS_START_MS, recipe, uploads_below_stable
from tests.oracle.remote_views import RemoteSegment, all_segments, to_local, to_remote

SEEDS_VARIABLE: Final = "TIERFOLD_ORACLE_SEEDS"
SEGMENT_BYTES: Final = 100_000
PRODUCER_EXPIRATION_MS: Final = 80_000
"""For logs whose records all have the first timestamp: to the millisecond, at the third pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The passes over one tier, and what its topics have in common."""

    passes_ms: tuple[int, ...]
    """The clock of each pass."""
    first_dirty: int
    """Where the first pass begins: within a batch; the clean region below keeps its duplicates."""
    delete_retention_ms: int

    def settings_at(self, number: int) -> tuple[int, int, int]:
        """Of pass `number`, from 1 on: the time, the first dirty offset, the retention in ms."""
        first_dirty = self.first_dirty if number == 1 else 0
        return self.passes_ms[number - 1], first_dirty, self.delete_retention_ms


_COURSE: Final = Course(
    # After the newest record; a millisecond before the delete horizons that the first pass set, and
    # at them; at those of the third, for a marker gets its horizon only once its data are gone.
    passes_ms=tuple(TS_START_MS + at_ms for at_ms in (20_000, 79_999, 80_000, 140_000)),
    first_dirty=25,
    delete_retention_ms=60_000,
)
_LEGACY_COURSE: Final = Course(
    # A tombstone of magic 0 or 1 has no horizon before the first pass, which converts it or, in a
    # segment a second older than the last clean one, lets it go.
    passes_ms=tuple(TS_START_MS + at_ms for at_ms in (20_000, 20_999, 21_000)),
    first_dirty=400,
    delete_retention_ms=1000,
)

_ROOT: Final = Path(__file__).resolve().parents[2]
_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": SEGMENT_BYTES,
    "producer.id.expiration.ms": PRODUCER_EXPIRATION_MS,
    "min.cleanable.dirty.ratio": 0,
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


def seeds_of(variable: str, otherwise: str) -> tuple[int, ...]:
    """The seeds that an environment variable names, in spans `FIRST:END`, the end excluded."""
    spans = os.environ.get(variable) or otherwise
    ranges = (range(*map(int, span.split(":"))) for span in spans.split(","))
    return tuple(seed for each in ranges for seed in each)


def run_passes(lab: KafkaLab, folder: Path, wanted: Iterable[int]) -> dict[int, FuzzedTopic]:
    """Make each seed's log, take them all through their course, and have Kafka do the same."""
    legacy = [seed for seed in wanted if seed >= LEGACY_FROM]
    others = [seed for seed in wanted if seed < LEGACY_FROM]
    topics: dict[int, FuzzedTopic] = {}
    for course, chosen in ((_COURSE, others), (_LEGACY_COURSE, legacy)):
        if chosen:
            topics |= _run_course(lab, folder / f"from-{chosen[0]}", chosen, course)
    return topics


def _run_course(
    lab: KafkaLab, folder: Path, wanted: Iterable[int], course: Course
) -> dict[int, FuzzedTopic]:
    tier = folder / "tier"
    topics = {seed: _uploaded(lab, folder, tier, seed) for seed in wanted}
    for seed, topic in topics.items():
        if seed >= LEGACY_FROM:
            date(lab, topic.before, course.first_dirty, course.passes_ms[0])
    _checkpoint(tier, course)
    for number in range(1, len(course.passes_ms) + 1):
        clock = course.settings_at(number)
        reports = run_tierfold("compact", tier, _compact_arguments(*clock))["partitions"]
        statuses = run_tierfold("status", tier)["partitions"]
        for report, status in zip(reports, statuses, strict=True):
            topic = topics[int(status["topic"].removeprefix("t"))]
            done = _passed(lab, folder / f"pass-{number}", (topic, report, status), clock)
            topics[topic.seed] = replace(topic, passes=(*topic.passes, done))
    return topics


def run_tierfold(verb: str, tier: Path, arguments: Sequence[str] = ()) -> dict[str, Any]:
    """Run `tierfold VERB TIER ARGUMENTS --json` and read what it prints.

    Raises `RuntimeError` with its own words where it exits with anything but 0.
    """
    command = [sys.executable, "-m", "jobs", verb, str(tier), *arguments, "--json"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        words = f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        raise RuntimeError(f"{' '.join(command)} exited with {done.returncode}\n{words}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _compact_arguments(now_ms: int, first_dirty: int, delete_retention_ms: int) -> list[str]:
    named = _SETTINGS | {"delete.retention.ms": delete_retention_ms}
    settings = [text for name, value in named.items() for text in ("--set", f"{name}={value}")]
    return ["--now", str(now_ms), "--first-dirty", str(first_dirty), *settings]


def _checkpoint(tier: Path, course: Course) -> None:
    """The catalog as a run left it that cleaned all below `first_dirty`, as Kafka takes it too.

    Forced alone, a first dirty offset above what is clean keeps the tombstones: decision 0002.
    """
    live = wired(str(tier), None, course.passes_ms[0])
    surveyed = survey(live, resolve(("cleanup.policy=compact",)), Scope())
    views = [each.view for each in surveyed if each.view is not None]
    claims = live.catalog.claim(
        [state_with_new(view) for view in views], live.run, at_ms=live.now_ms
    )
    live.catalog.commit(
        [
            proposed(
                claim.state,
                AdvanceCleanerOffset(
                    epoch=claim.state.epoch,
                    offset=min(course.first_dirty, claim.state.next_offset),
                ),
                ReleaseClaim(run=live.run),
                commit_id=new_commit_id(),
                at_ms=live.now_ms,
            )
            for claim in claims.values()
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
    clock: tuple[int, int, int],
) -> Pass:
    topic, report, status = told
    now_ms, first_dirty, delete_retention_ms = clock
    name = topic.before.name
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
        now_ms=now_ms,
        # Kafka's cleaner throws where the dirty region begins above what may be cleaned. There it
        # gets the whole log: did it find something after all, the two would differ.
        first_dirty=first_dirty if report["outcome"] == "compacted" else 0,
        delete_retention_ms=delete_retention_ms,
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
