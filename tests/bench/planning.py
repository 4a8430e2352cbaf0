"""The cost of planning, claiming and committing thousands of partitions, and how it grows.

    python -m tests.bench.planning --partitions 2000 --partitions 20000

The tier is real: every partition has its folder, and every segment all its parts, as hard links to
a few templates. Each step runs in a process of its own, to measure its peak memory. The file
system's cache is warm.
"""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from tests.jobs.tiers import folder_of, made_tier, put_updates
from tierfold.compaction.commits.commit import (
    AdvanceCleanerOffset,
    CommitProposal,
    ReleaseClaim,
    proposed,
)
from tierfold.compaction.discovery.view import state_with_new
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.reports.plan_report import print_reports
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.plan import plan
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.kafka.kafka_uuid import new_segment_id

ROOT: Final = Path(__file__).resolve().parents[2]
PARTITIONS_PER_TOPIC: Final = 10
POLICY: Final = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0")
RUN: Final = "bench"


def put_tier(folder: Path, partitions: int, segments: int) -> None:
    """A tier of so many partitions of so many segments each, of 11 records."""
    template = made_tier(folder / "template")
    source = PartitionKey(topic="template", partition=0, topic_id="T" * 21 + "A")
    for number in range(segments):
        put_updates(template, source, number)
    parts = sorted(folder_of(template, source).iterdir())
    tier = made_tier(folder / "tier")
    for number in range(partitions):
        topic, partition = divmod(number, PARTITIONS_PER_TOPIC)
        digest = hashlib.sha256(str(topic).encode()).digest()[:16]
        topic_id = urlsafe_b64encode(digest).decode().rstrip("=")
        key = PartitionKey(topic=f"topic-{topic:05d}", partition=partition, topic_id=topic_id)
        _link_segments(parts, folder_of(tier, key))


def _link_segments(parts: list[Path], folder: Path) -> None:
    folder.mkdir()
    ids: dict[str, str] = {}
    for part in parts:
        offset, suffix = part.name[:20], part.suffix
        segment_id = ids.setdefault(offset, new_segment_id())
        os.link(part, folder / f"{offset}-{segment_id}{suffix}")


def _claim_all(context: RunContext) -> None:
    """The claim of a run over everything; looking at the partitions is part of it."""
    looked_at = survey(context, resolve(POLICY), Scope())
    rows = [state_with_new(partition.view) for partition in looked_at if partition.view is not None]
    began = _now()
    claims = context.catalog.claim(rows, RUN, at_ms=context.now_ms)
    _tell(began)
    if not all(isinstance(claim.outcome, Committed) for claim in claims.values()):
        raise RuntimeError("a claim was not granted")


def _commit_all(context: RunContext) -> None:
    """The commit of such a run: every partition is clean up to its end."""
    proposals = [_all_clean(row) for row in context.catalog.read().values()]
    began = _now()
    outcomes = context.catalog.commit(proposals)
    _tell(began)
    if not all(isinstance(outcome, Committed) for outcome in outcomes.values()):
        raise RuntimeError("a commit was refused")


def _all_clean(row: PartitionState) -> CommitProposal:
    return proposed(
        row,
        AdvanceCleanerOffset(epoch=row.epoch, offset=row.next_offset),
        ReleaseClaim(run=row.owner_run),
        commit_id=new_commit_id(),
        at_ms=row.committed_at_ms,
    )


def _plan(context: RunContext) -> None:
    """`tierfold plan`, its table included."""
    began = _now()
    reports = plan(context, resolve(POLICY), Scope())
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        print_reports(Console(file=nowhere), reports, "plan")
    _tell(began)


STEPS: Final[tuple[tuple[str, Callable[[RunContext], None]], ...]] = (
    ("plan, first time: every segment is opened", _plan),
    ("claim of all partitions", _claim_all),
    ("plan, all known and dirty: a snapshot each", _plan),
    ("commit of all partitions", _commit_all),
    ("plan, all known and clean: no file opened", _plan),
)


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _tell(began: tuple[float, float]) -> None:
    _TOLD[:] = [after - before for before, after in zip(began, _now(), strict=True)]


_TOLD: Final[list[float]] = []
"""Elapsed and CPU seconds of the step that this process ran."""


def _ran(step: int, tier: str) -> tuple[float, float, float]:
    """In a process of its own: elapsed and CPU seconds, and the peak of memory in MB."""
    _, work = STEPS[step]
    work(run_context(tier, None, None))
    elapsed_s, cpu_s = _TOLD
    return elapsed_s, cpu_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def rows_for(folder: Path, partitions: int, segments: int) -> list[str]:
    """One row of the table per step, for a tier of this size."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    put_tier(folder, partitions, segments)
    rows = []
    for step, (title, _) in enumerate(STEPS):
        pool: Any = ProcessPoolExecutor(1, get_context("spawn"))
        with pool:
            elapsed_s, cpu_s, peak_mb = pool.submit(_ran, step, str(folder / "tier")).result()
        each_ms = cpu_s / partitions * 1000
        rows.append(
            f"| {partitions:,} × {segments} | {title} | {elapsed_s:.2f} | {cpu_s:.2f} |"
            f" {each_ms:.2f} | {peak_mb:.0f} |"
        )
        click.echo(rows[-1])
    shutil.rmtree(folder)
    return rows


@click.command()
@click.option("--partitions", multiple=True, default=(2000,), show_default=True)
@click.option("--segments", default=10, show_default=True, help="Segments of each partition.")
def main(partitions: tuple[int, ...], segments: int) -> None:
    """Print the table of docs/performance.md, "Thousands of partitions"."""
    click.echo("| partitions × segments | step | elapsed s | CPU s | CPU ms each | peak MB |")
    click.echo("|---|---|---|---|---|---|")
    for count in partitions:
        rows_for(ROOT / "build" / "bench" / "planning", count, segments)


if __name__ == "__main__":
    main()
