"""Reads a segment as Python objects, for notebooks, tests and the verb `dump`.

>>> from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
>>> hello = RecordDraft(offset=7, timestamp_ms=1000, key=b"greeting", value=b"hello")
>>> content = read_segment(write_batch(BatchDraft(base_offset=7, records=(hello,))))
>>> for batch in content.batches():
...     for record in batch.records:
...         (batch.codec, record.offset, record.key, record.value)
('none', 7, b'greeting', b'hello')
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.storage.kafka.batch_headers import BatchHeads, read_heads
from tierfold.storage.kafka.batch_layout import NO_SEQUENCE
from tierfold.storage.kafka.compression import USUAL_LIMITS, Codec, PlainLimits
from tierfold.storage.kafka.control_records import ControlType, control_type
from tierfold.storage.kafka.legacy_batches import decoded_runs
from tierfold.storage.kafka.records import Records, headers_of, windows

WINDOW_BYTES: Final = 16 * 2**20
"""How much of a segment is decoded at a time, as `windows` counts it."""

_SEQUENCES: Final = 2**31  # Sequence numbers wrap to 0 (Kafka `incrementSequence`).


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record; `None` is Kafka's null."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    sequence: int
    """−1: the producer is not idempotent."""
    control_type: ControlType | None
    """None: an ordinary record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch with all header fields; a legacy wrapper's base offset is its first record's."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    magic: int
    crc: int
    codec: str
    leader_epoch: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    delete_horizon_ms: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    is_log_append_time: bool
    records: tuple[Record, ...]


_COMPUTED: Final = frozenset({"base_offset", "codec", "delete_horizon_ms", "records"})
_FROM_HEADS: Final = tuple(field.name for field in fields(Batch) if field.name not in _COMPUTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentContent:
    """A segment with its headers read and checked; records are decoded on demand."""

    heads: BatchHeads
    log: NDArray[np.uint8]
    """The segment's bytes."""
    where: str
    """The object or file, for errors."""
    limits: PlainLimits = USUAL_LIMITS

    def batches(self) -> Iterator[Batch]:
        """The batches in offset order, decoded a window at a time; raises CorruptLog."""
        most = self.limits.batch_bytes
        for start, end in windows(
            self.heads, window_bytes=WINDOW_BYTES, batch_bytes_max=most
        ):
            window = self.heads.slice(start, end)
            runs = decoded_runs(self.log, window, where=self.where, limits=self.limits)
            for first, last, records in runs:
                heads = window.slice(first, last)
                for i in range(len(heads)):
                    yield _batch(heads, records, i)


def read_segment(source: Path | str | bytes) -> SegmentContent:
    """Read a `.log`, given as a path or as its bytes, and compare every batch's checksum.

    Raises UnreadableObject and CorruptLog.
    """
    where = "segment" if isinstance(source, bytes) else str(source)
    try:
        content = source if isinstance(source, bytes) else Path(source).read_bytes()
    except OSError as error:
        raise unreadable(error, where) from error
    log = np.frombuffer(content, np.uint8)
    return SegmentContent(heads=read_heads(log, where=where), log=log, where=where)


def unreadable(error: OSError, where: str) -> UnreadableObject:
    """The error for a file that cannot be read."""
    if isinstance(error, IsADirectoryError):
        return UnreadableObject("this is a folder", where=where, remedy="Name a .log file in it.")
    return UnreadableObject(
        f"the file cannot be read ({error.strerror})",
        where=where,
        remedy="Check the path and its permissions.",
    )


def _batch(heads: BatchHeads, records: Records, i: int) -> Batch:
    head = heads.slice(i, i + 1)  # Its properties are computed for one batch, not for all.
    first, after = int(records.first_record[i]), int(records.first_record[i + 1])
    horizon_ms = int(head.delete_horizon_ms[0])
    return Batch(
        **{name: getattr(head, name)[0].item() for name in _FROM_HEADS},
        base_offset=int(records.offset[first] if head.is_legacy[0] else head.base_offset[0]),
        codec=Codec(int(head.codec[0])).name.lower(),
        delete_horizon_ms=None if horizon_ms == NO_HORIZON else horizon_ms,
        records=tuple(_record(head, records, n) for n in range(first, after)),
    )


def _record(head: BatchHeads, records: Records, i: int) -> Record:
    key = _bytes(records.body, int(records.key_at[i]), int(records.key_bytes[i]))
    offset = int(records.offset[i])
    return Record(
        offset=offset,
        timestamp_ms=int(records.timestamp_ms[i]),
        key=key,
        value=_bytes(records.body, int(records.value_at[i]), int(records.value_bytes[i])),
        headers=tuple(headers_of(records, i)),
        sequence=_sequence(int(head.base_sequence[0]), offset - int(head.base_offset[0])),
        control_type=control_type(key) if head.is_control[0] else None,
    )


def _sequence(base_sequence: int, offset_delta: int) -> int:
    return NO_SEQUENCE if base_sequence < 0 else (base_sequence + offset_delta) % _SEQUENCES


def _bytes(body: NDArray[np.uint8], at: int, size_bytes: int) -> bytes | None:
    return None if size_bytes < 0 else body[at : at + size_bytes].tobytes()
