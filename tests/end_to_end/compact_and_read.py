"""For spark-submit: `tierfold compact`, then `kafka-segments` reads what is live.

    compact_and_read.py ANSWERS.json TIER OPTIONS…

Everything that this process pickles is written to ANSWERS.pickles.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

from tierfold.jobs.cli.commands import main
from tierfold.jobs.sources.segment_options import FORMAT
from tierfold.jobs.sources.segment_source import register


def record_pickles(file: Path) -> None:
    """Append all that is pickled for Spark's workers to the file."""
    dumps = CPickleSerializer.dumps

    def recorded(self: CPickleSerializer, obj: Any) -> bytes:
        pickled = dumps(self, obj)
        with file.open("ab") as pickles:
            pickles.write(pickled)
        return pickled

    CPickleSerializer.dumps = recorded


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
    record_pickles(path.with_suffix(".pickles"))
    try:
        main(first_arguments=("compact",))
    finally:
        read(path, place)
