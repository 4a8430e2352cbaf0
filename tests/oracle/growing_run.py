"""Logs that grow a little between five rounds, compacted by tierfold and by Kafka's cleaner.

Each seed is a topic in two tiers with the same uploads. In the first tier tierfold keeps its key
indexes; in the second they are deleted before every round. Kafka's cleaner gets its own result of
the last round, followed by the same new segments.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.jobs.commands import Ran, tierfold
from tests.oracle.fuzz_run import date, seeds_of
from tests.oracle.kafka_lab import Batch, KafkaLab, Option
from tests.oracle.leaders_run import first_undecided
from tests.oracle.recipes import FIRST_PASS_MS, LEGACY_FROM, TS_START_MS, recipe
from tests.oracle.remote_views import (
    RemoteSegment,
    epochs_until,
    live_segments,
    partition_folder,
    to_local,
    upload,
)
from tierfold.storage.key_indexes.index_folder import FOLDER
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

SEEDS_VARIABLE: Final = "TIERFOLD_GROWTH_SEEDS"
DELETE_RETENTION_MS: Final = 1000
ROUNDS_MS: Final = tuple(FIRST_PASS_MS + at_ms for at_ms in (0, 400, 1000, 1399, 3000))
"""The clock of each round.

No horizon passes before the second one. The third is at those of the first. The fourth is a
millisecond before those of the second. The fifth is later than all of them.
"""
PRODUCER_EXPIRATION_MS: Final = ROUNDS_MS[2] - TS_START_MS
"""Producers whose records all have the first timestamp expire exactly at the third round."""
SEGMENT_BYTES: Final = 5000
_UPLOAD_BYTES: Final = ((2000, 5000), (4000, 6000), (6000, 8000))
"""Sizes of uploads, the least and the most; each seed draws one range."""
_GROWTH: Final = 0.01
_BATCHES_LEAST: Final = 4
"""Batches that are new in a round."""

_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": SEGMENT_BYTES,
    "producer.id.expiration.ms": PRODUCER_EXPIRATION_MS,
    "min.cleanable.dirty.ratio": 0,
    "delete.retention.ms": DELETE_RETENTION_MS,
    # So often wrong that key indexes are asked, too.
    "bloom.filter.fpp": "0.1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A partition in one of the tiers, after a round."""

    report: Mapping[str, Any]
    """Its entry of `tierfold compact --json`."""
    status: Mapping[str, Any]
    """Its entry of `tierfold status --json`."""
    segments: tuple[RemoteSegment, ...]
    view: Path
    """The live segments under local names."""
    found: tuple[Batch, ...]
    """The batches of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownRound:
    """One round over one topic."""

    indexed: Outcome
    """In the tier with key indexes."""
    unindexed: Outcome
    """In the tier whose key indexes were deleted before the round."""
    given: Path
    """The log for Kafka's round."""
    oracle: Path
    """The log that Kafka's cleaner left."""
    oracle_end: int
    """The first offset that Kafka's round did not clean."""
    producers: frozenset[int]
    """The ids of the producers that are active for Kafka."""
    source: tuple[Batch, ...]
    """The log before the round: tierfold's last result, and the new batches."""
    expected: tuple[Batch, ...]
    """What Kafka's cleaner left."""


@dataclass(slots=True, kw_only=True)
class GrownTopic:
    """One seed's log and its rounds."""

    seed: int
    log: Path
    """The whole log, uncompacted, with a segment border where an upload ends."""
    borders: tuple[tuple[int, ...], ...]
    """For each round the borders of its uploads, from the end of the last one to its own."""
    folders: tuple[Path, Path]
    """The partition's folder in either tier."""
    ids: tuple[random.Random, random.Random]
    """They draw the ids of its uploads, the same ones in both tiers."""
    rounds: list[GrownRound] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The topic."""
        return f"t{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """All topics, and the result for the whole tier."""

    topics: Mapping[int, GrownTopic]
    verified: Ran
    """The result of `verify` for the tier with key indexes, after the last round."""


def seeds() -> tuple[int, ...]:
    """The seeds of `TIERFOLD_GROWTH_SEEDS`, or six that reach each outcome, one of them legacy."""
    return seeds_of(SEEDS_VARIABLE, f"7:9,16:17,32:33,38:39,{LEGACY_FROM}:{LEGACY_FROM + 1}")


def growing_recipe(seed: int) -> dict[str, Option]:
    """The options of a seed's log: small batches, in most logs many keys, no open transaction.

    An open transaction would hold back all growth. The age of a legacy tombstone depends on the
    last clean segment, whose borders may differ; so a legacy log has none. Nor has it records
    without a key, since Kafka throws if it must empty a legacy batch.
    """
    rnd = random.Random(seed + 0.5)
    options = recipe(seed)
    changed: dict[str, Option] = {
        "records": rnd.randint(500, 1100),
        "batch_records": rnd.choice(["1:4", "1:6", "1:10"]),
        "keys": rnd.choice([40, 400, 1500, 6000, 6000]),
        "key_dist": rnd.choice(["uniform", "uniform", "seq", "zipf:1.1"]),
        "tombstones": rnd.choice([0, 0.01, 0.1]),
        "empty_batches": rnd.choice([0, 0.03, 0.08]),
        "open_txn": False,
    }
    if seed >= LEGACY_FROM:
        changed |= {"tombstones": 0, "null_keys": 0, "empty_batches": options["empty_batches"]}
    if options.get("txn"):
        changed["txn_batches"] = rnd.choice(["1:1", "1:3"])
    options.pop("open_txn_at", None)
    span_ms = int(str(changed["records"])) * int(str(options["ts_step"]))
    if options["ts_start"] != TS_START_MS:
        changed["ts_start"] = FIRST_PASS_MS - span_ms
    return options | changed


def run_rounds(lab: KafkaLab, folder: Path, wanted: Iterable[int]) -> Grown:
    """Make each seed's log, upload it bit by bit to both tiers, and compact it in five rounds."""
    tiers = (folder / "indexed", folder / "unindexed")
    topics = {seed: _made(lab, folder, tiers, seed) for seed in wanted}
    for number in range(len(ROUNDS_MS)):
        for topic in topics.values():
            _arrive(topic, number)
        shutil.rmtree(tiers[1] / CATALOG_FOLDER / FOLDER, ignore_errors=True)
        indexed, unindexed = (_compacted(tier, number) for tier in tiers)
        for topic in topics.values():
            at = folder / f"round-{number + 1}"
            both = (
                _outcome(lab, at / "indexed", topic, indexed[topic.name]),
                _outcome(lab, at / "unindexed", topic, unindexed[topic.name]),
            )
            topic.rounds.append(_cleaned(lab, at, topic, both))
    verified = tierfold("verify", tiers[0], "--json", "--now", str(ROUNDS_MS[-1]))
    return Grown(topics=topics, verified=verified)


def _made(lab: KafkaLab, folder: Path, tiers: tuple[Path, Path], seed: int) -> GrownTopic:
    name = f"t{seed}-0"
    source = folder / "made" / name
    lab.make(source, **growing_recipe(seed))
    borders = _borders(lab.batches(source), seed)
    log = folder / "log" / name
    lab.replicate(source, log, roll_at={border for of_one in borders for border in of_one})
    ids = (random.Random(seed), random.Random(seed))
    folders = tuple(
        partition_folder(tier, name, own) for tier, own in zip(tiers, ids, strict=True)
    )
    return GrownTopic(
        seed=seed, log=log, borders=borders, folders=(folders[0], folders[1]), ids=ids
    )


def _borders(batches: Sequence[Batch], seed: int) -> tuple[tuple[int, ...], ...]:
    """The borders of each round's uploads; the first round gets as much as leaves enough."""
    least = max(_BATCHES_LEAST, round(_GROWTH * len(batches)))
    growths = len(ROUNDS_MS) - 1
    for count in range(len(batches) - growths * least, 0, -least):
        rnd = random.Random(seed)
        grown = _growth_borders(batches, count, least, rnd)
        if grown is not None:
            return (_base_borders(batches[:count], rnd), *grown)
    raise AssertionError(f"seed {seed} decides too few transactions")


def _growth_borders(
    batches: Sequence[Batch], count: int, least: int, rnd: random.Random
) -> list[tuple[int, ...]] | None:
    """The borders of later uploads, `least` batches or more each; None: the log is too short.

    `count`: how many batches the first round has. Each round has a new segment that is decided,
    because Kafka's cleaner throws if it has nothing to clean.
    """
    grown: list[tuple[int, ...]] = []
    for _ in ROUNDS_MS[1:]:
        known = first_undecided(batches, _end(batches, count))
        middle, more = count + rnd.randint(1, least - 1), least
        while True:
            if count + more > len(batches):
                return None
            borders = tuple(_end(batches, at) for at in (count, middle, count + more))
            undecided = first_undecided(batches, borders[-1])
            if any(known < border <= undecided for border in borders):
                break
            more += 1
        grown.append(borders)
        count += more
    return grown


def _end(batches: Sequence[Batch], count: int) -> int:
    """The offset after the first `count` batches."""
    return int(batches[count - 1]["lastOffset"]) + 1


def _base_borders(batches: Sequence[Batch], rnd: random.Random) -> tuple[int, ...]:
    """The borders of the first round's uploads, of sizes around those of one range."""
    sizes = rnd.choice(_UPLOAD_BYTES)
    borders, held, limit = [0], 0, rnd.randint(*sizes)
    for batch in batches:
        held += batch["size"]
        if held >= limit:
            borders.append(batch["lastOffset"] + 1)
            held, limit = 0, rnd.randint(*sizes)
    end = batches[-1]["lastOffset"] + 1
    return tuple(borders) if borders[-1] == end else (*borders, end)


def _arrive(topic: GrownTopic, number: int) -> None:
    """Upload the new segments of a round to both tiers."""
    for folder, ids in zip(topic.folders, topic.ids, strict=True):
        for span in pairwise(topic.borders[number]):
            upload(topic.log, folder, ids, span)


def _compacted(
    tier: Path, number: int
) -> dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Run a round (from 0 on); the entries of `compact` and then `status`, by topic."""
    now = ("--now", str(ROUNDS_MS[number]))
    settings = [text for name, value in _SETTINGS.items() for text in ("--set", f"{name}={value}")]
    entries = []
    for command in (("compact", *settings), ("status",)):
        ran = tierfold(command[0], tier, "--json", *now, *command[1:])
        assert ran.code == 0, f"{command[0]}: {ran.stdout[-4000:]}\n{ran.stderr[-4000:]}"
        entries.append({entry["topic"]: entry for entry in ran.entries})
    reports, statuses = entries
    return {topic: (reports[topic], status) for topic, status in statuses.items()}


def _outcome(
    lab: KafkaLab,
    folder: Path,
    topic: GrownTopic,
    entries: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> Outcome:
    report, status = entries
    segments = live_segments(status)
    view = to_local(segments, folder / f"{topic.name}-0")
    return Outcome(
        report=report,
        status=status,
        segments=segments,
        view=view,
        found=tuple(lab.batches(view)),
    )


def _cleaned(
    lab: KafkaLab, folder: Path, topic: GrownTopic, both: tuple[Outcome, Outcome]
) -> GrownRound:
    """The round, with Kafka's result; Kafka continues where its last round ended."""
    number = len(topic.rounds)
    first_dirty = topic.rounds[-1].oracle_end if topic.rounds else 0
    given = _given(topic, folder / "given")
    if topic.seed >= LEGACY_FROM:
        date(lab, given, first_dirty, ROUNDS_MS[number])
    oracle = folder / "oracle" / f"{topic.name}-0"
    cleaned = lab.clean(
        given,
        oracle,
        now_ms=ROUNDS_MS[number],
        first_dirty=first_dirty,
        delete_retention_ms=DELETE_RETENTION_MS,
        segment_bytes=SEGMENT_BYTES,
        producer_expiration_ms=PRODUCER_EXPIRATION_MS,
    )
    start = topic.borders[number][0]
    before = topic.rounds[-1].indexed.found if topic.rounds else ()
    new = [batch for batch in lab.batches(given) if batch["baseOffset"] >= start]
    return GrownRound(
        indexed=both[0],
        unindexed=both[1],
        given=given,
        oracle=oracle,
        oracle_end=cleaned["endOffset"],
        producers=frozenset(producer["producerId"] for producer in cleaned["producers"]),
        source=(*before, *new),
        expected=tuple(lab.batches(oracle)),
    )


def _given(topic: GrownTopic, folder: Path) -> Path:
    """The log for Kafka's round: its last result, followed by the new segments."""
    given = folder / f"{topic.name}-0"
    borders = topic.borders[len(topic.rounds)]
    if topic.rounds:
        shutil.copytree(topic.rounds[-1].oracle, given)
    else:
        given.mkdir(parents=True)
    for start, after in pairwise(borders):
        for part in topic.log.glob(f"{start:020d}.*"):
            shutil.copy2(part, given / part.name)
        shutil.copy2(topic.log / f"{after:020d}.snapshot", given)
    end = borders[-1]
    for suffix in ("log", "index", "timeindex"):
        (given / f"{end:020d}.{suffix}").touch()
    checkpoint = (topic.log / "leader-epoch-checkpoint").read_text()
    (given / "leader-epoch-checkpoint").write_text(epochs_until(checkpoint, end))
    return given
