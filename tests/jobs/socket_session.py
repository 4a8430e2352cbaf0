"""A session under umask 000: `python -m tests.jobs.socket_session ANSWER TIER`.

It writes the sockets of a read to ANSWER, stops its session, and lets another program make one.
Then it waits until it is ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tierfold.jobs.sources.segment_source import register
from tierfold.jobs.spark.session import tierfold_session


def _folder(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pylist([{"folder": os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"]}])


def main() -> None:
    """Also the planning of a read is done by Python processes, of PySpark's own daemon."""
    os.umask(0)
    answer, tier = map(Path, sys.argv[1:])
    spark = tierfold_session()
    register(spark)
    records = spark.read.format("kafka-segments").load(str(tier)).count()
    (worker,) = spark.range(0, 1, 1, 1).mapInArrow(_folder, "folder string").collect()
    driver = spark.sparkContext.getConf().get("spark.python.unix.domain.socket.dir")
    told: dict[str, Any] = {"records": records, "driver": driver, "worker": worker.folder}
    told["tasks"] = spark.range(9).repartition("id").rdd.getNumPartitions()
    answer.with_name("first").write_text(json.dumps(told))
    while answer.with_name("first").exists():
        time.sleep(0.05)
    spark.stop()
    others = SparkSession.builder.getOrCreate()
    told["others"] = others.sparkContext.parallelize([1, 2], 1).sum()
    answer.write_text(json.dumps(told))
    signal.pause()


if __name__ == "__main__":
    main()
