"""The cost of planning, claiming and committing thousands of partitions, and how it grows.

    python -m tests.bench.planning --partitions 2000 --partitions 20000

The tier is real: every partition has a folder, and every segment all its objects, as hard links to
a few files. Each step runs in its own process, to measure its peak memory. The file system's cache
is warm.
"""

from __future__ import annotations

import io
import os
import resource
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from tests.jobs.commands import ROOT
from tests.jobs.tiers import folder_of, key_of, made_tier, updated_tier
from tierfold.compaction.commits.commit import AdvanceCleanerOffset, ReleaseClaim, proposed
from tierfold.compaction.discovery.view import state_with_new
from tierfold.compaction.model.outcomes import Committed
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.reports.plan_report import print_reports
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.plan import plan
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.kafka.kafka_uuid import new_segment_id

PARTITIONS_PER_TOPIC: Final = 10
POLICY: Final = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0")
RUN: Final = "bench"


def put_tier(folder: Path, partitions: int, segments: int) -> None:
    """Make a tier whose partitions have this many segments, of 11 records each."""
    source = key_of("template")
    template = updated_tier(folder / "template", [source], segments)
    parts = sorted(folder_of(template, source).iterdir())
    tier = made_tier(folder / "tier")
    for number in range(partitions):
        topic, partition = divmod(number, PARTITIONS_PER_TOPIC)
        _link_segments(parts, folder_of(tier, key_of(f"topic-{topic:05d}", partition)))


def _link_segments(parts: list[Path], folder: Path) -> None:
    folder.mkdir()
    ids: dict[str, str] = {}
    for part in parts:
        offset, suffix = part.name[:20], part.suffix
        segment_id = ids.setdefault(offset, new_segment_id())
        os.link(part, folder / f"{offset}-{segment_id}{suffix}")


def _claim_all(context: RunContext) -> Callable[[], object]:
    """The claim of a run over all partitions, once it has surveyed them."""
    surveyed = survey(context, resolve(POLICY), Scope())
    rows = [state_with_new(partition.view) for partition in surveyed if partition.view is not None]

    def claim() -> None:
        claims = context.catalog.claim(rows, RUN, at_ms=context.now_ms)
        if not all(isinstance(claim.outcome, Committed) for claim in claims.values()):
            raise RuntimeError("a claim was not granted")

    return claim


def _commit_all(context: RunContext) -> Callable[[], object]:
    """The commit of such a run: every partition is clean up to its end."""
    proposals = [
        proposed(
            row,
            AdvanceCleanerOffset(epoch=row.epoch, offset=row.next_offset),
            ReleaseClaim(run=row.owner_run),
            commit_id=new_commit_id(),
            at_ms=row.committed_at_ms,
        )
        for row in context.catalog.read().values()
    ]

    def commit() -> None:
        outcomes = context.catalog.commit(proposals)
        if not all(isinstance(outcome, Committed) for outcome in outcomes.values()):
            raise RuntimeError("a commit was refused")

    return commit


def _plan(context: RunContext) -> Callable[[], object]:
    """`tierfold plan`, with its table."""

    def planned() -> None:
        reports = plan(context, resolve(POLICY), Scope())
        print_reports(Console(file=io.StringIO()), reports, "plan")

    return planned


STEPS: Final[tuple[tuple[str, Callable[[RunContext], Callable[[], object]]], ...]] = (
    ("plan, first time: every segment is opened", _plan),
    ("claim of all partitions", _claim_all),
    ("plan, all known and dirty: a snapshot each", _plan),
    ("commit of all partitions", _commit_all),
    ("plan, all known and clean: no file opened", _plan),
)


def _ran(step: int, tier: str) -> tuple[float, float, float]:
    """Run a step; its elapsed and CPU seconds, and this process's peak memory in MB."""
    _, prepare = STEPS[step]
    work = prepare(run_context(tier, None, None))
    began_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    elapsed_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    return elapsed_s, cpu_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def rows_for(folder: Path, partitions: int, segments: int) -> list[str]:
    """The rows of the table, one per step, for a tier of this size."""
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
