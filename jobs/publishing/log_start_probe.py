"""Reads one record at the log start as a consumer does: whether brokers serve what is there."""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.model.errors import MissingRight, UnreadableObject
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.units import OffsetSpan
from tierfold.compaction.verification.canary import CanaryWindow
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.record_reader import OutOfRange, Unserved, record_reader


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartReading:
    """What a consumer got."""

    is_served: bool
    why: str = ""
    """What it got instead of records, a clause; empty: it got what is there."""


def read_log_start(
    connection: Connection, key: PartitionKey, log_start: int, end: int
) -> LogStartReading:
    """Read from the log start to the first record, at most to `end`; raises MissingRight.

    Needs Read on the topic. Without a record up to `end`, only control records are there.
    """
    window = CanaryWindow(span=OffsetSpan(start=log_start, end=end), records_max=1)
    with record_reader(connection, key.topic, key.partition) as reader:
        try:
            parts = list(reader.read(window))
        except MissingRight:
            raise
        except UnreadableObject as error:
            return LogStartReading(is_served=False, why=error.what)
    for part in parts:
        if isinstance(part, OutOfRange):
            return LogStartReading(is_served=False, why=f"offset {part.offset} is out of range")
        if isinstance(part, Unserved):
            return LogStartReading(is_served=False, why=part.error)
    return LogStartReading(is_served=True)
