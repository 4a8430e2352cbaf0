"""Reads one segment by itself: `tierfold dump`, and `tierfold.read_segment`.

`dump` prints batches and records as JSON lines, like `DumpLogSegments`.

Field names are those of Kafka's `DumpLogSegments --print-data-log`. Bytes that are UTF-8 are
text; others are hexadecimal, under the same name with `Hex`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from os import environ
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.jobs.context.key_files import with_keys_of_environment
from tierfold.storage.kafka.batch_layout import NO_SEQUENCE
from tierfold.storage.kafka.compression import Codec, PlainLimits
from tierfold.storage.kafka.control_records import ControlType, coordinator_epoch
from tierfold.storage.segments.segment_reader import Record, unreadable
from tierfold.storage.segments.segment_tables import SegmentTables, segment_tables
from tierfold.storage.segments.segment_walk import WalkedBatch, mapped, walk, walk_log
from tierfold.storage.tiers.aiven.manifest import MANIFEST_BYTES_MAX, read_manifest
from tierfold.storage.tiers.aiven.object_names import (
    NAMES,
    ObjectNames,
    Suffix,
    partition_of,
)
from tierfold.storage.tiers.folder_handles import opened_file
from tierfold.storage.tiers.layout_options import AS_FOUND, Layout, LayoutOptions
from tierfold.storage.tiers.remote_tier import Part, SegmentAddress
from tierfold.storage.tiers.tier_uris import open_tier

_SEQUENCES: Final = 2**31
"""Sequence numbers wrap to 0 (Kafka `DefaultRecordBatch.incrementSequence`)."""


def dump_lines(
    segment_path: str, layout: LayoutOptions = AS_FOUND, batch_bytes_max: int = 0
) -> Iterator[str]:
    """Yield a line per batch, followed by a line per record of it, without reading ahead.

    A batch with a bad CRC has `isvalid` false and no records, and the dump continues. A `.log` with
    a manifest beside it is decoded, for which `layout` may have key files. `batch_bytes_max`: what
    a batch may expand to, as `decompressed.batch.max.bytes`.

    Raises:
        UnreadableObject: The file is missing or cannot be read.
        CorruptLog: The segment is corrupt; raised after the last line that can be read.
        BadSettings: The manifest names a key that `layout` lacks or that cannot be used.
    """
    invalid: list[WalkedBatch] = []
    batches = 0
    for batch in _walked(Path(segment_path), layout):
        # Decoded first: a legacy wrapper's base offset follows from its records.
        records, broken = _records(batch, PlainLimits(batch_bytes_max))
        yield _line(_batch_entry(batch, records))
        batches += 1
        if not batch.is_valid:
            invalid.append(batch)
        for record in records:
            yield _line(_record_entry(record))
        if broken is not None:
            raise broken
    if invalid:
        raise CorruptLog(
            f"{len(invalid)} of {batches} batches have a bad CRC, the first at byte"
            f" {invalid[0].position} (base offset {int(invalid[0].heads.base_offset[0])})",
            where=segment_path,
            remedy="If a backup of the segment has other bytes, dump that.",
        )


def read_segment(
    segment_path: str, layout: LayoutOptions = AS_FOUND, batch_bytes_max: int = 0
) -> SegmentTables:
    """Return the batches and records of a `.log` as two Arrow tables.

    A `.log` with Aiven's manifest beside it is decoded, for which `layout` may have key files. A
    batch with a bad CRC has `is_valid` false and no records. `batch_bytes_max`, and what is raised,
    at once: as of `dump_lines`.
    """
    path = Path(segment_path)
    log = _stored(path, layout)
    try:
        return segment_tables(
            mapped(path) if log is None else log, segment_path, PlainLimits(batch_bytes_max)
        )
    except CorruptLog as error:
        raise _with_setting(error, "decompressed_batch_max_bytes") from error


def _walked(path: Path, layout: LayoutOptions) -> Iterator[WalkedBatch]:
    """The batches of a file, or of the segment in Aiven's layout that it belongs to."""
    log = _stored(path, layout)
    return walk(path) if log is None else walk_log(log, str(path))


def _stored(path: Path, layout: LayoutOptions) -> NDArray[np.uint8] | None:
    """The decoded log of a segment in Aiven's layout; None: the file is the log."""
    manifest = path.with_suffix(f".{Suffix.MANIFEST}")
    found = NAMES.parse(path.name)
    topic = ObjectNames("").topic_of(path.absolute().parent.parent.name)
    number = partition_of(path.absolute().parent.name)
    if not manifest.exists() or found is None or topic is None or number is None:
        return None
    # The folder's name may begin with a key prefix, which the name in the manifest lacks.
    named = _topic_in(manifest)
    name = named if named is not None and topic[0].endswith(named) else topic[0]
    key = PartitionKey(topic=name, partition=number, topic_id=topic[1])
    address = SegmentAddress(key, found[1], found[0])
    own = replace(layout, layout=Layout.AIVEN, key_prefix=topic[0].removesuffix(name))
    options = with_keys_of_environment(own, environ)
    tier = open_tier(str(path.absolute().parents[2]), layout_options=options)
    return tier.read_part(address, Part.LOG)


def _topic_in(manifest: Path) -> str | None:
    try:
        with opened_file(manifest) as descriptor, open(descriptor, "rb", closefd=False) as file:
            data = file.read(MANIFEST_BYTES_MAX + 1)
        return read_manifest(data, str(manifest)).owner.topic
    except OSError as error:
        raise unreadable(error, str(manifest)) from error


def _records(
    batch: WalkedBatch, limits: PlainLimits
) -> tuple[tuple[Record, ...], CorruptLog | None]:
    """The records of a valid batch, or the error in a batch whose checksum is correct."""
    if not batch.is_valid:
        return (), None
    try:
        return batch.records(limits), None
    except CorruptLog as error:
        return (), _with_setting(error, "--decompressed-batch-max-bytes")


def _with_setting(error: CorruptLog, name: str) -> CorruptLog:
    """The error; if its remedy is the setting of a topic, with what has that effect here."""
    remedy = error.remedy.replace("decompressed.batch.max.bytes", name)
    return CorruptLog(error.what, where=error.where, remedy=remedy)


def _line(entry: dict[str, Any]) -> str:
    line = json.dumps(entry, ensure_ascii=False)
    if line.isprintable():
        return line
    # JSON escapes only the ASCII control characters; terminals interpret others too.
    return "".join(
        character if character.isprintable() else json.dumps(character)[1:-1] for character in line
    )


def _batch_entry(batch: WalkedBatch, records: tuple[Record, ...]) -> dict[str, Any]:
    heads = batch.heads
    is_legacy = bool(heads.is_legacy[0])
    base_offset = int(heads.base_offset[0])
    if is_legacy and records:
        base_offset = records[0].offset
    base_sequence = int(heads.base_sequence[0])
    last_delta = int(heads.last_offset[0]) - int(heads.base_offset[0])
    horizon_ms = int(heads.delete_horizon_ms[0])
    return {
        "t": "batch",
        "baseOffset": base_offset,
        "lastOffset": int(heads.last_offset[0]),
        "count": len(records) if is_legacy else int(heads.count[0]),
        "baseSequence": base_sequence,
        "lastSequence": (
            NO_SEQUENCE if base_sequence < 0 else (base_sequence + last_delta) % _SEQUENCES
        ),
        "producerId": int(heads.producer_id[0]),
        "producerEpoch": int(heads.producer_epoch[0]),
        "partitionLeaderEpoch": int(heads.leader_epoch[0]),
        "isTransactional": bool(heads.is_transactional[0]),
        "isControl": bool(heads.is_control[0]),
        "deleteHorizonMs": None if horizon_ms == NO_HORIZON else horizon_ms,
        "position": batch.position,
        "timestampType": _timestamp_type(batch),
        "maxTimestamp": int(heads.max_timestamp_ms[0]),
        "baseTimestamp": int(heads.base_timestamp_ms[0]),
        "size": int(heads.size_bytes[0]),
        "magic": int(heads.magic[0]),
        "compresscodec": Codec(int(heads.codec[0])).name.lower(),
        "crc": int(heads.crc[0]),
        "isvalid": batch.is_valid,
    }


def _timestamp_type(batch: WalkedBatch) -> str:
    """The names of Kafka's `TimestampType`."""
    if batch.heads.magic[0] == 0:
        return "NoTimestampType"
    return "LogAppendTime" if batch.heads.is_log_append_time[0] else "CreateTime"


def _record_entry(record: Record) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "t": "record",
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": record.sequence,
    }
    if record.control_type is not None:
        return entry | _control_fields(record, record.control_type)
    return (
        entry
        | {
            "headerKeys": [name.decode("utf-8", "backslashreplace") for name, _ in record.headers],
            "headers": [
                _bytes("key", name) | _bytes("value", value) for name, value in record.headers
            ],
        }
        | _bytes("key", record.key)
        | _bytes("value", record.value)
    )


def _control_fields(record: Record, kind: ControlType) -> dict[str, Any]:
    if kind in {ControlType.ABORT, ControlType.COMMIT}:
        return {"endTxnMarker": kind.name, "coordinatorEpoch": coordinator_epoch(record.value)}
    return {"controlType": kind.name} | _bytes("key", record.key) | _bytes("value", record.value)


def _bytes(name: str, content: bytes | None) -> dict[str, str | None]:
    """Text if the bytes are UTF-8, else hexadecimal; null stays null."""
    if content is None:
        return {name: None}
    try:
        return {name: content.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}Hex": content.hex()}
