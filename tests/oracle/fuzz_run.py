"""Many logs in one tier, compacted four times by tierfold's command and by Kafka's cleaners.

Each seed is a topic `t<seed>` with one partition. A pass compacts the whole tier with one command.
Then the live segments are copied to local names, so that Kafka's classes can read them. In each
pass Kafka's cleaners get the log that tierfold got: the uploaded segments, and then what tierfold's
pass before left.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.jobs.commands import CLOCK, tierfold
from tests.oracle.kafka_lab import KafkaLab, Option
from tests.oracle.oracles import Cleaned, Cleaning, Oracles, newest
from tests.oracle.recipes import (
    FIRST_PASS_MS,
    LEGACY_FROM,
    TS_START_MS,
    recipe,
    uploads_below_stable,
)
from tests.oracle.remote_views import (
    RemoteSegment,
    all_segments,
    live_segments,
    to_local,
    to_remote,
)
from tierfold.compaction.commits.commit import AdvanceCleanerOffset, ReleaseClaim, proposed
from tierfold.compaction.discovery.view import state_with_new
from tierfold.compaction.model.units import NO_TIMESTAMP_MS
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.tiers.layout_options import AS_FOUND, LayoutOptions

SEEDS_VARIABLE: Final = "TIERFOLD_ORACLE_SEEDS"
SPARK_SEEDS_VARIABLE: Final = "TIERFOLD_SPARK_SEEDS"
S3_SEEDS_VARIABLE: Final = "TIERFOLD_S3_SEEDS"
AIVEN_SEEDS_VARIABLE: Final = "TIERFOLD_AIVEN_SEEDS"
SEGMENT_BYTES: Final = 100_000
DELETE_RETENTION_MS: Final = 1000
PASSES_MS: Final = tuple(FIRST_PASS_MS + at_ms for at_ms in (0, 999, 1000, 2000))
"""The clock of each pass.

The first pass is after the newest record. The second is a millisecond before the delete horizons
that the first one sets, the third at them. The fourth is at the horizons that the third one sets: a
marker gets its horizon only when its transaction has no data left. A tombstone of magic 0 or 1 has
no horizon. The first pass converts it; if its segment is a second older than the last clean one,
that pass removes it.
"""

PRODUCER_EXPIRATION_MS: Final = PASSES_MS[2] - TS_START_MS
"""A producer whose records all have the first timestamp expires exactly at the third pass."""

LAG_MS: Final = 6000
"""A `min.compaction.lag.ms` under which the rounds of many seeds end in mid-log."""

_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": SEGMENT_BYTES,
    "producer.id.expiration.ms": PRODUCER_EXPIRATION_MS,
    "min.cleanable.dirty.ratio": 0,
    "delete.retention.ms": DELETE_RETENTION_MS,
}


Entries: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A partition's entries of `compact --json` and `status --json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One partition after one pass, and Kafka's results for the same log."""

    segments: tuple[RemoteSegment, ...]
    report: Mapping[str, Any]
    """The partition's entry of `tierfold compact --json`."""
    status: Mapping[str, Any]
    """The partition's entry of `tierfold status --json`."""
    view: Path
    """The live segments under local names."""
    cleaned: Cleaned
    """What Kafka's cleaners left of the same log."""

    @property
    def oracle(self) -> Cleaning:
        """The result of the newest version that cleaned it."""
        return newest(self.cleaned)


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzedTopic:
    """A seed's log and its passes."""

    seed: int
    tier: Path
    end_offset: int
    """The first offset after the uploads."""
    before: Path
    """The uploaded segments under local names, before the first pass."""
    uploaded: tuple[Path, ...]
    """The objects of the uploaded segments in the tier."""
    passes: tuple[Pass, ...]


def seeds() -> tuple[int, ...]:
    """The seeds of `TIERFOLD_ORACLE_SEEDS`, or 40 of magic 2 and 15 with legacy batches."""
    return seeds_of(SEEDS_VARIABLE, f"0:40,{LEGACY_FROM}:{LEGACY_FROM + 15}")


def spark_seeds() -> tuple[int, ...]:
    """The seeds that also run on Spark: `TIERFOLD_SPARK_SEEDS`, or four; `make soak` runs all."""
    return seeds_of(SPARK_SEEDS_VARIABLE, f"0:3,{LEGACY_FROM}:{LEGACY_FROM + 1}")


def s3_seeds() -> tuple[int, ...]:
    """The seeds that also run on S3: `TIERFOLD_S3_SEEDS`, or five; `make soak` runs 40."""
    return seeds_of(S3_SEEDS_VARIABLE, f"0:4,{LEGACY_FROM}:{LEGACY_FROM + 1}")


def aiven_seeds() -> tuple[int, ...]:
    """The seeds that also run in Aiven's layout: `TIERFOLD_AIVEN_SEEDS`, or five; in soak 40."""
    return seeds_of(AIVEN_SEEDS_VARIABLE, f"0:4,{LEGACY_FROM}:{LEGACY_FROM + 1}")


def seeds_of(variable: str, default: str) -> tuple[int, ...]:
    """The seeds in an environment variable, see `seeds_in`."""
    return seeds_in(os.environ.get(variable) or default)


def seeds_in(spans: str) -> tuple[int, ...]:
    """The seeds of spans `FIRST:END`, divided by commas; the end is excluded."""
    ranges = (range(*map(int, span.split(":"))) for span in spans.split(","))
    return tuple(seed for numbers in ranges for seed in numbers)


def run_passes(
    oracles: Oracles,
    folder: Path,
    wanted: Iterable[int],
    engine: Sequence[str] = (),
    *,
    min_lag_ms: int = 0,
    passes: int = len(PASSES_MS),
) -> dict[int, FuzzedTopic]:
    """Make each seed's log, and run all passes over it, by tierfold and by Kafka.

    `engine`: the arguments of `compact` that choose an engine. Under a `min_lag_ms`, rounds end in
    mid-log; then no seed may be a legacy one, whose files have dates of their own.
    """
    tier, lab = folder / "tier", oracles.lab
    topics = {seed: _uploaded(lab, folder, tier, seed) for seed in wanted}
    for seed, topic in topics.items():
        if seed >= LEGACY_FROM:
            date(lab, topic.before, _first_dirty(seed), PASSES_MS[0])
    checkpoint(tier)
    settings = _SETTINGS | {"min.compaction.lag.ms": min_lag_ms}
    for number in range(passes):
        start = ("--first-dirty", "0") if number else ()
        done_by_topic = compacted_at(tier, PASSES_MS[number], settings, (*start, *engine))
        for name, entries in done_by_topic.items():
            topic = topics[_seed_of(name)]
            place = folder / f"pass-{number + 1}"
            done = _passed(oracles, place, topic, entries, min_lag_ms)
            topics[topic.seed] = replace(topic, passes=(*topic.passes, done))
    return topics


def compacted(
    tier: Path | str,
    number: int,
    *,
    is_from_start: bool,
    engine: Sequence[str] = (),
    layout: Sequence[str] = (),
) -> dict[str, Entries]:
    """Run pass `number` (from 0 on); return the entries by topic.

    `is_from_start`: the pass also cleans what is already clean. `layout`: the options of the tier's
    layout.
    """
    options = (*(("--first-dirty", "0") if is_from_start else ()), *engine)
    return compacted_at(tier, PASSES_MS[number], _SETTINGS, options, layout)


def compacted_at(
    tier: Path | str,
    now_ms: int,
    settings: Mapping[str, object],
    options: Sequence[str] = (),
    layout: Sequence[str] = (),
) -> dict[str, Entries]:
    """Run `compact` with these settings and options, then `status`; return the entries by topic."""
    common = (tier, "--json", CLOCK, str(now_ms), *layout)
    sets = (text for name, value in settings.items() for text in ("--set", f"{name}={value}"))
    by_topic = []
    for verb, *own in (("compact", *sets, *options), ("status", "--segments")):
        ran = tierfold(verb, *common, *own)
        assert ran.code == 0, f"{verb}: {ran.stdout[-4000:]}\n{ran.stderr[-4000:]}"
        by_topic.append({entry["topic"]: entry for entry in ran.entries})
    reports, statuses = by_topic
    return {topic: (reports[topic], status) for topic, status in statuses.items()}


def result_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a report that describe the result, not how it was reached."""
    fields = ("outcome", "reason", "next_offset", "bytes_out", "segments_out", "counts", "notes")
    return {name: report[name] for name in fields}


def settings_of_kafka(first_dirty: int) -> dict[str, Option]:
    """The same settings, as options of Kafka's cleaner."""
    return {
        "first_dirty": first_dirty,
        "delete_retention_ms": DELETE_RETENTION_MS,
        "segment_bytes": SEGMENT_BYTES,
        "producer_expiration_ms": PRODUCER_EXPIRATION_MS,
    }


def _seed_of(topic: str) -> int:
    return int(topic.removeprefix("t"))


def _first_dirty(seed: int) -> int:
    """The first dirty offset of the first pass, inside a batch.

    Duplicates in the clean region below it stay. In a legacy log that region has whole segments,
    because the age of segments decides which tombstones stay.
    """
    return 25 if seed < LEGACY_FROM else 400


def checkpoint(tier: Path | str, layout: LayoutOptions = AS_FOUND) -> None:
    """Commit `_first_dirty` of each topic to the catalog as its cleaner offset.

    `--first-dirty` alone would not do: then all tombstones stay (decision 0002).
    """
    context = run_context(str(tier), None, PASSES_MS[0], layout=layout)
    surveyed = survey(context, resolve(("cleanup.policy=compact",)), Scope())
    views = [partition.view for partition in surveyed if partition.view is not None]
    claims = context.catalog.claim(
        [state_with_new(view) for view in views], context.run, at_ms=context.now_ms
    )
    context.catalog.commit(
        [
            proposed(
                claim.row,
                AdvanceCleanerOffset(
                    epoch=claim.row.epoch,
                    offset=min(_first_dirty(_seed_of(key.topic)), claim.row.next_offset),
                ),
                ReleaseClaim(run=context.run),
                commit_id=new_commit_id(),
                at_ms=context.now_ms,
            )
            for key, claim in claims.items()
        ]
    )


def date(lab: KafkaLab, folder: Path, first_dirty: int, now_ms: int) -> None:
    """Set each log file's modification time, by which Kafka dates a segment, as tierfold dates it.

    That is the segment's largest timestamp. A segment without timestamps keeps its tombstones, so
    its file gets the time now. If it is the last clean segment, all tombstones stay, so its file
    gets a very old time.
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
    # If even the first segment has undecided transactions, upload the whole log.
    held_back = uploads_below_stable(seed) and first_end <= stable
    remote = to_remote(source, tier, seed, below=stable if held_back else None)
    # The tier has the first `count` segments, which end where the next one starts.
    count = len(list(remote.glob("*.log")))
    end_offset = sorted(int(log.stem) for log in source.glob("*.log"))[count]
    before = to_local(all_segments(remote, end_offset - 1), folder / "before" / f"t{seed}-0")
    return FuzzedTopic(
        seed=seed,
        tier=tier,
        end_offset=end_offset,
        before=before,
        uploaded=tuple(sorted(remote.iterdir())),
        passes=(),
    )


def _passed(
    oracles: Oracles, folder: Path, topic: FuzzedTopic, entries: Entries, min_lag_ms: int
) -> Pass:
    """The result of a pass; runs Kafka's cleaners over the same log."""
    report, status = entries
    number, name = len(topic.passes), topic.before.name
    # Kafka's cleaner throws if the first dirty offset is above the cleanable end. So if tierfold
    # found nothing to do, Kafka cleans the whole log, and any change is a difference.
    is_first = number == 0 and report["outcome"] == "compacted"
    segments = live_segments(status)
    source = topic.passes[-1].view if topic.passes else topic.before
    options = settings_of_kafka(_first_dirty(topic.seed) if is_first else 0)
    if min_lag_ms:
        # Kafka takes a segment without timestamps for as old as its file, tierfold for old.
        for log in source.glob("*.log"):
            os.utime(log, (0, 0))
    return Pass(
        segments=segments,
        report=report,
        status=status,
        view=to_local(segments, folder / "tierfold" / name),
        cleaned=oracles.clean(
            topic.seed,
            source,
            folder / "oracle",
            now_ms=PASSES_MS[number],
            min_compaction_lag_ms=min_lag_ms,
            **options,
        ),
    )
