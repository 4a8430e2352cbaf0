"""Small logs that Kafka's own classes wrote, and what Kafka's own classes read in them.

`golden/NAME.log` is a segment, `golden/NAME.jsonl.gz` the dump of it, one JSON object per batch and
per record; `NAME.cleaned.*` is what Kafka's cleaner made of NAME.
"""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from tierfold.storage.segments.segment_reader import Batch, Record, read_segment

GOLDEN = Path(__file__).parent / "golden"
CLEANED = sorted(path.name[: -len(".cleaned.log")] for path in GOLDEN.glob("*.cleaned.log"))
NAMES = sorted(path.name[: -len(".log")] for path in GOLDEN.glob("*.log"))


def log_bytes(name: str) -> bytes:
    return (GOLDEN / f"{name}.log").read_bytes()


def kafka_reads(name: str) -> list[dict[str, Any]]:
    """The dump's batches, each with its `records`; without derived fields."""
    batches: list[dict[str, Any]] = []
    for line in gzip.decompress((GOLDEN / f"{name}.jsonl.gz").read_bytes()).splitlines():
        entry = json.loads(line)
        kind = entry.pop("t")
        if kind == "batch":
            assert entry.pop("valid")
            for derived in ("file", "attributes", "lastSequence"):
                entry.pop(derived)
            batches.append({**entry, "records": []})
        elif kind == "record":
            entry.pop("coordinatorEpoch", None)
            batches[-1]["records"].append(entry)
    return batches


def we_read(source: Path | bytes) -> list[dict[str, Any]]:
    """What `read_segment` finds, in the dump's format."""
    return [_batch(batch) for batch in read_segment(source).batches()]


def _batch(batch: Batch) -> dict[str, Any]:
    timestamp_type = "LogAppendTime" if batch.is_log_append_time else "CreateTime"
    entry: dict[str, Any] = {
        "pos": batch.position,
        "size": batch.size_bytes,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "magic": batch.magic,
        "codec": batch.codec,
        "producerId": batch.producer_id,
        "epoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "partitionLeaderEpoch": batch.leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "timestampType": timestamp_type if batch.magic else "NoTimestampType",
        "maxTimestamp": batch.max_timestamp_ms,
        "deleteHorizonMs": batch.delete_horizon_ms,
        "count": len(batch.records) if batch.magic == 2 else None,
        "crc": batch.crc,
        "records": [_record(record) for record in batch.records],
    }
    if batch.magic == 2:
        entry["baseTimestamp"] = batch.base_timestamp_ms
    return entry


def _record(record: Record) -> dict[str, Any]:
    value = record.value
    entry: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "sequence": record.sequence,
        "key": None if record.key is None else record.key.hex(),
        "valueLen": -1 if value is None else len(value),
        "valueCrc32": None if value is None else f"{zlib.crc32(value):08x}",
        "headers": [
            [name.decode(), None if content is None else content.hex()]
            for name, content in record.headers
        ],
    }
    if value is not None:
        entry["value"] = value.hex()
    if record.control_type is not None:
        entry["controlType"] = record.control_type.name
    return entry
