"""Reads the encrypted sample in a Spark session that encrypts what it writes to disks.

    python -m tests.end_to_end.read_encrypted TIER KEY_FILE

Prints the number of records and their SHA-256, computed as in the sample's `consumed.json`.
"""

from __future__ import annotations

import hashlib
import sys

from pyspark.sql import SparkSession

from tierfold.jobs.sources.segment_source import register
from tierfold.jobs.spark.disk_encryption import IO_ENCRYPTION
from tierfold.jobs.spark.session import tierfold_session


def main(tier: str, key_file: str) -> None:
    """Read, sort by offset on Spark, and print."""
    settings = {IO_ENCRYPTION: "true", "spark.sql.shuffle.partitions": "2"}
    spark = tierfold_session(SparkSession.builder.config(map=settings))
    register(spark)
    reader = spark.read.format("kafka-segments").option("encryption.key", f"key-1={key_file}")
    rows = reader.load(tier).selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("offset")
    found, count = hashlib.sha256(), 0
    for row in rows.toLocalIterator():
        count += 1
        found.update(row["offset"].to_bytes(8, "big") + row["ms"].to_bytes(8, "big"))
        found.update((row["key"] or b"") + (b"\0" if row["value"] is None else row["value"]))
        for header in row["headers"] or ():
            found.update(header["key"].encode() + (header["value"] or b""))
    sys.stdout.write(f"{count} {found.hexdigest()}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
