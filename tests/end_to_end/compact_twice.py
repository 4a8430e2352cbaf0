"""For spark-submit: `tierfold compact` of a folder, then of a bucket, in one session.

    compact_twice.py ANSWERS FOLDER BUCKET OPTIONS…

Writes into the folder ANSWERS: the documents of both (folder.json, bucket.json), which kernels the
Python workers loaded and compiled (kernels.json), what `kafka-segments` reads from the bucket
(read.json), and everything that this process pickles (read.pickles).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from numba.core.registry import CPUDispatcher
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

from tierfold.jobs.cli.commands import main
from tierfold.jobs.sources.segment_options import FORMAT
from tierfold.jobs.sources.segment_source import register

TASKS = 8


def record_pickles(file: Path) -> None:
    """Append everything that is pickled for Spark's workers to the file."""
    dumps = CPickleSerializer.dumps

    def recorded(self: CPickleSerializer, obj: Any) -> bytes:
        pickled = dumps(self, obj)
        with file.open("ab") as pickles:
            pickles.write(pickled)
        return pickled

    CPickleSerializer.dumps = recorded


def compact(tier: str, document: Path, options: list[str]) -> None:
    """Run the verb; raises SystemExit if it fails."""
    sys.argv[1:] = [tier, "--document", str(document), *options]
    try:
        main(first_arguments=("compact",))
    except SystemExit as ended:
        if ended.code != 0:
            raise


def kernel_report(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row: where the executor runs, and which kernels it loaded and compiled."""
    for _ in batches:
        time.sleep(0.2)  # So that no executor takes all the tasks.
    names = [name for name in list(sys.modules) if name.partition(".")[0] == "tierfold"]
    modules = [sys.modules[name] for name in names]
    kernels = {
        f"{value.py_func.__module__}.{value.__name__}": value.stats
        for module in modules
        for value in vars(module).values()
        if isinstance(value, CPUDispatcher)
    }
    answer = {
        "executor": str(Path.cwd()),
        "home": next(module.__file__ for module in modules),
        "loaded": sorted(name for name, stats in kernels.items() if stats.cache_hits),
        "compiled": sorted(name for name, stats in kernels.items() if stats.cache_misses),
    }
    yield pa.RecordBatch.from_pydict({"answer": [json.dumps(answer)]})


def write_kernels(spark: SparkSession, answers: Path) -> None:
    """Write one `kernel_report` for each task."""
    reports = spark.range(0, TASKS, 1, TASKS).mapInArrow(kernel_report, "answer string")
    answers.write_text(json.dumps([json.loads(row.answer) for row in reports.collect()]))


def write_offsets(spark: SparkSession, answers: Path, tier: str) -> None:
    """Write topic, partition and offset of each live record, sorted."""
    register(spark)
    found = spark.read.format(FORMAT).load(tier).select("topic", "partition", "offset").collect()
    answers.write_text(json.dumps(sorted(map(list, found))))


def run(answers: Path, folder: str, bucket: str, options: list[str]) -> None:
    """Compact both tiers, then write the reports."""
    record_pickles(answers / "read.pickles")
    compact(folder, answers / "folder.json", options)
    compact(bucket, answers / "bucket.json", options)
    spark = SparkSession.getActiveSession()
    assert spark is not None
    write_kernels(spark, answers / "kernels.json")
    write_offsets(spark, answers / "read.json", bucket)


if __name__ == "__main__":
    run(Path(sys.argv[1]), *sys.argv[2:4], sys.argv[4:])
