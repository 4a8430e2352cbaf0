"""The parsers of a log's bytes, and their checks."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tests.faults.malformed.malformed_bytes import corrupted
from tests.faults.malformed.malformed_logs import (
    HEADER,
    control_batch,
    legacy_log,
    malformed,
    v2_log,
)
from tests.faults.malformed.malformed_outcome import (
    Outcome,
    Parser,
    compared,
    must_equal,
    refused,
)
from tests.faults.malformed.malformed_reference import (
    PlainBatch,
    PlainRecord,
    plain_batch,
    plain_batches,
    plain_payload,
)
from tests.scratch import SCRATCH
from tests.storage.stored_logs import stored
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.units import NO_TIMESTAMP_MS
from tierfold.storage.kafka.batch_headers import BatchHeads, joined_heads, read_heads
from tierfold.storage.kafka.compression import Codec, compress, decompress
from tierfold.storage.kafka.control_records import (
    EMPTIED,
    NOT_CONTROL,
    control_type,
    control_types,
    coordinator_epoch,
)
from tierfold.storage.kafka.legacy_batches import decode_any
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.segments.arrow_records import record_batches
from tierfold.storage.segments.log_pieces import ChosenRecords
from tierfold.storage.segments.log_windows import log_windows
from tierfold.storage.segments.segment_reader import Batch, SegmentContent
from tierfold.storage.segments.segment_walk import walk
from tierfold.storage.segments.window import decoded_windows

_WINDOW_BYTES: Final = 300
"""Small, so that a small log has several windows."""
_KEY: Final = PartitionKey(topic="malformed", partition=0, topic_id="M" * 22)
_FIELDS: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("leader_epoch", pa.int32()),
    ]
)


def _view(log: bytes) -> np.ndarray:
    return np.frombuffer(log, np.uint8)


def _read(log: bytes, *, check_crc: bool) -> list[PlainBatch]:
    heads = read_heads(_view(log), where="a log", check_crc=check_crc)
    content = SegmentContent(heads=heads, log=_view(log), where="a log")
    return [_plain(batch, int(heads.attributes[i])) for i, batch in enumerate(content.batches())]


def _plain(batch: Batch, attributes: int) -> PlainBatch:
    records = tuple(
        PlainRecord(record.offset, record.timestamp_ms, record.key, record.value, record.headers)
        for record in batch.records
    )
    names = set(PlainBatch._fields) - {"attributes", "records"}
    fields = {name: getattr(batch, name) for name in names}
    return PlainBatch(attributes=attributes, records=records, **fields)


def _logs(sound: Callable[[Random], bytes]) -> Callable[[Random], bytes]:
    return lambda rng: malformed(sound(rng), rng)


def _checked_columns(log: bytes) -> Outcome:
    """Check the rows of Spark's reader, and the versions that the header strategy finds."""
    try:
        heads: list[BatchHeads] = []
        rows: list[dict[str, Any]] = []
        versions: list[tuple[int | None, int]] = []
        windows = log_windows(stored(log, window_bytes=_WINDOW_BYTES))
        for window, records in decoded_windows(windows):
            heads.append(window.heads)
            every = np.arange(len(records))
            chosen = ChosenRecords(heads=window.heads, records=records, rows=every)
            for batch in record_batches(_KEY, chosen, _FIELDS):
                rows += _rows(batch)
            versions += _versions(chosen)
    except TierfoldError as error:
        return refused(error)
    joined = joined_heads(heads)
    found = (joined.base_offset.tolist(), joined.count.tolist(), rows, versions)
    return compared(lambda: found, lambda: _expected(plain_batches(log)))


def _expected(batches: list[PlainBatch]) -> tuple[list[Any], ...]:
    records = [(batch, record) for batch in batches for record in batch.records]
    return (
        [batch.base_offset for batch in batches],
        [len(batch.records) for batch in batches],
        [_row(batch, record) for batch, record in records],
        [_version(record) for _, record in records],
    )


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    micros = batch.schema.get_field_index("timestamp")
    as_numbers = batch.set_column(micros, "timestamp", batch.column(micros).cast(pa.int64()))
    rows: list[dict[str, Any]] = as_numbers.to_pylist()
    return rows


def _row(batch: PlainBatch, record: PlainRecord) -> dict[str, Any]:
    has_time = (
        record.timestamp_ms != NO_TIMESTAMP_MS
        and -62_135_596_800_000 <= record.timestamp_ms <= 253_402_300_799_999  # Years 1 to 9999.
    )
    headers = [
        {"key": name.decode("utf-8", "replace"), "value": value} for name, value in record.headers
    ]
    return {
        "offset": record.offset,
        "timestamp": record.timestamp_ms * 1000 if has_time else None,
        "key": record.key,
        "value": record.value,
        "headers": headers or None,
        "leader_epoch": None if batch.leader_epoch == -1 else batch.leader_epoch,
    }


def _versions(chosen: ChosenRecords) -> list[tuple[int | None, int]]:
    """Return each record's version, and 1 if it is malformed. Reads records one at a time."""
    source = VersionSource(strategy=CompactionStrategy.HEADER, header=HEADER)
    found = []
    for row in chosen.rows:
        versions, malformed_versions = source.versions_of(chosen.records, np.array([row]))
        assert versions is not None
        is_known = bool(versions.is_known[0])
        found.append((int(versions.value[0]) if is_known else None, malformed_versions))
    return found


def _version(record: PlainRecord) -> tuple[int | None, int]:
    named = [value for name, value in record.headers if name == HEADER.encode()]
    if not named:
        return None, 0
    if named[-1] is None or len(named[-1]) != 8:
        return None, 1
    return struct.unpack(">q", named[-1])[0], 0


def _payload(rng: Random) -> tuple[int, bytes, bool]:
    """Draw a codec, a payload, and whether to repair the lz4 header."""
    codec = rng.choice(list(Codec)[1:])
    plain = b"".join(
        rng.choice((b"{'name': 'value'}", rng.randbytes(9), bytes(70)))
        for _ in range(rng.randrange(1, 60))
    )
    stored = compress(codec, plain) * rng.choice((1, 1, 1, 2))
    if rng.random() < 0.1:
        stored = compress(rng.choice(list(Codec)), plain)
    return codec, corrupted(stored, rng), rng.random() < 0.5


def _checked_payload(given: tuple[int, bytes, bool]) -> Outcome:
    codec, stored, mend = given
    return compared(
        lambda: decompress(codec, stored, where="a payload", mend_lz4_header=mend),
        lambda: plain_payload(codec, stored),
    )


def _checked_control(log: bytes) -> Outcome:
    try:
        heads = read_heads(_view(log), where="a log")
        records = decode_any(_view(log), heads, where="a log")
        kinds = control_types(records, heads, where="a log").tolist()
    except TierfoldError as error:
        return refused(error)
    batches = plain_batches(log)
    must_equal(kinds, [_kind(batch) for batch in batches])
    for record in (record for batch in batches for record in batch.records):
        epoch = None
        if record.value is not None and len(record.value) >= 6:
            (epoch,) = struct.unpack_from(">i", record.value, 2)
        must_equal(coordinator_epoch(record.value), epoch)
        number = -1 if record.key is None or len(record.key) < 4 else _type_of(record.key)
        must_equal(int(control_type(record.key)), number if 0 <= number <= 6 else -1)
    return Outcome.RIGHT


def _kind(batch: PlainBatch) -> int:
    if not batch.is_control:
        return NOT_CONTROL
    return _type_of(batch.records[0].key or b"") if batch.records else EMPTIED


def _type_of(key: bytes) -> int:
    version, number = struct.unpack_from(">hh", key)
    return int(number) if version >= 0 else -1


def _checked_walk(log: bytes) -> Outcome:
    """Check the batches of a log file one by one, up to the first place without a batch."""
    with tempfile.NamedTemporaryFile(suffix=".log", dir=SCRATCH) as file:
        file.write(log)
        file.flush()
        try:
            for batch in walk(Path(file.name)):
                if batch.is_valid:
                    _checked_batch(batch.data.tobytes(), batch.records)
        except TierfoldError as error:
            return refused(error)
    return Outcome.RIGHT


def _checked_batch(data: bytes, records: Callable[[], tuple[Any, ...]]) -> Outcome:
    return compared(
        lambda: [(record.offset, record.key, record.value, record.headers) for record in records()],
        lambda: [
            (record.offset, record.key, record.value, record.headers)
            for record in plain_batch(data, has_sums=True).records
        ],
    )


def _any_log(rng: Random) -> bytes:
    return rng.choice((v2_log, legacy_log))(rng)


def _read_log(log: bytes, *, check_crc: bool = True) -> Outcome:
    return compared(
        lambda: _read(log, check_crc=check_crc), lambda: plain_batches(log, has_sums=check_crc)
    )


LOG_PARSERS: Final = tuple(
    Parser(name=name, made=made, checked=checked, share=share, decompresses=True)
    for name, made, checked, share in (
        ("batches", _logs(v2_log), _read_log, 6),
        ("batches unsummed", _logs(v2_log), partial(_read_log, check_crc=False), 2),
        ("legacy messages", _logs(legacy_log), _read_log, 4),
        ("record columns", _logs(_any_log), _checked_columns, 2),
        ("payloads", _payload, _checked_payload, 4),
        ("control records", _logs(control_batch), _checked_control, 2),
        ("log file", _logs(_any_log), _checked_walk, 1),
    )
)
