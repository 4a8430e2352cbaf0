"""An archive of the classes that Spark's JVM loads, which halves the CPU time of a start.

    python -m tests.spark_classes

`make test` runs this once per environment; without the archive the tests only take longer. The JVM
ignores an archive that another JVM wrote, or that was made of other jars.
"""

from __future__ import annotations

import os
from typing import Final

from pyspark import SparkContext

from tests.jobs.commands import ROOT
from tierfold.jobs.spark.session import JVM_OPTIONS, tierfold_session
from tierfold.jobs.spark.stderr_filter import chatter_hidden

ARCHIVE: Final = ROOT / "build" / "spark_classes.jsa"
"""Measured on the sample, CPU seconds of `tierfold compact` and of its JVM: 14.6 and 10.8 without
it, 9.5 and 5.6 with it (medians of three pairs)."""


def jvm_options() -> str:
    """Return the options that make a JVM of Spark start faster, those of tierfold's own included.

    `-Xlog:disable`: a JVM that ignores the archive says why.
    """
    archive = f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else ""
    return f"{JVM_OPTIONS} {archive}"


def write_archive() -> None:
    """Run a small job, let its JVM write the archive as it ends, and wait for that."""
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    unfinished = ARCHIVE.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    session = tierfold_session()
    frame = session.range(8).repartition(2).mapInArrow(lambda batches: batches, "id bigint")
    assert frame.where("id > 3").count() == 4
    session.stop()
    jvm = SparkContext._gateway.proc  # type: ignore[union-attr]
    jvm.stdin.close()
    jvm.wait()
    unfinished.replace(ARCHIVE)


if __name__ == "__main__":
    with chatter_hidden():
        write_archive()
