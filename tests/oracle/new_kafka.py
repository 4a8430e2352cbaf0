"""What a new version of Kafka does otherwise: its cleaner, its cleaner manager and its settings.

    python -m tests.oracle.new_kafka --kafka 4.5.0
    python -m tests.oracle.new_kafka --kafka 4.4.0 --against 4.3.0 --seeds 300:360 --passes 3

Fetches the version's jars, compiles the tools with them, and lists what differs from the version
that tierfold follows. Then tierfold and both cleaners compact the same logs. The exit code is 1 if
the new version leaves something other than tierfold. README.md says what to do then.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.oracle.comparators import aborted_of, equal_logs
from tests.oracle.fuzz_run import LAG_MS, PASSES_MS, FuzzedTopic, run_passes, seeds_in
from tests.oracle.kafka_jars import KafkaLabError
from tests.oracle.kafka_lab import KafkaLab, SelectionCase
from tests.oracle.oracles import VERSIONS_VARIABLE, Oracles, unequal_to_kafka
from tests.oracle.recipes import LEGACY_FROM
from tierfold.compaction.model.kafka_versions import KAFKA_VERSIONS

SEEDS: Final = f"0:40,{LEGACY_FROM}:{LEGACY_FROM + 10}"
AT_ONCE: Final = 10
"""How many logs are in one tier."""
CASES: Final = tuple(
    SelectionCase(checkpoint, PASSES_MS[0], min_lag_ms, max_lag_ms)
    for checkpoint in (-1, 0, 100)
    for min_lag_ms, max_lag_ms in ((0, 2**63 - 1), (LAG_MS, 2**63 - 1), (0, LAG_MS))
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two versions, and print what differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.new_kafka")
    parser.add_argument("--kafka", required=True, help="the new version, such as 4.5.0")
    parser.add_argument("--against", default=KAFKA_VERSIONS[-1], help="default: %(default)s")
    parser.add_argument("--seeds", default=SEEDS, help="default: %(default)s")
    parser.add_argument("--passes", type=int, default=len(PASSES_MS), help="default: %(default)s")
    asked = parser.parse_args(arguments)
    old, new = asked.against, asked.kafka
    _print(f"Kafka {new}, compared with {old}")
    os.environ[VERSIONS_VARIABLE] = "all"
    is_equal = True
    try:
        with Oracles((old, new)) as oracles:
            settings = unequal_settings(oracles.labs[old], oracles.labs[new])
            _print_differences("settings", list(settings))
            for seeds, lag_ms in parts_of(seeds_in(asked.seeds)):
                with tempfile.TemporaryDirectory() as folder:
                    topics = run_passes(
                        oracles, Path(folder), seeds, min_lag_ms=lag_ms, passes=asked.passes
                    )
                    is_equal &= _print_topics(oracles, topics, old, new)
    except KafkaLabError as error:
        sys.exit(str(error))
    _print(f"tierfold leaves what Kafka {new} leaves: {'yes' if is_equal else 'NO'}")
    return 0 if is_equal else 1


def parts_of(seeds: Sequence[int]) -> Iterator[tuple[Sequence[int], int]]:
    """The seeds of each tier, and the `min.compaction.lag.ms` that all its topics have."""
    modern = [seed for seed in seeds if seed < LEGACY_FROM]
    legacy = [seed for seed in seeds if seed >= LEGACY_FROM]
    for part, lag_ms in ((modern, LAG_MS), (legacy, 0)):
        for first in range(0, len(part), AT_ONCE):
            yield part[first : first + AT_ONCE], lag_ms


def _print_topics(
    oracles: Oracles, topics: dict[int, FuzzedTopic], old: str, new: str
) -> bool:
    """Print the differences of some logs; return whether tierfold leaves what `new` leaves."""
    seeds = f"seeds {min(topics)} to {max(topics)}"
    between = [line for topic in topics.values() for line in unequal(oracles, topic, old, new)]
    _print_differences(f"{seeds}: {old} and {new}", between)
    lines: list[str] = []
    for version in (old, new):
        lines = [x for topic in topics.values() for x in of_tierfold(oracles, topic, version)]
        _print_differences(f"{seeds}: tierfold and {version}, KAFKA-20452 aside", lines)
    return not lines


def _print_differences(what: str, lines: Sequence[str]) -> None:
    _print("\n  ".join([f"{what}: {len(lines) or 'no'} differences", *lines]))


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def unequal_settings(old: KafkaLab, new: KafkaLab) -> Iterator[str]:
    """How the topic settings of two versions differ: names, defaults, bounds, brokers' names."""
    before, after = old.known_settings(), new.known_settings()
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{name}: {before.get(name, 'absent')}, now {after.get(name, 'absent')}"


def unequal(oracles: Oracles, topic: FuzzedTopic, old: str, new: str) -> Iterator[str]:
    """How two versions differ over one log: what is due, and what each pass leaves."""
    regions = [oracles.labs[version].select(topic.before, CASES) for version in (old, new)]
    if regions[0] != regions[1]:
        yield f"seed {topic.seed}: regions {regions[0]}, now {regions[1]}"
    for number, done in enumerate(topic.passes, start=1):
        before, after = done.cleaned[old], done.cleaned[new]
        where = f"seed {topic.seed}, pass {number}"
        if (before.end, before.log_end) != (after.end, after.log_end):
            yield f"{where}: the round ended at {before.end}, now at {after.end}"
        for line in equal_logs(before.batches, after.batches):
            yield f"{where}: {line} (the round ends at {after.end}, the log at {after.log_end})"
        listed = [aborted_of(oracles.lab.side_files(c.log)["txnindex"]) for c in (before, after)]
        if listed[0] != listed[1]:
            yield f"{where}: transaction index {listed[0]}, now {listed[1]}"


def of_tierfold(oracles: Oracles, topic: FuzzedTopic, version: str) -> Iterator[str]:
    """How tierfold differs from a version over one log, except as `oracles` describes."""
    source = oracles.lab.batches(topic.before)
    for number, done in enumerate(topic.passes, start=1):
        found = oracles.lab.batches(done.view)
        for line in unequal_to_kafka({version: done.cleaned[version]}, found, source):
            yield f"seed {topic.seed}, pass {number}: {line}"
        source = found


if __name__ == "__main__":
    sys.exit(main())
