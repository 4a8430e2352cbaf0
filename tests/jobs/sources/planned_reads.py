"""A read of `kafka-segments`, planned as Spark does it on the driver."""

from __future__ import annotations

import io

from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

from tierfold.jobs.sources.segment_source import KafkaSegments


def planned_read(source: KafkaSegments) -> bytes:
    """The function and its partitions, pickled for the workers."""
    planned = io.BytesIO()
    write_read_func_and_partitions(
        planned,
        reader=source.reader(source.schema()),
        data_source=source,
        schema=source.schema(),
        max_arrow_batch_size=1,
        binary_as_bytes=True,
    )
    return planned.getvalue()
