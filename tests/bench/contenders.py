"""Passes over one log: by Kafka's cleaner in a warm JVM, by tierfold in a warm session."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.logs import SEGMENT_BYTES
from tests.bench.measures import Cost, Stopwatch
from tests.jobs.commands import ROOT
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.remote_views import TIER_FOLDER, to_remote
from tierfold.compaction.commits.receipts import VerifiedParts
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines.engine_choice import Engine, on_spark
from tierfold.jobs.pipeline.partition_report import COMPACTED
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.spark.session import tierfold_session
from tierfold.jobs.verbs.compact import compact
from tierfold.storage.tiers.layout_options import AS_FOUND, LayoutOptions
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.request_counts import Requests

NOW_MS: Final = 1_800_000_000_000
SETTINGS: Final = ("cleanup.policy=compact", f"segment.bytes={SEGMENT_BYTES}")


class PassResult(NamedTuple):
    """What one pass took, read and wrote."""

    cost: Cost
    bytes_in: int
    bytes_out: int
    records_in: int
    records_out: int
    requests: Requests = Requests()
    verified: VerifiedParts = VerifiedParts()


def kafka_pass(lab: KafkaLab, log: Path, scratch: Path) -> PassResult:
    """Run Kafka's `Cleaner.doClean`; the time excludes copying and opening the log."""
    out = scratch / "kafka" / "bench-0"
    done = lab.clean(
        log, out, now_ms=NOW_MS, segment_bytes=SEGMENT_BYTES, dedupe_bytes="128m", link=True
    )
    shutil.rmtree(out)
    return PassResult(
        cost=Cost(elapsed_s=done["elapsedMs"] / 1000, cpu_s=done["processCpuMs"] / 1000),
        bytes_in=done["bytesRead"],
        bytes_out=done["bytesWritten"],
        records_in=done["messagesRead"],
        records_out=done["messagesWritten"],
    )


def tierfold_pass(
    tier: Path | str, engine: Engine = on_spark, layout: LayoutOptions = AS_FOUND
) -> PassResult:
    """Run all of `tierfold compact` on a fresh tier, from listing to commit."""
    with Stopwatch() as watch:
        context = run_context(str(tier), None, NOW_MS, layout=layout)
        reports = compact(context, resolve(SETTINGS), Scope(), engine=engine)
    for report in reports:
        if report.outcome != COMPACTED:
            raise RuntimeError(f"{report.key}: {report.outcome}: {report.reason}")
    return PassResult(
        cost=watch.cost,
        bytes_in=sum(report.bytes_in for report in reports),
        bytes_out=sum(report.bytes_out for report in reports),
        records_in=sum(report.counts.records_in for report in reports),
        records_out=sum(report.counts.kept for report in reports),
        requests=context.requests,
        verified=reports[0].parts_verified,
    )


def kafka_passes(labs: Sequence[KafkaLab], log: Path, scratch: Path, count: int) -> Cost:
    """Clean a log `count` times, spread over concurrent cleaners; return what they took.

    Elapsed: the passes of the slowest cleaner. CPU: all passes.
    """

    def cleaned(number: int) -> list[PassResult]:
        turns = range(number, count, len(labs))
        return [kafka_pass(labs[number], log, scratch / str(number)) for _ in turns]

    with ThreadPoolExecutor(len(labs)) as pool:
        found = list(pool.map(cleaned, range(len(labs))))
    return Cost(
        elapsed_s=max(sum(run.cost.elapsed_s for run in runs) for runs in found),
        cpu_s=sum(run.cost.cpu_s for runs in found for run in runs),
    )


def require_same_records(log: str, passes: Iterable[PassResult]) -> None:
    """Raise RuntimeError if the passes read or kept different numbers of records."""
    counts = {(done.records_in, done.records_out) for done in passes}
    if len(counts) > 1:
        raise RuntimeError(f"{log}: the passes differ in (records read, records kept): {counts}")


def fresh_tier(log: Path, scratch: Path) -> Path:
    """A new tier with the log, made of hard links."""
    tier = scratch / "tier"
    shutil.rmtree(tier, ignore_errors=True)
    source = log.parent / "remote"
    if not source.exists():
        to_remote(log, source, seed=1)
    shutil.copytree(source, tier, copy_function=os.link)
    return tier


def partitions_of(log: Path, scratch: Path, count: int) -> Path:
    """A new tier with `count` partitions, each a copy of the log made of hard links."""
    tier = fresh_tier(log, scratch)
    (first,) = (tier / TIER_FOLDER).iterdir()
    name, _, topic_id = first.name.partition("-0-")
    for number in range(1, count):
        folder = first.with_name(f"{name}-{number}-{topic_id}")
        shutil.copytree(first, folder, copy_function=os.link)
    return tier


def session_start(scratch: Path) -> Cost:
    """Compact the sample; the time includes starting the session, its workers and the kernels."""
    tier = scratch / "sample"
    shutil.rmtree(tier, ignore_errors=True)
    shutil.copytree(ROOT / "sample", tier)
    with Stopwatch() as watch:
        tierfold_session()
        tierfold_pass(tier)
    return watch.cost


def plain_io_s(tier: Path, bytes_out: int) -> float:
    """The seconds to read the input once and write the output once, with the store's calls."""
    store = LocalStore(tier)
    keys = [path.relative_to(tier).as_posix() for path in tier.rglob("*.log")]
    largest = max(keys, key=lambda key: (tier / key).stat().st_size)
    with Stopwatch() as watch:
        for key in keys:
            store.read(key)[::4096].sum()
        data = store.read(largest)
        for number, written in enumerate(range(0, bytes_out, len(data))):
            store.create(f"plain-{number}", data[: bytes_out - written])
    return watch.cost.elapsed_s
