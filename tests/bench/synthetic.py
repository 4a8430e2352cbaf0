"""Logs with any number of keys, copied from one template batch, so that no loop is over records.

All batches of a log have the same layout: only the base offset, the keys and the checksum differ
from the template's. Record i has the key number `i * STEP % keys`. So all keys occur equally often,
and neighbouring records have distant keys.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey
from tierfold.compaction.model.units import BATCH_HEADER_BYTES
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.batch_layout import CRC, CRC_AT, LOG_OVERHEAD_BYTES
from tierfold.storage.kafka.checksums import V2_CRC_COVERS_FROM, crc32c
from tierfold.storage.kafka.compression import Codec, compress
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, LocalTieredStorage
from tierfold.storage.tiers.tier_uris import open_tier

STEP: Final = 2_654_435_761
"""A prime: it has no factor in common with a smaller number of keys, so each key occurs."""
_DIGITS: Final = 10
_LENGTH_AT: Final = 8
_INTERVAL_BYTES: Final = 4096
_LINEAGE: Final = (LeaderEpoch(epoch=0, start_offset=0),)
_TIMESTAMP_MS: Final = 1_700_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a partition's log is like."""

    records: int
    """Rounded up to whole batches."""
    keys: int
    first_key: int = 0
    """The number of the first key."""
    key_bytes: int = 24
    value_bytes: int = 20
    tombstones_in_20: int = 0
    """How many of every 20 consecutive records are tombstones."""
    batch_records: int = 1000
    segment_bytes: int = 256 * 2**20
    """Before compression."""
    is_compressed: bool = False
    """With zstd."""


def put_log(tier: Path, topic: str, partition: int, shape: Shape, first_batch: int = 0) -> int:
    """Write a partition's segments to a tier; return their size in bytes.

    `first_batch`: how many batches of this shape precede them in the log.
    """
    opened = _opened(tier)
    key = PartitionKey(topic=topic, partition=partition, topic_id=_topic_id(topic))
    template, places = _template(shape)
    batches = -(-shape.records // shape.batch_records)
    step = max(1, min(batches, shape.segment_bytes // len(template)))
    size_bytes = 0
    for start in range(0, batches, step):
        log = _batches(
            shape, template, places, first_batch + start, min(step, batches - start)
        )
        upload = BrokerUpload(
            start_offset=(first_batch + start) * shape.batch_records,
            log=log,
            index_interval_bytes=_INTERVAL_BYTES,
            lineage=_LINEAGE,
        )
        size_bytes += upload.put(opened, key).size_bytes
    return size_bytes


def fresh_folder(tier: Path) -> Path:
    """Make an empty tier, in place of an older one."""
    shutil.rmtree(tier, ignore_errors=True)
    (tier / TIER_FOLDER).mkdir(parents=True)
    return tier


def _opened(tier: Path) -> LocalTieredStorage:
    opened = open_tier(str(tier))
    assert isinstance(opened, LocalTieredStorage)
    return opened


_topic_ids: Final[dict[str, str]] = {}


def _topic_id(topic: str) -> str:
    """A topic's id, which its partitions share; each process draws its own."""
    return _topic_ids.setdefault(topic, new_kafka_uuid())


def _template(shape: Shape) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """A batch, and the positions at which the digits of each record's key begin."""
    fill = "k" * (shape.key_bytes - _DIGITS)
    keys = [f"{fill}{i:0{_DIGITS}d}".encode() for i in range(shape.batch_records)]
    rng = np.random.default_rng(5)
    drafts = tuple(
        RecordDraft(
            offset=i,
            timestamp_ms=_TIMESTAMP_MS,
            key=key,
            value=None
            if i % 20 < shape.tombstones_in_20
            else rng.integers(0, 256, shape.value_bytes, np.uint8).tobytes(),
        )
        for i, key in enumerate(keys)
    )
    batch = write_batch(BatchDraft(base_offset=0, records=drafts, leader_epoch=0))
    places, at = [], 0
    for key in keys:
        at = batch.index(key, at)
        places.append(at + shape.key_bytes - _DIGITS)
    return np.frombuffer(batch, np.uint8), np.array(places, np.int64)


def _batches(
    shape: Shape,
    template: NDArray[np.uint8],
    places: NDArray[np.int64],
    start: int,
    count: int,
) -> bytes:
    """`count` batches, from number `start` on."""
    rows = np.tile(template, (count, 1))
    records = np.arange(start * shape.batch_records, (start + count) * shape.batch_records)
    numbers = (shape.first_key + (records * STEP) % shape.keys).reshape(count, -1)
    for digit in range(_DIGITS):
        rows[:, places + _DIGITS - 1 - digit] = numbers // 10**digit % 10 + ord("0")
    bases = (records[:: shape.batch_records]).astype(">i8").view(np.uint8)
    rows[:, :8] = bases.reshape(count, 8)
    if shape.is_compressed:
        return b"".join(_compressed(row.tobytes()) for row in rows)
    for row in rows:
        row[CRC_AT : CRC_AT + 4] = np.frombuffer(CRC.pack(crc32c(row)), np.uint8)
    return rows.tobytes()


def _compressed(batch: bytes) -> bytes:
    """The same batch with its records compressed."""
    payload = compress(Codec.ZSTD, batch[BATCH_HEADER_BYTES:])
    row = bytearray(batch[:BATCH_HEADER_BYTES] + bytes(payload))
    length = len(row) - LOG_OVERHEAD_BYTES
    row[_LENGTH_AT:LOG_OVERHEAD_BYTES] = length.to_bytes(4)
    row[V2_CRC_COVERS_FROM : V2_CRC_COVERS_FROM + 2] = int(Codec.ZSTD).to_bytes(2)
    CRC.pack_into(row, CRC_AT, crc32c(np.frombuffer(bytes(row), np.uint8)))
    return bytes(row)
