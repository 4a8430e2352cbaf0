"""What it costs that a run commits wave by wave: time beside one single wave, catalog bytes.

    python -m tests.bench.waves --partitions 2000 --engine local
    python -m tests.bench.waves --partitions 5000 --engine local --in-bucket
    python -m tests.bench.waves night --partitions 5000 --segments 100

The first compares runs over the same tier, in turn. The second writes a night's claims and commits
without any segment, because 500,000 segments say nothing more about the catalog's bytes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

import click

from tests.bench.measures import in_new_process
from tests.bench.planning import POLICY, put_tier
from tests.compaction.builders import a_segment, a_state
from tests.jobs.commands import ROOT
from tests.jobs.tiers import key_of, made_tier
from tests.storage.emulators import IDENTITY, new_bucket, versitygw_server
from tierfold.compaction.commits.commit import AdvanceCleanerOffset, proposed
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.chunks import UNBOUND
from tierfold.compaction.planning.waves import WaveLimit
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines.engine_choice import in_process, on_spark
from tierfold.jobs.pipeline import run_loop
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.compact import compact
from tierfold.storage.catalog.catalog import Catalog, new_commit_id
from tierfold.storage.catalog.schema import bucket_of
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid

FOLDER: Final = ROOT / "build" / "bench" / "waves"
WHOLE_RUN: Final = WaveLimit(partitions=10**9, work=10**18)


def _compacted(tier: str, engine: str, *, in_one: bool) -> tuple[float, int]:
    """Compact the tier; return the seconds, and how many waves it took."""
    if in_one:
        run_loop.FIRST_WAVE_OF_BYTES = WHOLE_RUN  # type: ignore[misc]
    waves: list[int] = []
    original = run_loop.Waves._pass

    def counted(self: run_loop.Waves, chunks: object, free: object) -> None:
        waves.append(1)
        original(self, chunks, free)  # type: ignore[arg-type]

    run_loop.Waves._pass = counted  # type: ignore[method-assign,assignment]
    executors = on_spark if engine == "spark" else in_process(2**40)
    context = run_context(tier, None, None)
    if engine == "spark":
        on_spark(context, 0)  # The session's start counts for neither.
    began_s = time.perf_counter()
    reports = compact(context, resolve(POLICY), Scope(), UNBOUND, executors)
    took_s = time.perf_counter() - began_s
    if {report.outcome for report in reports} != {"compacted"}:
        raise RuntimeError("a partition was not compacted")
    return took_s, len(waves)


@contextmanager
def _copy(template: Path, name: str, *, has_bucket: bool) -> Iterator[tuple[str, Path]]:
    """A copy of the tier: its address, and the folder of its catalog."""
    if has_bucket:
        server = versitygw_server()
        bucket = new_bucket(server.endpoint)
        folder = server.folder / bucket / "tier"
        os.environ.update(IDENTITY, AWS_ENDPOINT_URL=server.endpoint)
        address = f"s3://{bucket}/tier"
    else:
        folder, address = FOLDER / name, str(FOLDER / name)
    subprocess.run(["cp", "-a" if has_bucket else "-al", template, folder], check=True)
    try:
        yield address, folder / "_tierfold"
    finally:
        shutil.rmtree(folder)


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@click.group(invoke_without_command=True)
@click.option("--partitions", default=2000, show_default=True)
@click.option("--segments", default=2, show_default=True)
@click.option("--engine", type=click.Choice(["local", "spark"]), default="local")
@click.option("--turns", default=3, show_default=True)
@click.option("--in-bucket", "has_bucket", is_flag=True, help="On versitygw.")
@click.pass_context
def main(
    ctx: click.Context, partitions: int, segments: int, engine: str, turns: int, *, has_bucket: bool
) -> None:
    """Compare a run in waves with a run in one wave."""
    if ctx.invoked_subcommand:
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    put_tier(FOLDER, partitions, segments)
    ratios = []
    for turn in range(turns):
        took = {}
        for in_one in (False, True) if turn % 2 else (True, False):
            with _copy(FOLDER / "tier", "copy", has_bucket=has_bucket) as (address, catalog):
                took[in_one], waves = in_new_process(_compacted, address, engine, in_one=in_one)
                size_mb = _bytes_below(catalog) / 1e6
                click.echo(f"{waves} waves: {took[in_one]:.1f} s, catalog {size_mb:.1f} MB")
        ratios.append(took[False] / took[True])
    click.echo(f"ratios {', '.join(f'{one:.3f}' for one in ratios)}; median {median(ratios):.3f}")
    shutil.rmtree(FOLDER)


def _segment(number: int) -> Segment:
    """With an id of its own: equal ones would take no space."""
    return a_segment(100 * number, 100 * number + 99, segment_id=new_kafka_uuid())


@main.command()
@click.option("--partitions", default=5000, show_default=True)
@click.option("--segments", default=100, show_default=True)
@click.option("--per-wave", multiple=True, default=(16, 50, 100, 300, 5000), show_default=True)
def night(partitions: int, segments: int, per_wave: tuple[int, ...]) -> None:
    """Write a night's claims and commits, in waves of so many partitions, by bucket or not."""
    rows = [
        replace(
            a_state([_segment(n) for n in range(segments)]),
            key=key_of(f"topic-{number // 10:05d}", number % 10),
        )
        for number in range(partitions)
    ]
    for count in per_wave:
        for is_sorted in (True, False):
            folder = FOLDER / "night"
            shutil.rmtree(folder, ignore_errors=True)
            context = run_context(str(made_tier(folder)), None, None)
            with HeldPartitions(context=context, verb="compact") as held:  # Their first rows.
                held.claim(rows)
            known = [*Catalog(context.catalog_uri).read().values()]
            before = _bytes_below(folder)
            began_s = time.perf_counter()
            known.sort(key=lambda row: bucket_of(row.key.topic_id) if is_sorted else row.key)
            with HeldPartitions(context=context, verb="compact") as held:
                for wave in (known[i : i + count] for i in range(0, partitions, count)):
                    held.claim(wave, [*held.by_key])
                    held.commit(
                        [
                            proposed(
                                row := held.by_key[one.key].row,
                                AdvanceCleanerOffset(epoch=row.epoch, offset=row.next_offset),
                                commit_id=new_commit_id(),
                                at_ms=context.clock(),
                            )
                            for one in wave
                        ]
                    )
            took_s = time.perf_counter() - began_s
            written_mb = (_bytes_below(folder) - before) / 1e6
            order = "by bucket" if is_sorted else "in another order"
            click.echo(f"{count} a wave, {order}: {written_mb:.0f} MB, {took_s:.1f} s")


if __name__ == "__main__":
    main()
