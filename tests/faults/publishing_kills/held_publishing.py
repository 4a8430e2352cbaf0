"""Runs that publish and are held back at an instant while others go on: late and repeated sends.

    python -m tests.faults.publishing_kills.held_publishing
    python -m tests.faults.publishing_kills.held_publishing --at "before flush 2"

A run is stopped (SIGSTOP) right before a send, between the last check of its age and the socket, or
before a commit. Meanwhile another one takes its partitions over and completes, and perhaps a third
one replaces what was published. Then the first one goes on. Whatever it still sends is refused, or
changes nothing: consumers read the same, brokers have what the rows say, and the next run
completes.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGSTOP
from typing import Final

import click

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import METADATA_TOPIC
from tests.faults.publishing_kills.forked_runs import ForkServer, stopped
from tests.faults.publishing_kills.killed_publishing import FOLDER, KilledTopic, outcomes
from tests.faults.publishing_kills.publishing_instants import Instant
from tests.faults.publishing_kills.served_topic import served_topic
from tests.jobs.commands import Ran
from tierfold.jobs.pipeline.partition_report import FENCED

EXIT_FENCED: Final = 4
EXIT_FAILED: Final = 3
LATE_S: Final = 3.0
"""How long a send is held back that brokers or the run itself find too late."""
TIMEOUT_MS: Final = 2_000

HELD: Final = tuple(
    map(
        Instant.parsed,
        (
            *("before look 1", "before send 1", "before produce 1", "before flush 1"),
            *("after flush 1", "before send 2", "before produce 2", "before flush 2"),
            *("after send 2", "before look 3", "before commit 4"),
        ),
    )
)
"""Of a run with one partition: its first send is flush 1, its second one flush 2."""


def held_back(killed: KilledTopic, at: Instant, meanwhile: Callable[[], object]) -> Ran:
    """A run that is stopped at an instant, and goes on after `meanwhile`."""
    killed.served.add_round()
    run = killed.start(at, SIGSTOP)
    with stopped(run):
        meanwhile()
        killed.served.must_be_published()
    ran = run.ended()
    killed.served.must_read_alike()
    killed.served.must_be_published()
    killed.must_be_completed()
    return ran


def overtaken(killed: KilledTopic, at: Instant) -> Ran:
    """A run that another one overtakes: its late send changes nothing, and it is fenced."""
    ran = held_back(killed, at, killed.must_be_completed)
    assert ran.code == EXIT_FENCED, ran
    assert set(outcomes(ran).values()) == {FENCED}, ran
    return ran


def overtaken_twice(killed: KilledTopic, at: Instant) -> Ran:
    """A run whose replacements are replaced before it goes on."""

    def meanwhile() -> None:
        killed.must_be_completed()
        killed.served.add_round()
        killed.must_be_completed()

    ran = held_back(killed, at, meanwhile)
    assert ran.code == EXIT_FENCED, ran
    return ran


def too_old(killed: KilledTopic, at: Instant) -> Ran:
    """A run that is held back longer than a look is valid: it sends nothing by it."""

    def meanwhile() -> None:
        time.sleep(LATE_S)
        killed.must_be_completed()

    return held_back(killed, at, meanwhile)


def refused_by_brokers(killed: KilledTopic, at: Instant) -> Ran:
    """A run whose records are older than brokers take: a normal stop that says what to do."""

    def meanwhile() -> None:
        killed.must_be_completed()
        time.sleep(LATE_S)

    alter(
        killed.served.kafka, METADATA_TOPIC, {"message.timestamp.before.max.ms": str(TIMEOUT_MS)}
    )
    try:
        ran = held_back(killed, at, meanwhile)
    finally:
        alter(killed.served.kafka, METADATA_TOPIC, {"message.timestamp.before.max.ms": None})
    assert ran.code in {EXIT_FAILED, EXIT_FENCED}, ran
    return ran


def refused_for_policy(killed: KilledTopic, at: Instant) -> Ran:
    """A run between whose sends the metadata topic begins to need keys; then it is set back."""
    kafka = killed.served.kafka
    killed.served.add_round()
    run = killed.start(at, SIGSTOP)
    with stopped(run):
        alter(kafka, METADATA_TOPIC, {"cleanup.policy": "compact"})
    try:
        ran = run.ended()
    finally:
        alter(kafka, METADATA_TOPIC, {"cleanup.policy": "delete"})
    assert ran.code == EXIT_FAILED, ran
    assert "cleanup.policy=delete" in ran.stdout, ran
    killed.served.must_read_alike()
    killed.must_be_completed()
    return ran


@click.command()
@click.option("--at", "instants", multiple=True, help="Only these instants.")
def main(instants: tuple[str, ...]) -> None:
    """Hold runs back at each instant, and print how they ended."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    chosen = tuple(map(Instant.parsed, instants)) or HELD
    with KafkaCluster(FOLDER / "cluster") as kafka, ForkServer() as server:
        with served_topic(kafka, FOLDER / "lasting", "lasting", 1) as served:
            killed = KilledTopic(served=served, server=server, folder=FOLDER / "runs")
            killed.must_be_completed()
            for at in chosen:
                _say("overtaken", at, overtaken(killed, at))
                _say("overtaken twice", at, overtaken_twice(killed, at))
            for at in chosen:
                if at.place == "flush" and not at.is_after:
                    _say("late for brokers", at, refused_by_brokers(killed, at))
                if not at.is_after and at.place in {"look", "send", "flush"}:
                    _say("another policy", at, refused_for_policy(killed, at))
        with served_topic(
            kafka, FOLDER / "brief", "brief", 1, options=brief_looks(FOLDER / "brief.toml")
        ) as served:
            killed = KilledTopic(served=served, server=server, folder=FOLDER / "runs")
            killed.must_be_completed()
            for at in chosen:
                _say("too old", at, too_old(killed, at))
    click.echo("no late send changed anything")


def brief_looks(file: Path) -> tuple[str, ...]:
    """Options of runs whose looks are valid for `TIMEOUT_MS`."""
    file.write_text(f'[cluster]\n"message.timeout.ms" = {TIMEOUT_MS}\n', encoding="utf-8")
    return ("--config", str(file))


def _say(what: str, at: Instant, ran: Ran) -> None:
    reasons = {one["reason"] for one in json.loads(ran.stdout)["partitions"]}
    click.echo(f"{what}, held {at}: exit code {ran.code}: {'; '.join(sorted(reasons))}")


if __name__ == "__main__":
    main()
