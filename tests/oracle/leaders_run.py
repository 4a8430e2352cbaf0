"""Logs that several leaders upload, compacted four times by tierfold and by Kafka's cleaner.

Each seed is a topic of one tier. Before each of the first three passes uploads arrive
(`two_leaders`) that overlap each other and the compacted segments. Kafka's cleaner gets the same
log without overlap, in the same steps: its result of the last pass, and the new records.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, crc32, expr

from tests.jobs.commands import Ran, tierfold
from tests.oracle.comparators import aborted_of
from tests.oracle.fuzz_run import (
    PASSES_MS,
    compacted,
    date,
    kafka_cleans,
    seeds_of,
)
from tests.oracle.kafka_lab import Batch, KafkaLab, Option, SideFiles
from tests.oracle.recipes import LEGACY_FROM, recipe, uploads_below_stable
from tests.oracle.remote_views import epochs_until, partition_folder, upload
from tests.oracle.two_leaders import BATCHES_LEAST, PHASES, Layout, drawn_layouts
from tierfold.jobs.sources.segment_options import FORMAT
from tierfold.jobs.sources.segment_source import register

SEEDS_VARIABLE: Final = "TIERFOLD_LEADER_SEEDS"
_NATURAL: Final = 2
"""The first passes, which start where the one before ended; later ones clean everything again."""

Row = tuple[int, int | None, str | None, int | None, int | None]
"""A record as Spark reads it: offset, timestamp in ms, key in hex, value's CRC32, leader epoch."""


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
    """The transaction index entries in the effective ranges of the live segments."""
    oracle: Path
    oracle_end: int
    """The first offset that Kafka's pass did not clean; 0: nothing was dirty."""


@dataclass(slots=True, kw_only=True)
class LedTopic:
    """One seed's log, its uploads and its passes."""

    seed: int
    layout: Layout
    replicas: tuple[Path, ...]
    """The log of each leader."""
    plain: Path
    """The log without overlap, uncompacted."""
    folder: Path
    """The partition's folder in the tier."""
    ids: random.Random
    steps: list[Step] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The topic."""
        return f"t{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """All topics, and results for the whole tier."""

    topics: Mapping[int, LedTopic]
    verified: tuple[Ran, ...]
    """The results of `verify`, each time uploads have arrived and after the last pass."""
    left: Mapping[str, tuple[Row, ...]]
    """The records that Spark read after the last pass, by topic with any."""


def seeds() -> tuple[int, ...]:
    """The seeds of `TIERFOLD_LEADER_SEEDS`, or five, and two with legacy batches."""
    return seeds_of(SEEDS_VARIABLE, f"0:4,5:6,{LEGACY_FROM}:{LEGACY_FROM + 2}")


def run_leaders(lab: KafkaLab, spark: SparkSession, folder: Path, wanted: Iterable[int]) -> Led:
    """Make each seed's log, upload all logs to one tier, and take them through the passes."""
    tier = folder / "tier"
    register(spark)
    topics = {seed: _made(lab, folder, tier, seed) for seed in wanted}
    verified = []
    for number, now_ms in enumerate(PASSES_MS):
        for topic in topics.values():
            _arrive(topic, number)
        if number < PHASES:
            verified.append(tierfold("verify", tier, "--json", "--now", str(now_ms)))
        read = _read(spark, tier)
        entries = compacted(tier, number, is_from_start=number >= _NATURAL)
        for topic in topics.values():
            rows = read.get(topic.name, ())
            topic.steps.append(_step(lab, folder, topic, entries[topic.name], rows))
    now = ("--now", str(PASSES_MS[-1]))
    verified.append(tierfold("verify", tier, "--json", "--second-opinion", *now))
    return Led(topics=topics, verified=tuple(verified), left=_read(spark, tier))


def rows_of(batches: Iterable[Batch]) -> tuple[Row, ...]:
    """The records of these batches as a reader returns them: without control records."""
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


def _made(lab: KafkaLab, folder: Path, tier: Path, seed: int) -> LedTopic:
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
    return LedTopic(
        seed=seed,
        layout=layout,
        replicas=tuple(replicas),
        plain=plain,
        folder=partition_folder(tier, name, ids),
        ids=ids,
    )


def _recipe(seed: int) -> dict[str, Option]:
    """The options of the seed's log, with small batches, so that there are enough borders."""
    options = recipe(seed)
    many = {"20:60": "1:20", "1:30": "1:15"}
    options["batch_records"] = many.get(str(options["batch_records"]), options["batch_records"])
    return options


def _boundaries(batches: Sequence[Batch], stable: int) -> list[int]:
    """The offsets at which segments may end; below the last stable offset if enough are.

    Kafka throws if the last batch of a pass is a legacy batch of which nothing survives. The last
    record survives if it has a key.
    """
    ends = [
        batch["lastOffset"] + 1
        for batch in batches
        if batch["magic"] == 2 or batch["records"][-1]["key"] is not None
    ]
    decided = [end for end in ends if end <= stable]
    return [0, *(decided if len(decided) >= BATCHES_LEAST else ends)]


def _has_row_before_gaps(layout: Layout, batches: Sequence[Batch]) -> bool:
    """Whether a pass cleans something before the first upload arrives that leaves a gap.

    Until a run claims a partition it has no row, and then a gap is refused.
    """
    covered, has_row = layout.covered, False
    for end, waiting in zip(covered.ends, covered.waiting, strict=True):
        if waiting and not has_row:
            return False
        has_row = has_row or first_undecided(batches, end) >= covered.borders[1]
    return True


def first_undecided(batches: Sequence[Batch], end: int) -> int:
    """The first offset of the transactions that are open at `end`; `end`: none is open."""
    opened: dict[int, int] = {}
    for batch in batches:
        if batch["lastOffset"] < end and batch["isTransactional"]:
            if batch["isControl"]:
                opened.pop(batch["producerId"], None)
            else:
                opened.setdefault(batch["producerId"], batch["baseOffset"])
    return min(opened.values(), default=end)


def _arrive(topic: LedTopic, phase: int) -> None:
    """Upload the segments of a phase, in their order."""
    for planned in topic.layout.uploads:
        if planned.phase == phase:
            upload(
                topic.replicas[planned.leader],
                topic.folder,
                topic.ids,
                (planned.start, planned.end),
            )


def _read(spark: SparkSession, tier: Path) -> dict[str, tuple[Row, ...]]:
    """The records that Spark reads, by topic with any, in offset order."""
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
    lab: KafkaLab,
    folder: Path,
    topic: LedTopic,
    entries: tuple[Mapping[str, Any], Mapping[str, Any]],
    read: tuple[Row, ...],
) -> Step:
    report, status = entries
    number = len(topic.steps)
    before = topic.steps[-1] if topic.steps else None
    given, reached = _given(topic, folder / f"given-{number}")
    first_dirty = before.oracle_end if before is not None and number < _NATURAL else 0
    if topic.seed >= LEGACY_FROM:
        date(lab, given, first_dirty, PASSES_MS[number])
    oracle = folder / f"oracle-{number}" / f"{topic.name}-0"
    cleaned = kafka_cleans(lab, given, oracle, number, first_dirty)
    new = [batch for batch in lab.batches(given) if batch["baseOffset"] >= reached]
    return Step(
        source=(*(before.found if before is not None else ()), *new),
        read=read,
        report=report,
        status=status,
        found=_live_batches(lab, topic.folder, status),
        aborted=_live_aborted(lab.side_files(topic.folder), status),
        oracle=oracle,
        oracle_end=cleaned["endOffset"],
    )


def _given(topic: LedTopic, folder: Path) -> tuple[Path, int]:
    """The log for Kafka's pass, and the first offset of its new records.

    The log is the result of Kafka's last pass, followed by the plain log's segments up to the end
    of this phase's uploads.
    """
    number = len(topic.steps)
    given = folder / f"{topic.name}-0"
    ends = (0, *topic.layout.covered.ends)
    reached, end = ends[min(number, PHASES)], ends[min(number + 1, PHASES)]
    if topic.steps:
        shutil.copytree(topic.steps[-1].oracle, given)
    else:
        given.mkdir(parents=True)
    borders = [border for border in topic.layout.covered.borders if reached <= border <= end]
    for start, after in pairwise(borders):
        for part in topic.plain.glob(f"{start:020d}.*"):
            shutil.copy2(part, given / part.name)
        shutil.copy2(topic.plain / f"{after:020d}.snapshot", given)
    for suffix in ("log", "index", "timeindex"):
        (given / f"{end:020d}.{suffix}").touch()
    checkpoint = (topic.plain / "leader-epoch-checkpoint").read_text()
    (given / "leader-epoch-checkpoint").write_text(epochs_until(checkpoint, end))
    return given, reached


def _live_batches(lab: KafkaLab, folder: Path, status: Mapping[str, Any]) -> tuple[Batch, ...]:
    """The batches of the live segments, each from its effective start on."""
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
