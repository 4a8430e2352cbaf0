"""Runs that publish over a network that is lost and comes back; the next one completes.

    python -m tests.faults.publishing_kills.cut_publishing --seed 1 --cuts 20

Either all connections end, or brokers get what they are sent and their answers are lost. It begins
at an instant of the publication or at random, and lasts until the run has ended, or not so long.
"""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from signal import SIGSTOP
from typing import Final

import click

from tests.faults.publishing_kills.cut_proxy import CutProxy, ProxiedCluster
from tests.faults.publishing_kills.forked_runs import ForkedRun, ForkServer, stopped
from tests.faults.publishing_kills.killed_publishing import (
    DONE,
    FOLDER,
    KilledTopic,
    outcomes,
)
from tests.faults.publishing_kills.publishing_instants import Instant
from tests.faults.publishing_kills.served_topic import served_topic
from tests.jobs.commands import Ran
from tierfold.jobs.pipeline.partition_report import FAILED, LEFT

TIMEOUT_MS: Final = 3_000
LONGEST_S: Final = 8.0
INSTANTS: Final = tuple(
    map(Instant.parsed, ("before look 1", "before send 1", "before flush 1", "before flush 2"))
)
EXIT_USAGE: Final = 2
ALLOWED_CODES: Final = frozenset({0, EXIT_USAGE, 3})
"""Done in spite of it; it could not look at the cluster; its partitions failed."""


def cut_at(killed: KilledTopic, proxy: CutProxy, at: Instant, *, is_lossy: bool) -> Ran:
    """A run without a network from an instant on."""
    killed.served.add_round()
    run = killed.start(at, SIGSTOP)
    with stopped(run):
        _lose(proxy, is_lossy=is_lossy)
    return _ended(killed, proxy, run)


def cut_after(
    killed: KilledTopic, proxy: CutProxy, worked_s: float, lasts_s: float, *, is_lossy: bool
) -> Ran:
    """A run that loses its network after so many seconds, for so long."""
    killed.served.add_round()
    run = killed.start()
    time.sleep(worked_s)
    _lose(proxy, is_lossy=is_lossy)
    time.sleep(lasts_s)
    proxy.restore()
    return _ended(killed, proxy, run)


def _lose(proxy: CutProxy, *, is_lossy: bool) -> None:
    if is_lossy:
        proxy.lose_answers()
    else:
        proxy.cut()


def _ended(killed: KilledTopic, proxy: CutProxy, run: ForkedRun) -> Ran:
    ran = run.ended()
    proxy.restore()
    assert ran.code in ALLOWED_CODES, ran
    if ran.code != EXIT_USAGE:
        assert set(outcomes(ran).values()) <= DONE | {FAILED, LEFT}, ran
    killed.served.must_read_alike()
    killed.must_be_completed()
    return ran


def options_of(file: Path) -> tuple[str, ...]:
    """Options of runs that do not wait long for brokers."""
    lines = ("[cluster]", f'"message.timeout.ms" = {TIMEOUT_MS}', '"request.timeout.ms" = 2000', "")
    file.write_text("\n".join(lines), encoding="utf-8")
    return ("--config", str(file))


@click.command()
@click.option("--seed", default=1, show_default=True)
@click.option("--cuts", default=10, show_default=True, help="At random times.")
def main(seed: int, cuts: int) -> None:
    """Cut the network of runs that publish, and print how they ended."""
    rng = random.Random(seed)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with ProxiedCluster(FOLDER / "cluster") as kafka, ForkServer() as server:
        proxy = kafka.proxy
        assert proxy is not None
        options = options_of(FOLDER / "impatient.toml")
        with proxy, served_topic(
            kafka, FOLDER, "orders", 2, servers=kafka.proxied, options=options
        ) as served:
            killed = KilledTopic(served=served, server=server, folder=FOLDER / "runs")
            killed.must_be_completed()
            for at in INSTANTS:
                for is_lossy in (False, True):
                    ran = cut_at(killed, proxy, at, is_lossy=is_lossy)
                    click.echo(f"{_what(is_lossy=is_lossy)} {at}: exit code {ran.code}")
            for _ in range(cuts):
                worked_s, lasts_s = rng.uniform(0, LONGEST_S), rng.uniform(0, LONGEST_S)
                is_lossy = rng.random() < 1 / 2
                ran = cut_after(killed, proxy, worked_s, lasts_s, is_lossy=is_lossy)
                what = _what(is_lossy=is_lossy)
                when = f"after {worked_s:.1f} s for {lasts_s:.1f} s"
                click.echo(f"{what} {when}: exit code {ran.code} {killed.runs[-2].passed[-1:]}")
    click.echo("every run after a lost network completed")


def _what(*, is_lossy: bool) -> str:
    return "answers lost" if is_lossy else "cut"


if __name__ == "__main__":
    main()
