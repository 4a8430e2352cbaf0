"""Logs that grow: five rounds of tierfold, and of Kafka's cleaner, with new segments between them.

Most of a log is uploaded before the first round, and a few segments before each later one. They
end where no transaction is open, so that every round reaches the end of the upload. Kafka's cleaner
gets its own last result, with the same new segments behind it. A second tier gets the same, but its
key indexes are deleted before each round.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.jobs.commands import tierfold
from tests.oracle.fuzz_run import seeds_of
from tests.oracle.kafka_lab import Batch, KafkaLab, Option
from tests.oracle.recipes import (
    FIRST_PASS_MS,
    RECORDS_MOST,
    TS_START_MS,
    recipe,
)
from tests.oracle.remote_views import (
    RemoteSegment,
    all_segments,
    partition_folder,
    to_local,
    upload,
)
from tierfold.storage.indexes.producer_snapshot import read_producer_snapshot
from tierfold.storage.key_indexes.index_folder import FOLDER
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

SEEDS_VARIABLE: Final = "TIERFOLD_GROWING_SEEDS"
ROUNDS: Final = 5
_FIRST_SHARE: Final = 0.7
"""The share of the segments that is uploaded before the first round."""

_STEP_MS: Final = 700
_DELETE_RETENTION_MS: Final = 1000
"""A delete horizon passes between the second and the third round after the one that set it."""

_SEGMENT_BYTES: Final = 24_000
_EXPIRATION_MS: Final = FIRST_PASS_MS + 3 * _STEP_MS - TS_START_MS
"""Producers of the oldest records expire in the fourth round."""

_LOCAL_SUFFIXES: Final = ("log", "index", "timeindex", "txnindex")
_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": _SEGMENT_BYTES,
    "producer.id.expiration.ms": _EXPIRATION_MS,
    "min.cleanable.dirty.ratio": 0,
    "delete.retention.ms": _DELETE_RETENTION_MS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of a log, by all three."""

    report: Mapping[str, Any]
    """The entry of `tierfold compact --json` with key indexes."""
    before: Sequence[Batch]
    """The log that tierfold got."""
    kafka: Sequence[Batch]
    indexed: Sequence[Batch]
    unindexed: Sequence[Batch]


def seeds() -> tuple[int, ...]:
    """The seeds of `TIERFOLD_GROWING_SEEDS`, or five that skip segments; `make soak` runs 40."""
    return seeds_of(SEEDS_VARIABLE, "12:15,21:22,34:35")


def growing_recipe(seed: int) -> dict[str, Option]:
    """The options of a seed's log: more keys and smaller segments than in one that stays."""
    rnd, options = random.Random(-seed), recipe(seed)
    options.pop("open_txn_at", None)
    more = rnd.randint(RECORDS_MOST - 400, RECORDS_MOST) - int(options["records"])
    if seed % 2:  # It ends near the time of the first round, however long it is.
        options["ts_start"] = int(options["ts_start"]) - more * int(options["ts_step"])
    if options.get("txn"):  # One short transaction at a time: else there is nowhere to cut.
        options |= {"txn": 1, "txn_batches": "1:3"}
    return options | {
        "records": int(options["records"]) + more,
        "keys": rnd.choice([30, 400, 2500]),
        "key_dist": rnd.choice(["uniform", "zipf:1.1", "seq"]),
        "value_size": rnd.choice(["0:40", "20:120"]),
        "batch_records": rnd.choice(["1:4", "1:12"]),
        "segment_bytes": "6k",
        "open_txn": False,
        "null_keys": 0,
    }


def run_rounds(lab: KafkaLab, folder: Path, seed: int) -> list[Round]:
    """Make a seed's log, and take it through its rounds."""
    source = folder / "made" / f"t{seed}-0"
    lab.make(source, **growing_recipe(seed))
    starts = sorted(int(log.stem) for log in source.glob("*.log"))
    ids = random.Random(seed)
    with_indexes, without = folder / "tier", folder / "unindexed"
    remote = partition_folder(with_indexes, source.name, ids)
    oracle: Path | None = None
    rounds: list[Round] = []
    first = 0
    for number, last in enumerate(_cuts(source, starts)):
        for span in pairwise(starts[first : last + 1]):
            upload(source, remote, ids, span)
        copied = without / remote.relative_to(with_indexes)
        copied.mkdir(parents=True, exist_ok=True)
        for path in remote.iterdir():
            if int(path.name[:20]) >= starts[first] and not (copied / path.name).exists():
                shutil.copy2(path, copied)
        shutil.rmtree(without / CATALOG_FOLDER / FOLDER, ignore_errors=True)
        here = folder / f"round-{number}"
        new = [one for one in all_segments(remote, starts[last] - 1) if _is_new(one, starts, first)]
        before = _grown(oracle, new, here / "before" / source.name)
        oracle = here / "kafka" / source.name
        now_ms = FIRST_PASS_MS + number * _STEP_MS
        lab.clean(
            before,
            oracle,
            now_ms=now_ms,
            first_dirty=starts[first],
            delete_retention_ms=_DELETE_RETENTION_MS,
            segment_bytes=_SEGMENT_BYTES,
            producer_expiration_ms=_EXPIRATION_MS,
        )
        report, indexed = _compacted(lab, with_indexes, here / "tierfold" / source.name, now_ms)
        _, unindexed = _compacted(lab, without, here / "unindexed" / source.name, now_ms)
        rounds.append(
            Round(
                report=report,
                before=[
                    *(rounds[-1].indexed if rounds else ()),
                    *(one for one in lab.batches(before) if one["baseOffset"] >= starts[first]),
                ],
                kafka=lab.batches(oracle),
                indexed=indexed,
                unindexed=unindexed,
            )
        )
        first = last
    return rounds


def _cuts(source: Path, starts: Sequence[int]) -> list[int]:
    """Where each round's upload ends: indexes of `starts` at which no transaction is open."""
    stable = [i for i, start in enumerate(starts) if i and not _has_open(source, start)]
    later = [i for i in stable if i >= _FIRST_SHARE * len(starts)]
    # The last cuts are evenly spread; the log's last segment is the active one.
    return sorted({later[round(k * (len(later) - 1) / (ROUNDS - 1))] for k in range(ROUNDS)})


def _has_open(source: Path, end: int) -> bool:
    path = source / f"{end:020d}.snapshot"
    entries = read_producer_snapshot(path.read_bytes(), str(path)) if path.exists() else ()
    return any(entry.current_txn_first_offset is not None for entry in entries)


def _is_new(segment: RemoteSegment, starts: Sequence[int], first: int) -> bool:
    return segment.start_offset >= starts[first]


def _grown(oracle: Path | None, new: Sequence[RemoteSegment], out: Path) -> Path:
    """The last result of Kafka's cleaner with new segments behind it, as a local log."""
    to_local(new, out)
    if oracle is None:
        return out
    for log in oracle.glob("*.log"):
        if int(log.stem) < new[0].start_offset:
            for suffix in _LOCAL_SUFFIXES:
                part = log.with_suffix(f".{suffix}")
                if part.exists():
                    shutil.copy2(part, out)
    return out


def _compacted(
    lab: KafkaLab, tier: Path, view: Path, now_ms: int
) -> tuple[Mapping[str, Any], list[Batch]]:
    """Run one round on a tier; the entry of its document, and the live log."""
    settings = [text for name, value in _SETTINGS.items() for text in ("--set", f"{name}={value}")]
    now = ("--now", str(now_ms), "--json")
    ran, status = tierfold("compact", tier, *settings, *now), tierfold("status", tier, *now)
    assert (ran.code, status.code) == (0, 0), ran
    (report,), (entry,) = ran.entries, status.entries
    live = [
        RemoteSegment(
            start_offset=segment["start_offset"],
            end_offset=segment["end_offset"],
            log=Path(segment["log"]),
        )
        for segment in entry["segments"]
    ]
    return report, lab.batches(to_local(live, view))
