"""Reads the bytes of a log into headers and records, for tests of single functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.batch_headers import BatchHeads, read_heads
from tierfold.storage.kafka.columns import empty_columns
from tierfold.storage.kafka.legacy_batches import decode_any
from tierfold.storage.kafka.records import Records

WHERE = "bucket/a.log"


class Decoded(NamedTuple):
    """A log, its headers and its records, which are all legacy or all magic 2."""

    log: np.ndarray
    heads: BatchHeads
    records: Records


def array(log: bytes) -> np.ndarray:
    return np.frombuffer(log, np.uint8)


def heads_of(log: bytes, *, check_crc: bool = True) -> BatchHeads:
    return read_heads(array(log), where=WHERE, check_crc=check_crc)


def decoded(log: bytes, *, check_crc: bool = True) -> Decoded:
    heads = heads_of(log, check_crc=check_crc)
    return Decoded(array(log), heads, decode_any(array(log), heads, where=WHERE))


def heads_at(**columns: np.ndarray) -> BatchHeads:
    """Headers with these columns; the others are zero."""
    rows = len(next(iter(columns.values())))
    zeros = {
        name: np.zeros_like(column) for name, column in empty_columns(BatchHeads, rows).items()
    }
    return BatchHeads(**zeros | columns)


def written(drafts: Sequence[BatchDraft]) -> bytes:
    """The batches, one after the other."""
    return b"".join(map(write_batch, drafts))


def one_record(
    offset: int, *, key: bytes | None = b"k", value: bytes | None = b"v", timestamp_ms: int = 0
) -> BatchDraft:
    """A batch of one record."""
    record = RecordDraft(offset=offset, timestamp_ms=timestamp_ms, key=key, value=value)
    return BatchDraft(base_offset=offset, records=(record,))
