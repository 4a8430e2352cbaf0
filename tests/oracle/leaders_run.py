"""Logs that several leaders upload, compacted four times by tierfold and by Kafka's cleaners.

Each seed is a topic of one tier. Before each of the first three passes, uploads arrive that overlap
each other and the compacted segments (`two_leaders`). Kafka's cleaners get the same log without
overlap, in the same steps: what tierfold left in the pass before, followed by the new records.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, crc32, expr

from tests.jobs.commands import CLOCK, Ran, tierfold
from tests.oracle.comparators import aborted_of
from tests.oracle.fuzz_run import (
    PASSES_MS,
    Entries,
    compacted,
    date,
    seeds_of,
    settings_of_kafka,
)
from tests.oracle.kafka_lab import Batch, KafkaLab, Option, SideFiles
from tests.oracle.oracles import Cleaned, Cleaning, Oracles, newest
from tests.oracle.recipes import LEGACY_FROM, recipe, uploads_below_stable
from tests.oracle.remote_views import (
    continued_log,
    copy_segments,
    live_segments,
    partition_folder,
    to_local,
    upload,
)
from tests.oracle.two_leaders import BATCHES_LEAST, PHASES, Layout, drawn_layouts
from tierfold.jobs.sources.segment_options import FORMAT
from tierfold.jobs.sources.segment_source import register

SEEDS_VARIABLE: Final = "TIERFOLD_LEADER_SEEDS"
_NATURAL: Final = 2
"""The number of passes that start where the one before ended; later ones start at offset 0."""

Row: TypeAlias = tuple[int, int | None, str | None, int | None, int | None]
"""A record as Spark reads it: offset, timestamp in ms, key in hex, CRC32 of the value, epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One pass over one topic."""

    source: tuple[Batch, ...]
    """The log without overlap before the pass: tierfold's last result, and the new records."""
    read: tuple[Row, ...]
    """The records that Spark read before the pass, in offset order."""
    report: Mapping[str, Any]
    status: Mapping[str, Any]
    found: tuple[Batch, ...]
    """The live batches after the pass."""
    aborted: tuple[tuple[int, ...], ...]
    """The transaction index entries within the effective ranges of the live segments."""
    cleaned: Cleaned
    """What Kafka's cleaners left of the same log."""

    @property
    def oracle(self) -> Cleaning:
        """The result of the newest version that cleaned it."""
        return newest(self.cleaned)


@dataclass(slots=True, kw_only=True)
class LeadersTopic:
    """A seed's log, its uploads and its passes."""

    seed: int
    layout: Layout
    replicas: tuple[Path, ...]
    """The log of each leader."""
    plain: Path
    """The log without overlap, uncompacted."""
    folder: Path
    """The partition's folder in the tier."""
    ids: random.Random
    """Draws the ids of the uploads."""
    uploaded: set[str] = field(default_factory=set)
    """The names of their logs."""
    steps: list[Step] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The topic."""
        return f"t{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadersRun:
    """All topics, and results for the whole tier."""

    topics: Mapping[int, LeadersTopic]
    verified: tuple[Ran, ...]
    """The results of `verify` after each arrival of uploads and after the last pass."""
    read_at_end: Mapping[str, tuple[Row, ...]]
    """The records that Spark read after the last pass, by topic that has any."""


def seeds() -> tuple[int, ...]:
    """The seeds of `TIERFOLD_LEADER_SEEDS`, or five, and two with legacy batches."""
    return seeds_of(SEEDS_VARIABLE, f"0:4,5:6,{LEGACY_FROM}:{LEGACY_FROM + 2}")


def run_leaders(
    oracles: Oracles, spark: SparkSession, folder: Path, wanted: Iterable[int]
) -> LeadersRun:
    """Make each seed's log, upload all logs to one tier step by step, and run the passes."""
    tier = folder / "tier"
    register(spark)
    topics = {seed: _made(oracles.lab, folder, tier, seed) for seed in wanted}
    verified = []
    for number, now_ms in enumerate(PASSES_MS):
        for topic in topics.values():
            _arrive(topic, number)
        if number < PHASES:
            verified.append(tierfold("verify", tier, "--json", CLOCK, str(now_ms)))
        read = _read(spark, tier)
        entries = compacted(tier, number, is_from_start=number >= _NATURAL)
        for topic in topics.values():
            rows = read.get(topic.name, ())
            topic.steps.append(_step(oracles, folder, topic, entries[topic.name], rows))
    now = (CLOCK, str(PASSES_MS[-1]))
    verified.append(tierfold("verify", tier, "--json", "--second-opinion", *now))
    return LeadersRun(topics=topics, verified=tuple(verified), read_at_end=_read(spark, tier))


def rows_of(batches: Iterable[Batch]) -> tuple[Row, ...]:
    """The records of the batches as a reader returns them: without control records."""
    return tuple(
        (
            record["offset"],
            record["timestamp"] if record["timestamp"] >= 0 else None,
            record["key"],
            int(record["valueCrc32"], 16) if record["valueCrc32"] is not None else None,
            batch["partitionLeaderEpoch"] if batch["partitionLeaderEpoch"] >= 0 else None,
        )
        for batch in batches
        if not batch["isControl"]
        for record in batch["records"]
    )


def _made(lab: KafkaLab, folder: Path, tier: Path, seed: int) -> LeadersTopic:
    name = f"t{seed}-0"
    source = folder / "made" / name
    made = lab.make(source, **_recipe(seed))
    stable = made["lastStableOffset"] if uploads_below_stable(seed) else made["logEndOffset"]
    batches = lab.batches(source)
    drawn = drawn_layouts(_boundaries(batches, stable), seed)
    layout = next(layout for layout in drawn if _has_row_before_gaps(layout, batches))
    replicas = []
    for leader, borders in enumerate(layout.borders):
        replicas.append(folder / f"leader-{leader}" / name)
        lab.replicate(source, replicas[-1], roll_at=borders)
    plain = folder / "plain" / name
    lab.replicate(source, plain, roll_at=layout.covered.borders)
    ids = random.Random(seed)
    return LeadersTopic(
        seed=seed,
        layout=layout,
        replicas=tuple(replicas),
        plain=plain,
        folder=partition_folder(tier, name, ids),
        ids=ids,
    )


def _recipe(seed: int) -> dict[str, Option]:
    """The options of a seed's log; batches are small, so that there are enough borders."""
    options = recipe(seed)
    smaller = {"20:60": "1:20", "1:30": "1:15"}
    options["batch_records"] = smaller.get(str(options["batch_records"]), options["batch_records"])
    return options


def _boundaries(batches: Sequence[Batch], stable: int) -> list[int]:
    """The offsets at which segments may end: those up to the last stable offset, if enough.

    Kafka throws if the last batch of a pass is a legacy batch that it must empty. So a legacy batch
    may be the last one only if its last record has a key, and thus survives.
    """
    ends = [
        batch["lastOffset"] + 1
        for batch in batches
        if batch["magic"] == 2 or batch["records"][-1]["key"] is not None
    ]
    decided = [end for end in ends if end <= stable]
    return [0, *(decided if len(decided) >= BATCHES_LEAST else ends)]


def _has_row_before_gaps(layout: Layout, batches: Sequence[Batch]) -> bool:
    """Whether some pass cleans the partition before the first gap, so that it has a row by then.

    tierfold refuses a gap in a partition that no run has claimed yet.
    """
    covered, has_row = layout.covered, False
    for end, waiting in zip(covered.ends, covered.waiting, strict=True):
        if waiting and not has_row:
            return False
        has_row = has_row or first_undecided(batches, end) >= covered.borders[1]
    return True


def first_undecided(batches: Sequence[Batch], end: int) -> int:
    """The first offset of the transactions that are open at `end`; `end` if none is."""
    opened: dict[int, int] = {}
    for batch in batches:
        if batch["lastOffset"] < end and batch["isTransactional"]:
            if batch["isControl"]:
                opened.pop(batch["producerId"], None)
            else:
                opened.setdefault(batch["producerId"], batch["baseOffset"])
    return min(opened.values(), default=end)


def _arrive(topic: LeadersTopic, phase: int) -> None:
    """Upload the segments of a phase, in order."""
    for planned in topic.layout.uploads:
        if planned.phase == phase:
            replica, span = topic.replicas[planned.leader], (planned.start, planned.end)
            topic.uploaded.add(upload(replica, topic.folder, topic.ids, span).name)


def _read(spark: SparkSession, tier: Path) -> dict[str, tuple[Row, ...]]:
    """The records that Spark reads, in offset order, by topic."""
    reader = spark.read.format(FORMAT).option("isolation.level", "read_uncommitted")
    frame = reader.load(str(tier)).select(
        "topic",
        "offset",
        expr("unix_millis(timestamp)").alias("timestamp"),
        expr("lower(hex(key))").alias("key"),
        crc32("value").alias("value"),
        col("leader_epoch"),
    )
    found: dict[str, list[Row]] = {}
    for topic, *row in frame.collect():
        found.setdefault(topic, []).append(tuple(row))
    return {topic: tuple(sorted(rows, key=lambda row: row[0])) for topic, rows in found.items()}


def _step(
    oracles: Oracles,
    folder: Path,
    topic: LeadersTopic,
    entries: Entries,
    read: tuple[Row, ...],
) -> Step:
    report, status = entries
    lab, number = oracles.lab, len(topic.steps)
    before = topic.steps[-1] if topic.steps else None
    given, reached = _log_for_kafka(topic, folder / f"given-{number}")
    first_dirty = before.oracle.end if before is not None and number < _NATURAL else 0
    if topic.seed >= LEGACY_FROM:
        date(lab, given, first_dirty, PASSES_MS[number])
    new = [batch for batch in lab.batches(given) if batch["baseOffset"] >= reached]
    return Step(
        source=(*(before.found if before is not None else ()), *new),
        read=read,
        report=report,
        status=status,
        found=_live_batches(lab, topic.folder, status),
        aborted=_live_aborted(lab.side_files(topic.folder), status),
        cleaned=oracles.clean(
            topic.seed,
            given,
            folder / f"oracle-{number}",
            now_ms=PASSES_MS[number],
            **settings_of_kafka(first_dirty),
        ),
    )


def _log_for_kafka(topic: LeadersTopic, folder: Path) -> tuple[Path, int]:
    """The log for Kafka's pass, and the first offset of its new records.

    The log is what tierfold's last pass left, followed by the plain log's segments up to the end of
    this phase's uploads.
    """
    number = len(topic.steps)
    ends = (0, *topic.layout.covered.ends)
    reached, end = ends[min(number, PHASES)], ends[min(number + 1, PHASES)]
    borders = [border for border in topic.layout.covered.borders if reached <= border <= end]
    before = _left_by_tierfold(topic, folder / "left") if topic.steps else None
    log = continued_log(before, topic.plain, borders, folder / f"{topic.name}-0")
    return log, reached


def _left_by_tierfold(topic: LeadersTopic, folder: Path) -> Path:
    """The live segments under local names; for an upload, the plain log's segments of its range.

    An upload may begin with batches of the segment before it, which the plain log has only once.
    """
    segments = live_segments(topic.steps[-1].status)
    written = [segment for segment in segments if segment.log.name not in topic.uploaded]
    log = to_local(written, folder / f"{topic.name}-0")
    for segment in segments:
        if segment not in written:
            span = range(segment.start_offset, segment.end_offset + 2)
            borders = [border for border in topic.layout.covered.borders if border in span]
            copy_segments(topic.plain, borders, log)
    return log


def _live_batches(lab: KafkaLab, folder: Path, status: Mapping[str, Any]) -> tuple[Batch, ...]:
    """The batches of the live segments, from each one's effective start on."""
    by_file: dict[str, list[Batch]] = {}
    for batch in lab.batches(folder):
        by_file.setdefault(batch["file"], []).append(batch)
    return tuple(
        batch
        for segment in status["segments"]
        for batch in by_file[Path(segment["log"]).name]
        if batch["lastOffset"] >= segment["start_offset"]
    )


def _live_aborted(side_files: SideFiles, status: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    starts = {Path(segment["log"]).stem: segment["start_offset"] for segment in status["segments"]}
    return aborted_of(
        line
        for line in side_files["txnindex"]
        if line["lastOffset"] >= starts.get(Path(line["file"]).stem, line["lastOffset"] + 1)
    )
