"""Play thousands of steps of real verbs beside two real brokers.

    python -m tests.brokers.served_verbs.served_verbs_run --steps 2000 --seed 1

Every 100 steps new topics and a new catalog with the next seed start, on the same brokers. The
first violation ends it with exit code 1, and prints the seed and its last steps.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import click

from tests.brokers.cluster import KafkaCluster
from tests.brokers.served_verbs.served_model import Violation
from tests.brokers.served_verbs.served_moves import SOAK_MOVES, played
from tests.brokers.topics import CALL_S
from tests.brokers.versions import NEWEST

STEPS_PER_SEED: Final = 100


@click.command(help=__doc__)
@click.option("--steps", default=2000, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--version", default=NEWEST, show_default=True)
def main(steps: int, seed: int, version: str) -> None:
    """Play until the steps are done; print what they were."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(Path(folder), version) as kafka:
        kafka.broker(2)
        for number in range(0, steps, STEPS_PER_SEED):
            own = Path(folder) / f"seed-{seed}"
            own.mkdir()
            began = time.monotonic()
            try:
                machine = played(kafka, own, seed, min(STEPS_PER_SEED, steps - number), SOAK_MOVES)
            except Violation as violation:
                click.echo(violation)
                sys.exit(1)
            counts += machine.counts
            done = f"seed {seed}: {min(number + STEPS_PER_SEED, steps)} of {steps} steps"
            click.echo(f"{done}, {time.monotonic() - began:.0f} s")
            # The metadata of topics that no seed looks at would be lost for good.
            admin, names = kafka.admin(), [model.topic.name for model in machine.models]
            for deleted in admin.delete_topics(names).values():
                deleted.result(CALL_S)
            seed += 1
    click.echo(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
