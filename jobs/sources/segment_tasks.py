"""Reads the records of one task of `kafka-segments`, on a Spark worker.

A worker imports only what the cluster's archive holds (scripts/cluster_archive.py): no catalog.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tierfold.compaction.model.errors import TierfoldError
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.segments.arrow_records import record_batches
from tierfold.storage.segments.log_pieces import read_piece
from tierfold.storage.tiers.remote_tier import RemoteTier


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Raise expected errors in a Spark worker without a traceback.

    PySpark's own setting would also hide the tracebacks of a user's functions. A worker ends with
    its first error, so nothing else is hidden here.
    """
    try:
        yield
    except TierfoldError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


@dataclass(frozen=True, slots=True)
class TaskReader(DataSourceReader):
    """Reads the pieces that `segment_planning` assigned to a task."""

    open_tier: Callable[[], RemoteTier]
    """Opens the tier on the worker; see `TierOpener`."""
    schema: pa.Schema
    """The columns, in Spark's order and types."""
    versions: VersionSource
    """The source of the column `version`."""

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task's pieces; raises CorruptLog, UnreadableObject."""
        with in_one_sentence():
            tier = self.open_tier()
            # If there are no tasks, Spark adds one: 4.0 without a partition, later ones without a
            # value.
            for piece in () if partition is None else partition.value or ():
                for chosen in read_piece(tier, piece):
                    yield from record_batches(piece.key, chosen, self.schema, self.versions)
