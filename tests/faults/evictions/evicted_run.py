"""Evicts runs over many partitions again and again; what a run has committed is never done again.

    python -m tests.faults.evictions.evicted_run --partitions 2000 --after 20 --signal TERM
    python -m tests.faults.evictions.evicted_run --partitions 5000 --after 240 --engine spark
    python -m tests.faults.evictions.evicted_run --partitions 2000 --signal KILL --in-bucket

Each run is stopped after `--after` seconds, or at a random instant before that with `--random`,
until one ends by itself. It fails if a partition is compacted twice, or lost, or still claimed
after a signal that a run can answer.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import click

from tests.bench.planning import put_tier
from tests.jobs.commands import ALWAYS, ROOT, script, tierfold, users_environment
from tests.storage.emulators import IDENTITY, new_bucket, versitygw_server
from tierfold.compaction.model.segments import PartitionState
from tierfold.jobs.pipeline.partition_report import COMPACTED
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.runs_table import RunsTable

FOLDER: Final = ROOT / "build" / "evictions"
SIGNALS: Final = {
    "INT": signal.SIGINT,
    "TERM": signal.SIGTERM,
    "KILL": signal.SIGKILL,
}
LOOK_EVERY_S: Final = 0.2
FIRST_SECONDS: Final = 2.0
"""A run that is stopped earlier has not listed the tier yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How runs are stopped."""

    engine: str
    signum: signal.Signals
    after_s: float | None
    """How long a run may work; None: until it has committed a wave."""
    evictions: int = 1000
    """How many runs are stopped at most."""
    rng: random.Random | None = None
    """Chooses an instant below `after_s`; None: always at its end."""

    def is_time(self, worked_s: float, catalog: Path, clean: int) -> bool:
        """Whether a run is stopped that found `clean` compacted partitions."""
        if not self.evictions:
            return False
        if self.after_s is None:
            return len(_clean(_rows(catalog))) > clean
        return worked_s >= self.after_s

    def of_run(self, number: int) -> Schedule:
        """The schedule of a run, with an instant of its own; runs are numbered from 0."""
        after_s, evictions = self.after_s, max(0, self.evictions - number)
        if self.rng is not None and after_s is not None:
            after_s = self.rng.uniform(min(FIRST_SECONDS, after_s), after_s)
        return replace(self, after_s=after_s, evictions=evictions)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictedRun:
    """How one run ended."""

    code: int
    worked_s: float
    outcomes: Counter[str]
    """Empty if the run was killed."""
    clean: frozenset[str]
    """The partitions that are compacted after it."""
    claimed: frozenset[str]
    """Those that a run still holds."""


def evicted_runs(address: str, catalog: Path, schedule: Schedule) -> Iterator[EvictedRun]:
    """Run `compact` until a run ends by itself; yield how each one ended.

    `catalog`: the folder of the tier's catalog. Raises AssertionError if a partition was compacted
    twice, or is claimed after a run that could release it.
    """
    before: frozenset[str] = frozenset()
    claimed: frozenset[str] = frozenset()
    for number in count():
        run = _evicted(address, catalog, schedule.of_run(number), len(before))
        assert before <= run.clean, "a partition is dirty again"
        if run.outcomes:
            assert run.outcomes["compacted"] == len(run.clean - before), run.outcomes
            assert run.outcomes["nothing_to_do"] >= len(before), run.outcomes
            # What a killed run had finished stays claimed until it is dirty again.
            assert run.claimed <= claimed & before, "a run that could release its claims did not"
        before, claimed = run.clean, run.claimed
        yield run
        if run.code == 0:
            return


def _evicted(address: str, catalog: Path, schedule: Schedule, clean: int) -> EvictedRun:
    command = [script("tierfold"), "compact", address, *ALWAYS, "--json"]
    began_s = time.monotonic()
    # A full pipe would stop the run.
    with TemporaryFile() as out, subprocess.Popen(
        # A run that was killed is silent for ten minutes before others take over by themselves.
        [*command, "--engine", schedule.engine, "--if-held", "take-over"],
        stdout=out,
        stderr=subprocess.DEVNULL,
        env=users_environment(),
        start_new_session=True,
    ) as process:
        while process.poll() is None:
            if schedule.is_time(time.monotonic() - began_s, catalog, clean):
                os.killpg(process.pid, schedule.signum)
                break
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_EVERY_S)
        process.wait()
        out.seek(0)
        document = out.read()
    partitions = json.loads(document)["partitions"] if document else []
    rows = _rows(catalog)
    return EvictedRun(
        code=process.returncode,
        worked_s=time.monotonic() - began_s,
        outcomes=Counter(one["outcome"] for one in partitions),
        clean=_clean(rows),
        claimed=frozenset(str(row.key) for row in rows if row.owner_run),
    )


def _clean(rows: Sequence[PartitionState]) -> frozenset[str]:
    return frozenset(str(row.key) for row in rows if row.cleaner_offset == row.next_offset)


def _rows(catalog: Path) -> Sequence[PartitionState]:
    return [*Catalog(str(catalog)).read().values()] if catalog.exists() else []


def check_whole(address: str, catalog: Path, partitions: int) -> None:
    """Check that every partition was compacted once, and is sound."""
    tried = RunsTable(str(catalog)).read()
    done = Counter((row.topic, row.partition) for row in tried if row.outcome == COMPACTED)
    assert set(done.values()) <= {1}, "a partition was compacted twice"
    verified = tierfold("verify", address, "--engine", "local", "--json")
    assert verified.code == 0, verified.stderr
    assert len(verified.partitions) == partitions
    again = tierfold("plan", address, *ALWAYS, "--json")
    assert set(again.outcomes.values()) == {"nothing_to_do"}, Counter(again.outcomes.values())


@contextmanager
def many_partitions(
    folder: Path, partitions: int, segments: int, *, in_bucket: bool = False
) -> Iterator[tuple[str, Path]]:
    """A tier of small partitions: its address, and the folder of its catalog."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    put_tier(folder, partitions, segments)
    tier = folder / "tier"
    if not in_bucket:
        yield str(tier), tier / "_tierfold"
        return
    server = versitygw_server()
    bucket = new_bucket(server.endpoint)
    moved = server.folder / bucket / "tier"
    shutil.move(tier, moved)
    os.environ.update(IDENTITY, AWS_ENDPOINT_URL=server.endpoint)
    yield f"s3://{bucket}/tier", moved / "_tierfold"
    shutil.rmtree(moved)


@click.command()
@click.option("--partitions", default=2000, show_default=True)
@click.option("--segments", default=2, show_default=True)
@click.option("--engine", type=click.Choice(["local", "spark"]), default="local")
@click.option("--signal", "signum", type=click.Choice([*SIGNALS]), default="TERM")
@click.option("--after", "after_s", default=20.0, show_default=True, help="Seconds.")
@click.option("--random", "seed", type=int, help="Seed of the instants before --after.")
@click.option("--in-bucket", is_flag=True, help="On versitygw.")
def main(
    partitions: int,
    segments: int,
    engine: str,
    signum: str,
    after_s: float,
    seed: int | None,
    *,
    in_bucket: bool,
) -> None:
    """Evict runs until one ends by itself, and print what each has done."""
    rng = None if seed is None else random.Random(seed)
    schedule = Schedule(engine=engine, signum=SIGNALS[signum], after_s=after_s, rng=rng)
    place = many_partitions(FOLDER, partitions, segments, in_bucket=in_bucket)
    with place as (address, catalog):
        for number, run in enumerate(evicted_runs(address, catalog, schedule), 1):
            click.echo(
                f"run {number}: exit code {run.code} after {run.worked_s:.0f} s;"
                f" {len(run.clean)} of {partitions} done, {len(run.claimed)} claimed"
            )
        check_whole(address, catalog, partitions)
    click.echo("every partition was compacted once, and is sound")


if __name__ == "__main__":
    main()
