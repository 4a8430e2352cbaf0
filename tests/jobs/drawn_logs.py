"""Logs whose keys are drawn from a seed: as in the benchmark, by Zipf, and like CDC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tests.jobs.tiers import key_of, made_tier
from tests.storage.new_ids import new_address
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.kafka.batch_layout import CRC, CRC_AT, HEADER, LOG_OVERHEAD_BYTES
from tierfold.storage.kafka.checksums import crc32c
from tierfold.storage.kafka.compression import Codec, compress
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.tiers.tier_uris import open_tier

TIME_MS: Final = 1_700_000_000_000
ORDERS: Final = key_of("orders")
_BATCH_BYTES: Final = 4000
"""Of records before compression; the benchmark's 16 KB, scaled down as the logs are."""
_KEY_BYTES: Final = 24
_WORDS: Final = 800

Keys = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLog:
    """A kind of log."""

    name: str
    records: int
    keys: Callable[[int, np.random.Generator], tuple[Keys, NDArray[np.bool_]]]
    """(records, generator) → the key of each record, and which are tombstones."""
    value_bytes: int = 100
    codec: Codec = Codec.NONE
    is_text: bool = False
    segments: int = 12


def uniform(records: int, rng: np.random.Generator) -> tuple[Keys, NDArray[np.bool_]]:
    """A tenth as many keys as records, as in the benchmark."""
    return rng.integers(0, records // 10, records), np.zeros(records, np.bool_)


def zipf(records: int, rng: np.random.Generator) -> tuple[Keys, NDArray[np.bool_]]:
    """The chance of the key of rank r is as 1/r."""
    weights = 1 / np.arange(1, records // 4 + 1)
    keys = rng.choice(len(weights), records, p=weights / weights.sum())
    return keys, np.zeros(records, np.bool_)


def cdc(records: int, rng: np.random.Generator) -> tuple[Keys, NDArray[np.bool_]]:
    """Of 10 records 3 insert a row; the others change one, mostly a recent one, or delete it."""
    inserts = rng.random(records) < 0.3
    inserts[0] = True
    rows = np.cumsum(inserts)
    ages = rng.exponential(records / 50, records).astype(np.int64) % rows
    keys = np.where(inserts, rows - 1, rows - 1 - ages)
    return keys, ~inserts & (rng.random(records) < 0.05)


def loaded_then_updated(
    records: int, rng: np.random.Generator
) -> tuple[Keys, NDArray[np.bool_]]:
    """A table is written once, 40 % of the log; then rows of it change, each as often."""
    rows = records * 2 // 5
    changes = rng.integers(0, rows, records - rows)
    return np.concatenate([np.arange(rows), changes]), np.zeros(records, np.bool_)


LOGS: Final = (
    DrawnLog(name="none, 1 KB values", records=40_000, keys=uniform, value_bytes=1024),
    DrawnLog(name="none, 100 B values", records=150_000, keys=uniform),
    DrawnLog(
        name="lz4, 1 KB text",
        records=40_000,
        keys=uniform,
        value_bytes=1024,
        codec=Codec.LZ4,
        is_text=True,
    ),
    DrawnLog(
        name="zstd, 1 KB text",
        records=40_000,
        keys=uniform,
        value_bytes=1024,
        codec=Codec.ZSTD,
        is_text=True,
    ),
    DrawnLog(name="Zipf", records=150_000, keys=zipf),
    DrawnLog(name="CDC", records=150_000, keys=cdc),
    DrawnLog(name="loaded, then updated", records=150_000, keys=loaded_then_updated),
)
"""The benchmark's four logs first (`tests.bench.logs`)."""


def put_drawn(folder: Path, log: DrawnLog, seed: int, segments: range | None = None) -> int:
    """Put segments of a log into a tier, as a broker uploads them; return the bytes of its `.log`s.

    `segments`: their numbers; None: all. With the first one the tier is made.
    """
    segments = range(log.segments) if segments is None else segments
    if 0 in segments:
        made_tier(folder)
    rng = np.random.default_rng(seed)
    keys, tombstones = log.keys(log.records, rng)
    per_batch = max(1, _BATCH_BYTES // log.value_bytes)
    batches = [*_batches(log, keys, tombstones, per_batch, rng)]
    tier = open_tier(str(folder))
    of_segment, size_bytes = -(-len(batches) // log.segments), 0
    for first in (number * of_segment for number in segments):
        start = first * per_batch
        upload = BrokerUpload(
            start_offset=start,
            log=b"".join(batches[first : first + of_segment]),
            index_interval_bytes=4096,
            lineage=(LeaderEpoch(epoch=0, start_offset=0),),
        )
        staged = tier.new_segment(new_address(ORDERS, start))
        for part, content in upload.parts().items():
            staged.put(part, content)
        size_bytes += len(upload.log)
    return size_bytes


def _batches(
    log: DrawnLog,
    keys: Keys,
    tombstones: NDArray[np.bool_],
    per_batch: int,
    rng: np.random.Generator,
) -> Iterator[bytes]:
    bytes_ = _text(rng) if log.is_text else rng.bytes(2**20)
    places = rng.integers(0, len(bytes_) - log.value_bytes, len(keys)).tolist()
    heads = [_record_heads(delta, log.value_bytes) for delta in range(per_batch)]
    empty = _varint(-1) + b"\0"
    names, gone = keys.tolist(), tombstones.tolist()
    for first in range(0, len(names), per_batch):
        records = []
        for number in range(first, min(first + per_batch, len(names))):
            whole, bare = heads[number - first]
            name = b"key-%020d" % names[number]
            at = places[number]
            if gone[number]:
                records.append(bare + name + empty)
            else:
                value = bytes_[at : at + log.value_bytes]
                records.append(whole + name + _varint(log.value_bytes) + value + b"\0")
        yield _batch(first, records, log.codec)


def _text(rng: np.random.Generator) -> bytes:
    letters = rng.integers(ord("a"), ord("z") + 1, (_WORDS, 7), np.uint8)
    words = [bytes(word) for word in letters]
    return b" ".join(words[i] for i in rng.integers(0, _WORDS, 130_000))


def _record_heads(delta: int, value_bytes: int) -> tuple[bytes, bytes]:
    """A record up to its key: with a value, and as a tombstone."""
    fields = b"\0\0" + _varint(delta) + _varint(_KEY_BYTES)
    length = len(fields) + _KEY_BYTES + 1
    whole = length + len(_varint(value_bytes)) + value_bytes
    return _varint(whole) + fields, _varint(length + len(_varint(-1))) + fields


def _varint(value: int) -> bytes:
    word, out = (value << 1) ^ (value >> 31), bytearray()
    while word > 0x7F:
        out.append(word & 0x7F | 0x80)
        word >>= 7
    return bytes([*out, word])


def _batch(base_offset: int, records: list[bytes], codec: Codec) -> bytes:
    payload = b"".join(records)
    if codec is not Codec.NONE:
        payload = bytes(compress(codec, payload))
    length = HEADER.size - LOG_OVERHEAD_BYTES + len(payload)
    fields = (0, 2, 0, int(codec), len(records) - 1, TIME_MS, TIME_MS, -1, -1, -1, len(records))
    batch = bytearray(HEADER.pack(base_offset, length, *fields) + payload)
    CRC.pack_into(batch, CRC_AT, crc32c(np.frombuffer(bytes(batch), np.uint8)))
    return bytes(batch)
