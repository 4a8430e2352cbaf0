"""The rows a DataFrame over live segments must hold, computed by the plain reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from tierfold.storage.indexes.transaction_index import read_transaction_index
from tierfold.storage.segments.segment_reader import Batch, read_segment

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def expected_rows(
    topic: str, partition: int, logs: Sequence[str | Path], *, is_committed: bool
) -> list[tuple[Any, ...]]:
    """All ordinary records in the columns' order; nothing is open in these logs."""
    aborted = [span for log in logs for span in _aborted(Path(log))] if is_committed else []
    return [
        (topic, partition, *row)
        for log in logs
        for batch in read_segment(log).batches()
        if not batch.is_control and not _is_within(batch, aborted)
        for row in _rows(batch)
    ]


def _rows(batch: Batch) -> Iterator[tuple[Any, ...]]:
    for record in batch.records:
        headers = [(name.decode(), _bytes(value)) for name, value in record.headers]
        yield (
            record.offset,
            EPOCH + timedelta(milliseconds=record.timestamp_ms),
            _bytes(record.key),
            _bytes(record.value),
            headers or None,
            batch.leader_epoch,
        )


def _bytes(content: bytes | None) -> bytearray | None:
    return None if content is None else bytearray(content)


def _aborted(log: Path) -> list[tuple[int, int, int]]:
    index = log.with_suffix(".txnindex")
    if not index.exists():
        return []
    entries = read_transaction_index(np.frombuffer(index.read_bytes(), np.uint8), str(index))
    return [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in entries]


def _is_within(batch: Batch, aborted: list[tuple[int, int, int]]) -> bool:
    return batch.is_transactional and any(
        batch.producer_id == producer_id and first <= batch.base_offset <= last
        for producer_id, first, last in aborted
    )
