"""The cost of planning, claiming and committing thousands of partitions, and how it grows.

    python -m tests.bench.planning --partitions 2000 --partitions 20000
    python -m tests.bench.planning --partitions 5000 --segments 4 --in-bucket

Every partition has a folder, and every segment all its objects: hard links to a few files. Each
step runs in its own process, so that its peak memory can be measured. The file system's cache is
warm. `--in-bucket` also plans the same tier in a bucket of versitygw, behind a proxy that counts
requests.
"""

from __future__ import annotations

import io
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import click
from rich.console import Console

from tests.bench.measures import in_new_process
from tests.jobs.commands import ROOT
from tests.jobs.tiers import folder_of, key_of, made_tier, updated_tier
from tests.storage.emulators import IDENTITY, new_bucket, versitygw_server
from tests.storage.s3_proxy import proxied
from tierfold.compaction.commits.commit import AdvanceCleanerOffset, ReleaseClaim, proposed
from tierfold.compaction.discovery.view import state_with_new
from tierfold.compaction.model.outcomes import Committed
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.partition_report import NOTHING_TO_DO
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.reports.plan_report import PlanResult
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.plan import plan
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER
from tierfold.storage.tiers.request_counts import Requests

PARTITIONS_PER_TOPIC: Final = 10
LINKS_MAX: Final = 50_000
"""Links to one file; ext4 allows 65,000."""
POLICY: Final = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0")
RUN: Final = "bench"


def put_tier(folder: Path, partitions: int, segments: int) -> None:
    """Make a tier of `partitions` with `segments` each, of 11 records."""
    source = key_of("template")
    template = updated_tier(folder / "template", [source], segments)
    parts = sorted(folder_of(template, source).iterdir())
    tier = made_tier(folder / "tier")
    for number in range(partitions):
        if number and number % LINKS_MAX == 0:
            parts = _copied(parts, folder / f"template-{number}")
        topic, partition = divmod(number, PARTITIONS_PER_TOPIC)
        _link_segments(parts, folder_of(tier, key_of(f"topic-{topic:05d}", partition)))


def _copied(parts: list[Path], folder: Path) -> list[Path]:
    """Copies of the files, which have no other links yet."""
    folder.mkdir()
    return [Path(shutil.copy2(part, folder / part.name)) for part in parts]


def _link_segments(parts: list[Path], folder: Path) -> None:
    folder.mkdir()
    ids: dict[str, str] = {}
    for part in parts:
        offset, suffix = part.name[:20], part.suffix
        segment_id = ids.setdefault(offset, new_kafka_uuid())
        os.link(part, folder / f"{offset}-{segment_id}{suffix}")


def _claim_all(context: RunContext) -> Callable[[], object]:
    """Survey all partitions; return the claim of all of them."""
    surveyed = survey(context, resolve(POLICY), Scope())
    rows = [state_with_new(partition.view) for partition in surveyed if partition.view is not None]

    def claim() -> None:
        claims = context.catalog.claim(rows, RUN, at_ms=context.now_ms)
        if not all(isinstance(claim.outcome, Committed) for claim in claims.values()):
            raise RuntimeError("a claim was not granted")

    return claim


def _commit_all(context: RunContext) -> Callable[[], object]:
    """Return the commit of a run after which every partition is clean up to its end."""
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
    """Return `tierfold plan`, with its table."""

    def planned() -> None:
        reports = plan(context, resolve(POLICY), Scope())
        result = PlanResult(tier="tier", partitions=tuple(reports))
        result.print_tables(Console(file=io.StringIO()))

    return planned


STEPS: Final[tuple[tuple[str, Callable[[RunContext], Callable[[], object]]], ...]] = (
    ("plan, first time: every segment is opened", _plan),
    ("claim of all partitions", _claim_all),
    ("plan, all known and dirty: a snapshot each", _plan),
    ("commit of all partitions", _commit_all),
    ("plan, all known and clean: no file opened", _plan),
)


class Took(NamedTuple):
    """What a step took."""

    elapsed_s: float
    cpu_s: float
    peak_mb: float
    """The peak memory of the process."""


def _timed(step: Callable[[], object]) -> Took:
    began_s, cpu_s = time.perf_counter(), time.process_time()
    step()
    elapsed_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return Took(elapsed_s, cpu_s, peak_mb)


def _timed_step(number: int, tier: str) -> Took:
    _, prepared = STEPS[number]
    return _timed(prepared(run_context(tier, None, None)))


def _planned_in_bucket(tier: str, catalog: str) -> tuple[Took, Requests]:
    """Plan an unchanged tier; return what it took, and the requests."""
    context = run_context(tier, catalog, None)
    outcomes: set[str] = set()

    def planned() -> None:
        outcomes.update(report.outcome for report in plan(context, resolve(POLICY), Scope()))

    took = _timed(planned)
    if outcomes != {NOTHING_TO_DO}:
        raise RuntimeError(f"the tier has changed: {outcomes}")
    return took, context.requests


def in_bucket(tier: Path) -> str:
    """Move a tier's objects, but not its catalog, to a bucket, and plan; return a line about it.

    So every request that the proxy counts concerns the tier. Raises RuntimeError if its counts
    differ from tierfold's, or if there is any request but listings.
    """
    server = versitygw_server()
    bucket = new_bucket(server.endpoint)
    objects = server.folder / bucket / "tier" / TIER_FOLDER
    objects.parent.mkdir()
    shutil.move(tier / TIER_FOLDER, objects)
    count = sum(len(files) for _, _, files in os.walk(objects))
    with proxied(server.endpoint) as (proxy, endpoint):
        os.environ.update(IDENTITY, AWS_ENDPOINT_URL=endpoint)
        took, requests = in_new_process(
            _planned_in_bucket, f"s3://{bucket}/tier", str(tier / CATALOG_FOLDER)
        )
    shutil.rmtree(server.folder / bucket)
    if proxy.counts != {"lists": requests.lists} or requests.total != requests.lists:
        raise RuntimeError(f"the proxy counted {proxy.counts}, tierfold {requests}")
    return (
        f"{count:,} objects: {requests.total} requests, all of them listings;"
        f" {took.elapsed_s:.2f} s, {took.cpu_s:.2f} CPU s, {took.peak_mb:.0f} MB"
    )


def print_rows(folder: Path, partitions: int, segments: int, *, has_bucket: bool) -> None:
    """Print the rows of the table, one per step, for a tier of this size."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    put_tier(folder, partitions, segments)
    for number, (title, _) in enumerate(STEPS):
        took = in_new_process(_timed_step, number, str(folder / "tier"))
        each_ms = took.cpu_s / partitions * 1000
        click.echo(
            f"| {partitions:,} × {segments} | {title} | {took.elapsed_s:.2f} | {took.cpu_s:.2f} |"
            f" {each_ms:.2f} | {took.peak_mb:.0f} |"
        )
    if has_bucket:
        click.echo(in_bucket(folder / "tier"))
    shutil.rmtree(folder)


@click.command()
@click.option("--partitions", multiple=True, default=(2000,), show_default=True)
@click.option("--segments", default=10, show_default=True, help="Segments of each partition.")
@click.option("--in-bucket", "has_bucket", is_flag=True, help="Plan on versitygw too.")
def main(partitions: tuple[int, ...], segments: int, *, has_bucket: bool) -> None:
    """Print the table of docs/performance.md, "Thousands of partitions"."""
    click.echo("| partitions × segments | step | elapsed s | CPU s | CPU ms each | peak MB |")
    click.echo("|---|---|---|---|---|---|")
    for count in partitions:
        folder = ROOT / "build" / "bench" / "planning"
        print_rows(folder, count, segments, has_bucket=has_bucket)


if __name__ == "__main__":
    main()
