"""Which versions of Kafka's brokers the tests start; fetches their jars.

    python -m tests.brokers.versions

`make test` runs this first. Without the jars of a version, the tests on its brokers are left out,
and the end of the run says so. Where `TIERFOLD_REQUIRE_BROKERS` is "true", that is an error.
`TIERFOLD_BROKER_VERSIONS=all` adds the versions of `make soak`.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from tests.oracle.kafka_jars import KafkaLabError, broker_class_path, has_jars
from tierfold.compaction.model.kafka_versions import KAFKA_VERSIONS

NEWEST: Final = KAFKA_VERSIONS[-1]
"""The version of the one cluster that most tests share."""
WITHOUT_COMPILER: Final = "4.3.0"
"""The newest version whose test jars fit, so that `make demo-kafka` needs no JDK."""
SOAK: Final = ("3.8.1", "3.9.2", "4.0.2", "4.1.2", "4.2.1", WITHOUT_COMPILER)
"""Those that only `make soak` starts; `.ci/run` also runs the demo, on `WITHOUT_COMPILER`."""


def left_to_soak() -> tuple[str, ...]:
    """The versions that have no test in this run."""
    return () if os.environ.get("TIERFOLD_BROKER_VERSIONS") == "all" else SOAK


def _asked_versions() -> tuple[str, ...]:
    return (NEWEST, *(version for version in SOAK if version not in left_to_soak()))


def missing_brokers() -> tuple[str, ...]:
    """The versions without jars; where brokers are required, that is an error instead."""
    missing = tuple(version for version in _asked_versions() if not has_jars(version))
    if missing and os.environ.get("TIERFOLD_REQUIRE_BROKERS") == "true":
        names = ", ".join(missing)
        raise RuntimeError(f"no jars of Kafka {names}; run python -m tests.brokers.versions")
    return missing


def main() -> int:
    """Fetch the jars that are missing; the exit code is 1 if there are versions without."""
    missing = 0
    for version in _asked_versions():
        try:
            broker_class_path(version)
        except KafkaLabError as error:
            missing += 1
            sys.stderr.write(f"{str(error).splitlines()[0]}\n")
    return min(missing, 1)


if __name__ == "__main__":
    sys.exit(main())
