"""Real runs, killed repeatedly at random times; the tier is examined after each kill.

    python -m tests.faults.kills.killed_run --kills 50 --seed 1 --place s3

The tier is in a folder, compacted on Spark, or in a bucket of an S3 emulator, compacted without
Spark; tests may use both engines on one tier. After some kills an undisturbed run finishes the
tier. Its live records must equal those of a tier with a single undisturbed run. Then `vacuum` must
delete what the killed runs left, and nothing live. New tiers follow until all kills are done. A
failure prints how to replay its tier: the planned kills are the same, but what they hit depends on
the machine.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from tests.end_to_end.processes import Application, awaited, started
from tests.faults.kills.killed_checks import Examiner, TierState
from tests.faults.kills.killed_logs import WrittenTier, written_tier
from tests.faults.kills.killed_places import BucketPlace, FolderPlace, Place
from tests.faults.kills.planned_kills import (
    IN_ONE_PROCESS,
    KILLS_PER_ROUND,
    ON_SPARK,
    SURVIVED,
    KillRound,
    PlannedKill,
    Target,
    carried_out,
    planned_kills,
)
from tests.jobs.chunked_logs import live_records
from tests.jobs.commands import ALWAYS, CLOCK, ROOT, tierfold, users_environment
from tests.oracle.kafka_lab import KafkaLab
from tests.storage.emulators import s3, s3_environment
from tierfold.storage.clock import now_ms
from tierfold.storage.tiers.local_tiered_storage import NAMES

SEGMENTS: Final = 12
"""Per partition; every segment is a chunk, so a run has about as many waves and commits."""

SEGMENTS_IN_BUCKET: Final = 6
LARGE_SEGMENTS: Final = 4
"""Of one more partition in a bucket, whose groups are uploaded in several parts."""

OPTIONS: Final = (
    *ALWAYS,
    *("--set", "chunk.bytes=1"),
    *("--set", "segment.bytes=300000"),
    # A person who has killed a run knows that it is dead.
    *("--if-held", "take-over"),
    "--json",
)
DAY_MS: Final = 86_400_000
DONE: Final = frozenset({0})
KILLED: Final = frozenset({-9})
REPORTED: Final = frozenset({2, 3})
"""Exit codes of a driver that lost its JVM: before it began any work, or its partitions failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A kill that was carried out, and the tier before and after it."""

    planned: PlannedKill
    code: int | None
    """The run's exit code, negative for a signal; None: the run went on."""
    before: TierState
    after: TierState

    @property
    def ended(self) -> str:
        """How the run ended."""
        return "went on" if self.code is None else f"exit {self.code}"

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        if self.code is None:
            return (str(self.planned.target), str(self.planned), self.ended)
        before, after = self.before, self.after
        return (
            str(self.planned.target),
            str(self.planned),
            self.ended,
            str(after.versions - before.versions),
            str(after.hidden - before.hidden),
            str(after.orphans - before.orphans),
            " ".join(map(str, after.cleaner_offsets)),
        )


HEADINGS: Final = ("killed", "when", "the run", "commits", "hidden", "orphans", "cleaner offsets")
"""Commits, hidden files and orphans are counted since the previous kill."""


@dataclass(slots=True, kw_only=True)
class KilledTier:
    """One tier and its kills so far."""

    seed: int
    written: WrittenTier
    place: Place
    examiner: Examiner
    folder: Path
    kinds: KillRound
    last: TierState
    run: Application | None = None
    kills: list[Kill] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def kill(self, planned: PlannedKill) -> Kill | None:
        """Kill the current run, or a new one; None: it ended first."""
        run = self.run or self._started(on_spark=planned.on_spark)
        self.run = run
        if not carried_out(planned, run, self.place):
            self._ended(run, expected=DONE)
            return None
        code: int | None = None
        after = self.last
        if planned.target not in SURVIVED:
            code = self._ended(run, expected=REPORTED if planned.target is Target.JVM else KILLED)
            after = self._examined()
        kill = Kill(planned=planned, code=code, before=self.last, after=after)
        self.kills.append(kill)
        self.last = after
        return kill

    def finish(self) -> None:
        """Let a run finish the tier, and compare it with an undisturbed one."""
        run = self.run or self._started(on_spark=Target.ALL in self.kinds.on_spark)
        self._ended(run, expected=DONE)
        self.last = self._examined()
        ends = self.written.end_offsets.values()
        self.violations += [
            f"the last run cleaned until {at}, not {end}"
            for at, end in zip(self.last.cleaner_offsets, ends, strict=True)
            if at != end
        ]
        other = undisturbed(self.folder, self.seed, self.place)
        self.violations += differences(self.written.path, other)
        self.violations += vacuumed(self.place)
        self.place.refresh()
        self.violations += differences(self.written.path, other)

    def _started(self, *, on_spark: bool) -> Application:
        engine = "spark" if on_spark else "local"
        return started_run(self.folder, self.place.uri, "--engine", engine, *self.place.options)

    def _ended(self, run: Application, *, expected: frozenset[int]) -> int:
        ran = run.ended()
        # If only the driver died, the other processes notice that and end.
        awaited("the end of the run's other processes", lambda: None if run.session else True)
        self.run = None
        # PySpark itself prints a traceback if its JVM dies.
        is_clean = expected == REPORTED or "Traceback" not in ran.stderr
        if ran.code not in expected or not is_clean:
            codes = sorted(expected)
            self.violations.append(f"the exit code is {ran.code}, not in {codes}: {ran.stderr}")
        return ran.code

    def _examined(self) -> TierState:
        self.place.refresh()
        found = self.examiner.examined()
        self.violations += found.violations
        return found


def started_run(folder: Path, tier: str | Path, *options: str) -> Application:
    """Start `tierfold compact` on the tier; Spark's temporary files are in `folder`."""
    name = f"run-{len(list(folder.glob('run-*.out'))) + 1}"
    # Longer than the path of a socket may be, so no process can create a socket there.
    scratch = folder / f"scratch-{'long' * 20}"
    scratch.mkdir(exist_ok=True)
    environment = users_environment() | {
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(scratch),
        "SPARK_LOCAL_DIRS": str(scratch),
        "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={scratch}",
    }
    command = (sys.executable, "-m", "tierfold", "compact", tier, *OPTIONS, *options)
    return started(command, folder, name, environment)


def begun(
    folder: Path, seed: int, lab: KafkaLab, kinds: KillRound, endpoint: str | None
) -> KilledTier:
    """Write a tier of this seed in the new folder; with `endpoint`, also upload it there."""
    folder.mkdir()
    written = _written(folder / "tier", seed, in_bucket=endpoint is not None)
    place = FolderPlace(written.path) if endpoint is None else BucketPlace(written.path, endpoint)
    examiner = Examiner(written=written, lab=lab, scratch=folder)
    untouched = TierState(
        versions=0, hidden=0, orphans=0, cleaner_offsets=(0,) * len(written.truth), violations=()
    )
    return KilledTier(
        seed=seed,
        written=written,
        place=place,
        examiner=examiner,
        folder=folder,
        kinds=kinds,
        last=untouched,
    )


def _written(folder: Path, seed: int, *, in_bucket: bool) -> WrittenTier:
    if in_bucket:
        return written_tier(folder, seed, SEGMENTS_IN_BUCKET, large_segments=LARGE_SEGMENTS)
    return written_tier(folder, seed, SEGMENTS)


def undisturbed(folder: Path, seed: int, place: Place) -> Path:
    """Write the same tier into a folder, and compact it with one undisturbed run."""
    tier = _written(folder / "undisturbed", seed, in_bucket=place.in_bucket).path
    ran = tierfold("compact", tier, *OPTIONS)
    assert set(ran.outcomes.values()) == {"compacted"}, ran.stderr
    return tier


def vacuumed(place: Place) -> Iterator[str]:
    """Vacuum a detached tier; yield the violations."""
    later = (CLOCK, str(now_ms() + 30 * DAY_MS), "--orphan-age", "0s")
    ran = tierfold("vacuum", place.uri, "--set", "tier.binding=detached", *later, "--json")
    if ran.code != 0:
        yield f"vacuum ended with {ran.code}: {ran.stderr}"
    status = tierfold("status", place.uri, "--json", "--segments")
    live = {segment["id"] for entry in status.entries for segment in entry["segments"]}
    found = {NAMES.parse(name.rpartition("/")[2]) for name in place.names()}
    there = {name[1] for name in found if name is not None}
    if there != live:
        yield f"after vacuum the tier has the segments {there}, but the live ones are {live}"
    if left := place.uploads():
        yield f"after vacuum the tier has the unfinished uploads {left}"


def differences(tier: Path, other: Path) -> list[str]:
    """Return a sentence for each topic whose live records differ from those of the other tier."""
    found, expected = live_records(tier), live_records(other)
    differing = [topic for topic in expected if found[topic] != expected[topic]]
    return [f"{topic}: the live records differ" for topic in differing]


def killed(
    folder: Path,
    seed: int,
    kills: int,
    lab: KafkaLab,
    kinds: KillRound,
    endpoint: str | None = None,
) -> KilledTier:
    """Apply at most `kills` kills to a tier of this seed and finish it; stops at a violation.

    `endpoint`: the S3 emulator that holds the tier; the environment names it, too.
    """
    killed_tier = begun(folder, seed, lab, kinds, endpoint)
    for planned in islice(planned_kills(seed, kinds), kills):
        kill = killed_tier.kill(planned)
        ended = "the run had ended" if kill is None else kill.ended
        click.echo(f"{planned.target}, {planned}: {ended}")
        if kill is None or killed_tier.violations:
            break
    if not killed_tier.violations:
        killed_tier.finish()
    return killed_tier


def killed_round(
    folder: Path,
    seed: int,
    kills: int,
    lab: KafkaLab,
    kinds: KillRound,
    endpoint: str | None = None,
) -> list[KilledTier]:
    """Apply this many kills to a tier; those after a run that ends first hit another tier."""
    found: list[KilledTier] = []
    while (left := kills - len(kills_of(found))) > 0:
        next_seed = seed + len(found)
        found.append(killed(folder / str(next_seed), next_seed, left, lab, kinds, endpoint))
        if found[-1].violations:
            break
    return found


def kills_of(tiers: Iterable[KilledTier]) -> list[Kill]:
    """All kills of the tiers."""
    return [kill for tier in tiers for kill in tier.kills]



@click.command()
@click.option("--kills", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the first tier.")
@click.option("--place", type=click.Choice(["folder", "s3"]), default="folder", show_default=True)
def soak(kills: int, seed: int, place: str) -> None:
    """Kill `kills` runs; exit code 1 at the first violation."""
    kinds, endpoint = (ON_SPARK, None) if place == "folder" else (IN_ONE_PROCESS, s3())
    os.environ.update({} if endpoint is None else s3_environment(endpoint))
    console = Console()
    done: list[Kill] = []
    folder = Path(tempfile.mkdtemp(prefix="tierfold-killed-"))
    with KafkaLab() as lab:
        while len(done) < kills:
            wanted = min(KILLS_PER_ROUND, kills - len(done))
            console.print(f"tier {seed}: {wanted} kills, {len(done)} done")
            killed_tier = killed(folder / str(seed), seed, wanted, lab, kinds, endpoint)
            done += killed_tier.kills
            if killed_tier.violations:
                console.print(*killed_tier.violations, sep="\n", style="red", markup=False)
                console.print(
                    f"The tier is {killed_tier.written.path}. To replay it:\n"
                    f"python -m tests.faults.kills.killed_run --kills {wanted} --seed {seed}"
                    f" --place {place}"
                )
                sys.exit(1)
            shutil.rmtree(killed_tier.folder)
            seed += 1
    table = Table(*HEADINGS, title=f"{len(done)} kills")
    for kill in done:
        table.add_row(*kill.cells)
    console.print(table)


if __name__ == "__main__":
    soak()
