"""Compiles every kernel by running the verbs on a small tier, without Spark.

numba compiles a kernel at its first call, once for each kind of arguments (read-only and writable
arrays are two kinds), and caches the machine code in `__pycache__` beside the source, for every
process that runs the same files. So the tier has each kind of batch, and its partitions have one
segment or several: the keys of one segment are views of a row's payload, those of several are not.

    python -m tierfold.jobs.verbs.kernel_warmup
"""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey
from tierfold.compaction.model.units import OffsetSpan
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.scope import EVERYTHING, Scope
from tierfold.jobs.engines.engine_choice import in_process
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.compact import compact
from tierfold.jobs.verbs.verify import verify
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.checksums import checksum
from tierfold.storage.kafka.compression import Codec, compress
from tierfold.storage.kafka.control_records import ControlType, end_marker
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.private_folders import scratch_parent
from tierfold.storage.segments.arrow_records import record_batches
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.segments.log_pieces import pieces_of, read_piece
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER

EPOCH: Final = LeaderEpoch(epoch=0, start_offset=0)
HEADER: Final = "version"
TIMESTAMP_MS: Final = 1_700_000_000_000
ABORTED: Final = AbortedTransaction(
    producer_id=1, first_offset=2, last_offset=4, last_stable_offset=5
)
FIELDS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("value_digest", pa.binary()),
        ("version", pa.int64()),
    ]
)
"""The columns of a DataFrame that kernels fill: copied bytes, headers, and derived values."""

_ENGINE: Final = in_process(2**30)
_LEGACY: Final = struct.Struct(">qiIbbqi")
"""Offset, size, crc, magic, attributes, timestamp, key length: a message of magic 1 (KIP-32)."""


def warm_kernels() -> None:
    """Run every kernel once for each kind of arguments that the jobs use."""
    with tempfile.TemporaryDirectory(prefix="tierfold-warmup-", dir=scratch_parent()) as folder:
        (Path(folder) / TIER_FOLDER).mkdir()
        context = run_context(folder)
        for strategy in CompactionStrategy:
            _put(context, _key(strategy), _first_log())
            _put(context, _key(strategy, 1), _first_log(), _second_log())
            _compact(context, strategy)
        # Another round on what is clean, which has key indexes.
        _put(context, _key(CompactionStrategy.OFFSET), _second_log())
        _put(context, _key(CompactionStrategy.OFFSET, 1), _second_log(13))
        _compact(context, CompactionStrategy.OFFSET)
        _put(context, _key("legacy"), _legacy_log())
        _read(context, _key(CompactionStrategy.HEADER))
        found = verify(context, resolve([]), EVERYTHING, engine=_ENGINE)
        _refuse([corruption for partition in found for corruption in partition.corruptions])


def _refuse(failures: list[str]) -> None:
    """A partition that was left out would leave kernels uncompiled."""
    if failures:
        raise RuntimeError(f"the warm-up failed, a bug: {failures}")


def _key(topic: str, partition: int = 0) -> PartitionKey:
    return PartitionKey(topic=topic, partition=partition, topic_id=f"{topic:A<22}")


def _put(context: RunContext, key: PartitionKey, *logs: bytes) -> None:
    """Write the logs as a broker uploads them; the first one has an aborted transaction."""
    for log in logs:
        upload = BrokerUpload(
            start_offset=int.from_bytes(log[:8]),
            log=log,
            index_interval_bytes=1,
            lineage=(EPOCH,),
            aborted=(ABORTED,) if log == _first_log() else (),
        )
        upload.put(context.tier, key)


def _compact(context: RunContext, strategy: CompactionStrategy) -> None:
    settings = [
        "cleanup.policy=compact",
        "min.cleanable.dirty.ratio=0",
        f"compaction.strategy={strategy}",
        # Smaller than a window, so that its records are compared with it.
        "max.decompressed.message.bytes=100",
    ]
    if strategy is CompactionStrategy.HEADER:
        settings.append(f"compaction.strategy.header={HEADER}")
    scope = Scope(topics=(strategy,))
    reports = compact(context, resolve(settings), scope, engine=_ENGINE)
    _refuse([report.reason for report in reports if not report.objects_written])


def _read(context: RunContext, key: PartitionKey) -> None:
    """As a DataFrame does in `jobs.sources.segment_source`."""
    versions = VersionSource(strategy=CompactionStrategy.HEADER, header=HEADER)
    (segment,) = context.catalog.read([key])[key].segments
    wanted = OffsetSpan(start=segment.start_offset, end=segment.next_offset)
    for piece in pieces_of(context.tier, key, segment, wanted, (ABORTED,), segment.size_bytes):
        for chosen in read_piece(context.tier, piece):
            list(record_batches(key, chosen, FIELDS, versions))


def _record(offset: int, key: bytes | None, value: bytes | None) -> RecordDraft:
    return RecordDraft(
        offset=offset,
        timestamp_ms=TIMESTAMP_MS + offset,
        key=key,
        value=value,
        headers=((HEADER.encode(), struct.pack(">q", offset)), (b"null", None)),
    )


def _batch(*records: RecordDraft, is_control: bool = False, codec: Codec = Codec.NONE) -> bytes:
    """The records as a batch; those of the aborted transaction have its producer."""
    base_offset = records[0].offset
    is_aborted = ABORTED.first_offset <= base_offset <= ABORTED.last_offset
    draft = BatchDraft(
        base_offset=base_offset,
        records=records,
        codec=codec,
        leader_epoch=EPOCH.epoch,
        producer_id=ABORTED.producer_id if is_aborted else -1,
        producer_epoch=0 if is_aborted else -1,
        base_sequence=0 if is_aborted and not is_control else -1,
        is_transactional=is_aborted,
        is_control=is_control,
    )
    return write_batch(draft)


def _first_log() -> bytes:
    """A repeated key, a transaction with its ABORT marker, and a record without a key."""
    key, value = end_marker(0, ControlType.ABORT)
    marker = RecordDraft(offset=4, timestamp_ms=TIMESTAMP_MS, key=key, value=value)
    return (
        _batch(_record(0, b"a longer key", b"old"), _record(1, b"a longer key", b"new"))
        + _batch(_record(2, b"lost", b"1"), _record(3, b"lost", b"2"))
        + _batch(marker, is_control=True)
        + _batch(_record(5, b"kept", b"x"), _record(9, None, b"no key"))
    )


def _second_log(start: int = 10) -> bytes:
    """A compressed batch: its records are in a separate buffer."""
    fields = ((b"kept", b"y"), (b"kept", b"z"), (b"gone", None))
    records = (_record(start + i, key, value) for i, (key, value) in enumerate(fields))
    return _batch(*records, codec=Codec.GZIP)


def _legacy_log() -> bytes:
    """A message of magic 1, and a compressed one with an inner message."""
    inner = _message(0, Codec.NONE, b"key", b"newer")
    wrapper = _message(1, Codec.GZIP, None, compress(Codec.GZIP, inner))
    return _message(0, Codec.NONE, b"key", b"value") + wrapper


def _message(offset: int, codec: Codec, key: bytes | None, value: bytes) -> bytes:
    tail = (key or b"") + struct.pack(">i", len(value)) + value
    size_bytes = _LEGACY.size - 12 + len(tail)
    key_bytes = -1 if key is None else len(key)

    def whole(crc: int) -> bytes:
        return _LEGACY.pack(offset, size_bytes, crc, 1, codec, TIMESTAMP_MS, key_bytes) + tail

    return whole(checksum(np.frombuffer(whole(0), np.uint8), magic=1))


if __name__ == "__main__":
    warm_kernels()
