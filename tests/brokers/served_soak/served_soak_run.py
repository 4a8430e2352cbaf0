"""Compacts and publishes topics of real brokers in many situations, on several versions.

    python -m tests.brokers.served_soak.served_soak_run --versions 3.9.2,4.4.0 --rounds 20
    python -m tests.brokers.served_soak.served_soak_run --only rounds-with-new-data --rounds 3
    python -m tests.brokers.served_soak.served_soak_run --only both-policies-under-load --minutes 60

Each version has a cluster for all scenarios, and another one for each that needs settings of its
own. A scenario that fails is shown, the others go on, and the exit code is 1.
"""

from __future__ import annotations

import shutil
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from tests.brokers.cluster import KafkaCluster
from tests.brokers.served_soak.served_situations import SCENARIOS, Scenario
from tests.brokers.served_soak.stage import Stage
from tests.brokers.versions import NEWEST, SOAK
from tests.jobs.commands import ROOT
from tests.oracle.kafka_lab import KafkaLab

FOLDER: Final = ROOT / "build" / "served-soak"


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long scenarios go on."""

    rounds: int
    minutes: float


def soak(version: str, scenarios: Iterable[Scenario], length: Length, folder: Path) -> list[str]:
    """Play scenarios on a version; return the names of those that failed."""
    bound = tuple(int(part) for part in version.split(".")[:2])
    fitting = [one for one in scenarios if one.since <= bound]
    alone = [one for one in fitting if one.settings]
    failed = []
    for group in ([one for one in fitting if not one.settings], *([one] for one in alone)):
        if group:
            failed += _on_a_cluster(version, group, length, folder)
    return failed


def _on_a_cluster(
    version: str, group: Sequence[Scenario], length: Length, folder: Path
) -> list[str]:
    shutil.rmtree(folder, ignore_errors=True)
    failed = []
    settings = group[0].settings
    with KafkaLab(NEWEST) as lab, KafkaCluster(folder / "cluster", version, settings) as kafka:
        for number, scenario in enumerate(group):
            label = f"{version} {scenario.name}"
            stage = Stage(
                kafka=kafka,
                lab=lab,
                folder=folder / f"kept-{number}",
                rounds=length.rounds,
                minutes=length.minutes,
                say=lambda what, label=label: click.echo(f"  {label}: {what}"),
            )
            began_s = time.monotonic()
            try:
                scenario.play(stage)
            except Exception:  # noqa: BLE001 - the others are played all the same
                click.echo(traceback.format_exc())
                failed.append(label)
            outcome = "FAILED" if label in failed else "passed"
            click.echo(f"{label}: {outcome} after {time.monotonic() - began_s:.0f} s")
    return failed


@click.command()
@click.option("--versions", default=",".join((*SOAK, NEWEST)), show_default=True)
@click.option("--only", multiple=True, type=click.Choice([one.name for one in SCENARIOS]))
@click.option("--rounds", default=20, show_default=True, help="Swaps of scenarios that go on.")
@click.option("--minutes", default=5.0, show_default=True, help="Of the scenario under load.")
def main(versions: str, only: Sequence[str], rounds: int, minutes: float) -> None:
    """Play all scenarios on each version, and exit with 1 if one failed."""
    chosen = [one for one in SCENARIOS if not only or one.name in only]
    failed = []
    for version in versions.split(","):
        failed += soak(version, chosen, Length(rounds=rounds, minutes=minutes), FOLDER / version)
    click.echo(f"{len(failed)} failed: {', '.join(failed)}" if failed else "all passed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
