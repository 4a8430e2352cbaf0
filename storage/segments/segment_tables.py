"""A segment as two Arrow tables, its batches and its records, for `tierfold.read_segment`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tierfold.compaction.model.units import NO_HORIZON, NO_TIMESTAMP_MS
from tierfold.storage.kafka.batch_headers import (
    UNKNOWN_COUNT,
    BatchHeads,
    joined_heads,
    read_heads,
)
from tierfold.storage.kafka.batch_layout import NO_SEQUENCE
from tierfold.storage.kafka.checksums import checksums
from tierfold.storage.kafka.compression import USUAL_LIMITS, Codec, PlainLimits
from tierfold.storage.kafka.control_records import ControlType, control_types
from tierfold.storage.kafka.legacy_batches import DecodeLimits, decoded_runs, with_inner_heads
from tierfold.storage.kafka.records import Records, windows
from tierfold.storage.segments.arrow_records import content_batches
from tierfold.storage.segments.log_pieces import ChosenRecords
from tierfold.storage.segments.segment_reader import WINDOW_BYTES

_TIME: Final = pa.timestamp("ms", "UTC")
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_CODECS: Final = pa.array([codec.name.lower() for codec in Codec])
_TIMESTAMP_TYPES: Final = pa.array(["CreateTime", "LogAppendTime", "NoTimestampType"])
"""The names of Kafka's `TimestampType`."""
_UNKNOWN: Final = ControlType.KRAFT_VOTERS + 1
_CONTROL_TYPES: Final = pa.array([ControlType(kind).name for kind in range(_UNKNOWN)] + ["UNKNOWN"])
"""By the number in the record's key; the last one stands for all that Kafka does not have."""
_SEQUENCES: Final = 2**31  # Sequence numbers wrap to 0 (Kafka `incrementSequence`).

_CONTENT: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(_HEADER)),
    ]
)

BATCHES: Final = pa.schema(
    [
        ("position", pa.int64()),
        ("size_bytes", pa.int64()),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("records", pa.int32()),
        ("magic", pa.int8()),
        ("codec", pa.string()),
        ("crc", pa.uint32()),
        ("is_valid", pa.bool_()),
        ("leader_epoch", pa.int32()),
        ("timestamp_type", pa.string()),
        ("base_timestamp", _TIME),
        ("max_timestamp", _TIME),
        ("delete_horizon", _TIME),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("base_sequence", pa.int32()),
        ("is_transactional", pa.bool_()),
        ("is_control", pa.bool_()),
    ]
)
"""One row per batch; −1 is Kafka's "none", except of times.

`base_timestamp` is null where a delete horizon is in its place. `is_valid`: the CRC is right; of
another batch no field can be trusted, and its records are left out. `records` of such a compressed
wrapper of magic 0 or 1 is null.
"""

RECORDS: Final = pa.schema(
    [
        ("batch", pa.int32()),
        _CONTENT.field("offset"),
        ("timestamp", _TIME),
        ("sequence", pa.int32()),
        *(_CONTENT.field(name) for name in ("key", "value", "headers")),
        ("control_type", pa.string()),
    ]
)
"""One row per record of the valid batches, control records included; `batch` is the batch's row.

`control_type` names a control record's type as Kafka does, such as COMMIT; null: an ordinary one.
"""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SegmentTables:
    """A segment's content; frozen, and it can be pickled."""

    path: str
    """The `.log` that was read."""
    batches: pa.Table
    """The columns are `BATCHES`."""
    records: pa.Table
    """The columns are `RECORDS`."""

    def __repr__(self) -> str:
        counts = f"{len(self.batches)} batches, {len(self.records)} records"
        return f"<SegmentTables of {self.path}: {counts}>"


def segment_tables(
    log: NDArray[np.uint8], path: str, limits: PlainLimits = USUAL_LIMITS
) -> SegmentTables:
    """Decode a log, all of it in memory; `path` names it, also in errors. It may have 0 bytes.

    Raises CorruptLog if a batch is torn or its header impossible, or if the records of a valid
    batch are not what its header promises.
    """
    heads = read_heads(log, where=path, check_crc=False)
    is_valid = _checked(log, heads)
    turns = np.flatnonzero(np.diff(is_valid)) + 1
    parts: list[BatchHeads] = []
    records: list[pa.Table] = [RECORDS.empty_table()]
    borders = [0, *turns.tolist(), len(heads)] if len(heads) else []
    for first, last in pairwise(borders):
        part = heads.slice(first, last)
        if is_valid[first]:
            in_all = DecodeLimits(WINDOW_BYTES, limits)
            part = with_inner_heads(log, part, limits=in_all, where=path)
            records += _records(log, part, first, path, limits)
        parts.append(part)
    return SegmentTables(
        path=path,
        batches=_batches(joined_heads(parts) if parts else heads, is_valid),
        records=pa.concat_tables(records),
    )


def _checked(log: NDArray[np.uint8], heads: BatchHeads) -> NDArray[np.bool_]:
    """Whether each batch's CRC is right."""
    ends = heads.position + heads.size_bytes
    is_right: NDArray[np.bool_] = checksums(log, heads.position, ends, heads.magic) == heads.crc
    return is_right


def _batches(heads: BatchHeads, is_valid: NDArray[np.bool_]) -> pa.Table:
    base_ms = np.where(heads.has_delete_horizon, NO_TIMESTAMP_MS, heads.base_timestamp_ms)
    kinds = np.where(heads.is_log_append_time, 1, np.where(heads.magic == 0, 2, 0))
    columns = {name: getattr(heads, name) for name in BATCHES.names if hasattr(heads, name)}
    columns |= {
        "records": _known(heads.count, UNKNOWN_COUNT, BATCHES.field("records").type),
        "codec": _CODECS.take(pa.array(heads.codec)),
        "is_valid": is_valid,
        "timestamp_type": _TIMESTAMP_TYPES.take(pa.array(kinds)),
        "base_timestamp": _known(base_ms, NO_TIMESTAMP_MS, _TIME),
        "max_timestamp": _known(heads.max_timestamp_ms, NO_TIMESTAMP_MS, _TIME),
        "delete_horizon": _known(heads.delete_horizon_ms, NO_HORIZON, _TIME),
    }
    return pa.table([columns[name] for name in BATCHES.names], schema=BATCHES)


def _records(
    log: NDArray[np.uint8], heads: BatchHeads, first_batch: int, path: str, limits: PlainLimits
) -> Iterator[pa.Table]:
    """The records of these valid batches; the first is the segment's batch `first_batch`."""
    for first, window, records in _decoded(log, heads, path, limits):
        chosen = ChosenRecords(heads=window, records=records, rows=np.arange(len(records)))
        content = pa.Table.from_batches(content_batches(chosen, _CONTENT), _CONTENT)
        kinds = control_types(records, window, where=path)[records.batch]
        columns = {name: content.column(name) for name in _CONTENT.names}
        columns |= {
            "batch": records.batch + np.int32(first_batch + first),
            "timestamp": _known(records.timestamp_ms, NO_TIMESTAMP_MS, _TIME),
            "sequence": _sequences(records, window),
            "control_type": _CONTROL_TYPES.take(
                pa.array(np.where(kinds < len(_CONTROL_TYPES), kinds, _UNKNOWN), mask=kinds < 0)
            ),
        }
        yield pa.table([columns[name] for name in RECORDS.names], schema=RECORDS)


def _decoded(
    log: NDArray[np.uint8], heads: BatchHeads, path: str, limits: PlainLimits
) -> Iterator[tuple[int, BatchHeads, Records]]:
    """The batches that are decoded together: the index of the first, their heads and records."""
    most = limits.batch_bytes
    for start, end in windows(heads, window_bytes=WINDOW_BYTES, batch_bytes_max=most):
        window = heads.slice(start, end)
        for first, last, records in decoded_runs(log, window, where=path, limits=limits):
            yield start + first, window.slice(first, last), records


def _sequences(records: Records, heads: BatchHeads) -> NDArray[np.int64]:
    """Kafka's `DefaultRecord.sequence`."""
    base = heads.base_sequence[records.batch].astype(np.int64)
    delta = records.offset - heads.base_offset[records.batch]
    return np.where(base < 0, NO_SEQUENCE, (base + delta) % _SEQUENCES)


def _known(values: NDArray[np.integer], none: int, kind: pa.DataType) -> pa.Array:
    """The column; null where the value is `none`."""
    return pa.array(values, mask=values == none).cast(kind)
