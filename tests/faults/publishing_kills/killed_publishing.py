"""Runs that publish, killed at instants of their publication or at random; the next one completes.

    python -m tests.faults.publishing_kills.killed_publishing --seed 1 --kills 30
    python -m tests.faults.publishing_kills.killed_publishing --every KILL
    python -m tests.faults.publishing_kills.killed_publishing --at "after send 2" --signal TERM

After each one a consumer reads everything from the start, and the next run completes what brokers
lack; what was compacted is not compacted once more. `--every`: at each instant in turn.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from tests.brokers.cluster import KafkaCluster
from tests.faults.publishing_kills.forked_runs import ForkedRun, ForkServer
from tests.faults.publishing_kills.publishing_instants import Instant
from tests.faults.publishing_kills.served_topic import ServedTopic, served_topic
from tests.jobs.commands import ROOT, Ran
from tierfold.jobs.pipeline.partition_report import COMPACTED, NOTHING_TO_DO, PUBLISHED

FOLDER: Final = ROOT / "build" / "publishing-kills"
SIGNALS: Final = {
    "INT": signal.SIGINT,
    "TERM": signal.SIGTERM,
    "KILL": signal.SIGKILL,
}
DONE: Final = frozenset({COMPACTED, PUBLISHED, NOTHING_TO_DO})
PARTITIONS: Final = 6
LONGEST_S: Final = 10.0
"""A run that is killed at random lives no longer."""


@dataclass(slots=True, kw_only=True)
class KilledTopic:
    """A topic whose runs are killed."""

    served: ServedTopic
    server: ForkServer
    folder: Path
    runs: list[ForkedRun] = field(default_factory=list)

    def start(
        self,
        at: Instant | None = None,
        signum: signal.Signals = signal.SIGKILL,
        *more: str | Path,
    ) -> ForkedRun:
        """Start a run; it gets the signal at this instant. `more`: arguments."""
        folder = self.folder / f"{self.served.topic.name}-{len(self.runs)}"
        arguments = (*self.served.compacting, *more)
        run = self.server.started(folder, *arguments, at=at, signum=signum)
        self.runs.append(run)
        return run

    def killed(self, at: Instant, signum: signal.Signals) -> Ran:
        """A run that got a signal at an instant, once readers were seen to read as before."""
        ran = self.start(at, signum).ended()
        self._must_have_ended_by(ran, signum)
        self.served.must_read_alike()
        return ran

    def killed_after(self, worked_s: float, signum: signal.Signals) -> Ran:
        """The same after so many seconds; it may have ended before."""
        run = self.start()
        deadline = time.monotonic() + worked_s
        while time.monotonic() < deadline and not run.has_ended():
            time.sleep(0.01)
        run.signal(signum)
        ran = run.ended()
        if ran.code:
            self._must_have_ended_by(ran, signum)
        self.served.must_read_alike()
        return ran

    def _must_have_ended_by(self, ran: Ran, signum: signal.Signals) -> None:
        if signum is signal.SIGKILL:
            assert ran.code == -signum, ran
            return
        # It raises the default action's exit code, or was stopped before it could take signals.
        assert ran.code in {128 + signum, -signum}, ran
        if ran.code > 0:
            assert not any(row.owner_run for row in self.served.rows.values()), ran

    def must_be_completed(self) -> Ran:
        """A run that completes what the one before left; nothing is compacted once more."""
        done = self.served.done
        ran = self.start().ended()
        assert ran.code == 0, ran
        assert set(outcomes(ran).values()) <= DONE, ran
        for number, live in done.items():
            assert outcomes(ran)[self.served.topic.name, number] != COMPACTED, ran
            assert self.served.rows[number].live_ids == live
        self.served.must_be_published()
        self.served.must_read_alike()
        return ran


def outcomes(ran: Ran) -> dict[tuple[str, int], str]:
    """The outcome of each partition."""
    entries = json.loads(ran.stdout)["partitions"]
    return {(one["topic"], one["partition"]): one["outcome"] for one in entries}


def instants_of(killed: KilledTopic) -> list[Instant]:
    """The instants that an undisturbed run passes.

    The first one publishes a partition alone, and so passes more than any later one.
    """
    killed.must_be_completed()
    killed.served.add_round()
    run = killed.start()
    ran = run.ended()
    assert ran.code == 0, ran
    return run.passed


def kills_at(
    killed: KilledTopic, instants: Sequence[Instant], signum: signal.Signals
) -> Iterator[tuple[Instant, Ran]]:
    """Kill one run at each instant, and let the next one complete."""
    for at in instants:
        killed.served.add_round()
        ran = killed.killed(at, signum)
        killed.must_be_completed()
        yield at, ran


@click.command()
@click.option("--seed", default=1, show_default=True)
@click.option("--kills", default=0, show_default=True, help="At random times.")
@click.option("--every", type=click.Choice([*SIGNALS]), help="At each instant.")
@click.option("--at", "instant", help="Only at this instant.")
@click.option("--signal", "signame", type=click.Choice([*SIGNALS]), default="KILL")
@click.option("--partitions", default=PARTITIONS, show_default=True)
def main(
    seed: int, kills: int, every: str | None, instant: str | None, signame: str, partitions: int
) -> None:
    """Kill runs that publish, and print what each kill hit."""
    rng = random.Random(seed)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with (
        KafkaCluster(FOLDER / "cluster") as kafka,
        ForkServer() as server,
        served_topic(kafka, FOLDER, "orders", partitions) as served,
    ):
        killed = KilledTopic(served=served, server=server, folder=FOLDER / "runs")
        if instant:
            for at, ran in kills_at(killed, [Instant.parsed(instant)], SIGNALS[signame]):
                click.echo(f"{signame} {at}: exit code {ran.code}")
        if every:
            for at, ran in kills_at(killed, instants_of(killed), SIGNALS[every]):
                click.echo(f"{every} {at}: exit code {ran.code}")
        for number in range(1, kills + 1):
            name = rng.choice([*SIGNALS])
            worked_s = rng.uniform(0, LONGEST_S)
            served.add_round()
            ran = killed.killed_after(worked_s, SIGNALS[name])
            where = str(killed.runs[-1].passed[-1:])
            killed.must_be_completed()
            click.echo(f"kill {number}: {name} after {worked_s:.1f} s {where}: {ran.code}")
        killed.must_be_completed()
    click.echo("every run after a kill completed")


if __name__ == "__main__":
    main()
