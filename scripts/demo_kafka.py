"""Starts a real Kafka broker, lets it tier a keyed topic, and shows both: `make demo-kafka`.

    python -m scripts.demo_kafka build/demo-kafka

The first run fetches the broker's jars (50 MB, from Maven Central). The broker listens on loopback,
and ends with the demo; the tier and the broker's log stay in the folder.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.brokers.broker import BrokerFailed
from tests.brokers.cluster import KafkaCluster
from tests.brokers.versions import WITHOUT_COMPILER
from tests.oracle.kafka_jars import KafkaLabError, has_jars
from tierfold.compaction.model.wording import spaced

_SEGMENTS = 5
_RECORDS = 4_000
_KEYS = 1_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Empty the folder first; the exit code is that of the last command, or 1."""
    (folder,) = map(Path, sys.argv[1:] if arguments is None else arguments)
    shutil.rmtree(folder, ignore_errors=True)
    if not has_jars(WITHOUT_COMPILER):
        _say(f"Fetching the jars of Kafka {WITHOUT_COMPILER} from Maven Central, about a minute")
    try:
        with KafkaCluster(folder, WITHOUT_COMPILER) as kafka:
            return shown(kafka)
    except (KafkaLabError, BrokerFailed) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def shown(kafka: KafkaCluster) -> int:
    """Fill a topic of the cluster and run the commands; return the exit code of the last one."""
    _say(f"A broker of Kafka {kafka.version} listens at {kafka.servers}.")
    _say(f"Its log is {kafka.brokers[0].log}")
    topic = kafka.create("orders")
    for turn in range(_SEGMENTS):
        numbers = range(turn * _RECORDS, (turn + 1) * _RECORDS)
        topic.append([(b"customer-%d" % (n % _KEYS), b"order %d" % n) for n in numbers])
    topic.wait_until_tiered()
    written, uploaded = spaced(_SEGMENTS * _RECORDS), len(topic.logs())
    _say(f"\nTopic orders: {written} records of {spaced(_KEYS)} keys, {uploaded} segments uploaded")
    _say(f"The tier is in {kafka.tier}")
    return _run("status", str(kafka.tier), "--bootstrap-server", kafka.servers)


def _run(*arguments: str) -> int:
    _say(f"\n$ tierfold {' '.join(arguments)}")
    return subprocess.run(["tierfold", *arguments], check=False).returncode


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
