"""The limit of a record that was compressed: Kafka's `max.decompressed.message.bytes` (4.4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import LEAVE_OUT, CorruptLog
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.batch_layout import LOG_OVERHEAD_BYTES
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.payloads import batch_at
from tierfold.storage.kafka.records import RecordColumns, Records, columns_of
from tierfold.storage.kafka.wire import kernel, read_varint


def refuse_large(
    heads: BatchHeads,
    records: Records,
    is_read: NDArray[np.bool_],
    most_bytes: int,
    *,
    where: str,
    origin: int,
) -> None:
    """Raise CorruptLog if a record of a compressed batch takes more than `most_bytes`.

    As Kafka counts them: in magic 2 all that follows a record's length (`DefaultRecord.readFrom`),
    in a wrapper all that follows a message's size (`AbstractLegacyRecordBatch`). `is_read`: shape
    (batches,), those that Kafka's cleaner would decompress. For errors as in `records.decode`.
    """
    if records.body.size <= most_bytes:
        return
    is_limited = is_read & (heads.codec != Codec.NONE)
    columns = columns_of(records)
    i, size_bytes = _first_larger(records.body, columns, is_limited, heads.is_legacy, most_bytes)
    if size_bytes <= most_bytes:
        return
    named = batch_at(heads, int(records.batch[i]), origin)
    raise CorruptLog(
        f"{named} holds the record of offset {records.offset[i]}, which takes {size_bytes} bytes "
        f"when decompressed; max.decompressed.message.bytes allows {most_bytes}, and Kafka's "
        "cleaner stops there, too",
        where=where,
        remedy="If the data is meant to be like that, set max.decompressed.message.bytes to "
        f"{size_bytes} or more for this topic. Otherwise {LEAVE_OUT}.",
    )


@kernel
def _first_larger(
    body: NDArray[np.uint8],
    records: RecordColumns,
    is_limited: NDArray[np.bool_],
    is_legacy: NDArray[np.bool_],
    most_bytes: int,
) -> tuple[int, int]:
    """The first record that is too large, and its size; (0, 0) if none is."""
    for i in range(records.start.size):
        start, end, batch = records.start[i], records.end[i], records.batch[i]
        if is_limited[batch]:
            if is_legacy[batch]:
                size_bytes = end - start - LOG_OVERHEAD_BYTES
            else:
                size_bytes, _at = read_varint(body, start, end)
            if size_bytes > most_bytes:
                return i, size_bytes
    return 0, 0
