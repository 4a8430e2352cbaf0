"""For spark-submit: `tierfold compact`, then `kafka-segments` reads what is live.

    compact_and_read.py ANSWERS.json TIER OPTIONS…
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tierfold.jobs.cli.commands import main
from tierfold.jobs.sources.segment_options import FORMAT
from tierfold.jobs.sources.segment_source import register


def read(answers: Path, tier: str) -> None:
    """Write topic, partition and offset of each live record, sorted."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    register(spark)
    found = spark.read.format(FORMAT).load(tier).select("topic", "partition", "offset").collect()
    answers.write_text(json.dumps(sorted(map(list, found))))


if __name__ == "__main__":
    path = Path(sys.argv.pop(1))
    place = sys.argv[1]
    try:
        main(first_arguments=("compact",))
    finally:
        read(path, place)
