"""Logs that grow a little between five rounds, compacted by tierfold and by Kafka's cleaners.

Each seed is a topic in two tiers with the same uploads. In the first tier tierfold keeps its key
indexes; in the second they are deleted before every round. Kafka's cleaners get what tierfold left
in the first tier in the round before, followed by the same new segments.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.jobs.commands import CLOCK, Ran, tierfold
from tests.oracle.fuzz_run import Entries, compacted_at, date, seeds_of
from tests.oracle.kafka_lab import Batch, KafkaLab, Option
from tests.oracle.leaders_run import first_undecided
from tests.oracle.oracles import Cleaned, Cleaning, Oracles, newest
from tests.oracle.recipes import FIRST_PASS_MS, LEGACY_FROM, TS_START_MS, recipe
from tests.oracle.remote_views import (
    RemoteSegment,
    continued_log,
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

In the first two rounds no delete horizon has passed. The third is at the horizons that the first
one sets, the fourth a millisecond before those of the second. The fifth is later than all of them.
"""
PRODUCER_EXPIRATION_MS: Final = ROUNDS_MS[2] - TS_START_MS
"""A producer whose records all have the first timestamp expires exactly at the third round."""
SEGMENT_BYTES: Final = 5000
_UPLOAD_BYTES: Final = ((2000, 5000), (4000, 6000), (6000, 8000))
"""Ranges of upload sizes; each seed draws one of them."""
_GROWTH: Final = 0.01
"""The share of all batches that a later round adds, at least."""
_BATCHES_LEAST: Final = 4
"""The same as a number of batches."""

_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": SEGMENT_BYTES,
    "producer.id.expiration.ms": PRODUCER_EXPIRATION_MS,
    "min.cleanable.dirty.ratio": 0,
    "delete.retention.ms": DELETE_RETENTION_MS,
    # High enough that the key indexes are read, too.
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
    """Their batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingRound:
    """One round over one topic."""

    indexed: Outcome
    """In the tier with key indexes."""
    unindexed: Outcome
    """In the tier whose key indexes were deleted before the round."""
    cleaned: Cleaned
    """What Kafka's cleaners left of the same log."""
    source: tuple[Batch, ...]
    """The log before the round: tierfold's last result, and the new batches."""

    @property
    def oracle(self) -> Cleaning:
        """The result of the newest version that cleaned it."""
        return newest(self.cleaned)


@dataclass(slots=True, kw_only=True)
class GrowingTopic:
    """A seed's log and its rounds."""

    seed: int
    log: Path
    """The whole log, uncompacted; its segments are the uploads."""
    borders: tuple[tuple[int, ...], ...]
    """Per round, the borders of its uploads: the first starts where the last round ended."""
    folders: tuple[Path, Path]
    """The partition's folder in each tier."""
    ids: tuple[random.Random, random.Random]
    """They draw the ids of the uploads, the same ones in both tiers."""
    rounds: list[GrowingRound] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The topic."""
        return f"t{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingRun:
    """All topics, and a result for the whole tier."""

    topics: Mapping[int, GrowingTopic]
    verified: Ran
    """The result of `verify` for the tier with key indexes, after the last round."""


def seeds() -> tuple[int, ...]:
    """The seeds of `TIERFOLD_GROWTH_SEEDS`, or six that reach every outcome, one of them legacy."""
    return seeds_of(SEEDS_VARIABLE, f"7:9,16:17,32:33,38:39,{LEGACY_FROM}:{LEGACY_FROM + 1}")


def growing_recipe(seed: int) -> dict[str, Option]:
    """The options of a seed's log: small batches, mostly many keys, no open transaction.

    An open transaction would keep all later records undecided. A legacy log has no tombstones: when
    they may be removed depends on the last clean segment, whose borders may differ from Kafka's. It
    has no keyless records either: Kafka throws if it must empty a legacy batch.
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


def run_rounds(oracles: Oracles, folder: Path, wanted: Iterable[int]) -> GrowingRun:
    """Make each seed's log, upload it to both tiers in five parts, and compact after each part."""
    lab = oracles.lab
    tiers = (folder / "indexed", folder / "unindexed")
    topics = {seed: _made(lab, folder, tiers, seed) for seed in wanted}
    for number in range(len(ROUNDS_MS)):
        for topic in topics.values():
            _arrive(topic, number)
        shutil.rmtree(tiers[1] / CATALOG_FOLDER / FOLDER, ignore_errors=True)
        indexed, unindexed = (compacted_at(tier, ROUNDS_MS[number], _SETTINGS) for tier in tiers)
        for topic in topics.values():
            at = folder / f"round-{number + 1}"
            both = (
                _outcome(lab, at / "indexed", topic, indexed[topic.name]),
                _outcome(lab, at / "unindexed", topic, unindexed[topic.name]),
            )
            topic.rounds.append(_cleaned(oracles, at, topic, both))
    verified = tierfold("verify", tiers[0], "--json", CLOCK, str(ROUNDS_MS[-1]))
    return GrowingRun(topics=topics, verified=verified)


def _made(lab: KafkaLab, folder: Path, tiers: tuple[Path, Path], seed: int) -> GrowingTopic:
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
    return GrowingTopic(
        seed=seed, log=log, borders=borders, folders=(folders[0], folders[1]), ids=ids
    )


def _borders(batches: Sequence[Batch], seed: int) -> tuple[tuple[int, ...], ...]:
    """The borders of each round's uploads; the first round gets all that the others can spare."""
    least = max(_BATCHES_LEAST, round(_GROWTH * len(batches)))
    growths = len(ROUNDS_MS) - 1
    for count in range(len(batches) - growths * least, 0, -least):
        rnd = random.Random(seed)
        grown = _growth_borders(batches, count, least, rnd)
        if grown is not None:
            return (_base_borders(batches[:count], rnd), *grown)
    raise AssertionError(f"seed {seed}: too few transactions are decided for each round to grow")


def _growth_borders(
    batches: Sequence[Batch], count: int, least: int, rnd: random.Random
) -> list[tuple[int, ...]] | None:
    """The borders of later rounds, of at least `least` batches each; None: the log is too short.

    `count`: the number of batches in the first round. Each round adds a segment without undecided
    transactions, because Kafka's cleaner throws if it has nothing to clean.
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
    """The borders of the first round's uploads, with sizes drawn from one range."""
    sizes = rnd.choice(_UPLOAD_BYTES)
    borders, held, limit = [0], 0, rnd.randint(*sizes)
    for batch in batches:
        held += batch["size"]
        if held >= limit:
            borders.append(batch["lastOffset"] + 1)
            held, limit = 0, rnd.randint(*sizes)
    end = batches[-1]["lastOffset"] + 1
    return tuple(borders) if borders[-1] == end else (*borders, end)


def _arrive(topic: GrowingTopic, number: int) -> None:
    """Upload the new segments of a round to both tiers."""
    for folder, ids in zip(topic.folders, topic.ids, strict=True):
        for span in pairwise(topic.borders[number]):
            upload(topic.log, folder, ids, span)


def _outcome(lab: KafkaLab, folder: Path, topic: GrowingTopic, entries: Entries) -> Outcome:
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
    oracles: Oracles, folder: Path, topic: GrowingTopic, both: tuple[Outcome, Outcome]
) -> GrowingRound:
    """Run Kafka's cleaners, from the end of the last round on; return the round."""
    lab, number = oracles.lab, len(topic.rounds)
    first_dirty = topic.rounds[-1].oracle.end if topic.rounds else 0
    borders = topic.borders[number]
    before = topic.rounds[-1].indexed.view if topic.rounds else None
    given = continued_log(before, topic.log, borders, folder / "given" / f"{topic.name}-0")
    if topic.seed >= LEGACY_FROM:
        date(lab, given, first_dirty, ROUNDS_MS[number])
    cleaned = oracles.clean(
        topic.seed,
        given,
        folder / "oracle",
        now_ms=ROUNDS_MS[number],
        first_dirty=first_dirty,
        delete_retention_ms=DELETE_RETENTION_MS,
        segment_bytes=SEGMENT_BYTES,
        producer_expiration_ms=PRODUCER_EXPIRATION_MS,
    )
    found = topic.rounds[-1].indexed.found if topic.rounds else ()
    new = [batch for batch in lab.batches(given) if batch["baseOffset"] >= borders[0]]
    return GrowingRound(
        indexed=both[0],
        unindexed=both[1],
        cleaned=cleaned,
        source=(*found, *new),
    )
