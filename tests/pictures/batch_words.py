"""One batch written as one word, and read back; `log_pictures` defines the words."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from typing import Final

from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft
from tierfold.storage.kafka.control_records import ControlType, end_marker
from tierfold.storage.segments.segment_reader import Batch, Record

TIMESTAMP_MS: Final = 0
"""The timestamp of a record that is drawn without one."""
VERSION_HEADER: Final = "version"
"""The header of a record's versions."""

_EMPTY: Final = "''"
_PRODUCED: Final = re.compile(r"([Pp])(\d+)(?:\.(\d+))?\((.+)\)")
_MARKER: Final = re.compile(r"(\d+):P(\d+)(?:\.(\d+))?:(C|A|\(\))(?:\^(-?\d+))?")
_LEADER_CHANGE: Final = re.compile(r"(\d+):L")
_SPANNED: Final = re.compile(r"(?:(\d+)(?:-(\d+))?:)?(?:\[(.*)\]|(\(\)))(?:\^(-?\d+))?")
_RECORD: Final = re.compile(r"(\d+):([^=^\s]*)=([^=^\s@#]*)(?:@(-?\d+))?((?:#[^#^\s]+)*)")
_SINGLE: Final = re.compile(rf"({_RECORD.pattern})(?:\^(-?\d+))?")
_APPENDED: Final = re.compile(r"A(-?\d+)\((.+)\)")
_VERSION: Final = struct.Struct(">q")
_ENDS: Final = {"C": ControlType.COMMIT, "A": ControlType.ABORT}


def draft_of(word: str, leader_epoch: int) -> BatchDraft:
    """The batch that a word draws; raises ValueError if it draws none."""
    if found := _MARKER.fullmatch(word):
        offset, producer, epoch, what, horizon = found.groups()
        records = () if what == "()" else (_marker(int(offset), _ENDS[what]),)
        return BatchDraft(
            base_offset=int(offset),
            records=records,
            leader_epoch=leader_epoch,
            producer_id=int(producer),
            producer_epoch=int(epoch or 0),
            is_transactional=True,
            is_control=True,
            delete_horizon_ms=_number(horizon),
            max_timestamp_ms=TIMESTAMP_MS,
        )
    if found := _LEADER_CHANGE.fullmatch(word):
        record = _marker(int(found[1]), ControlType.LEADER_CHANGE)
        return BatchDraft(
            base_offset=int(found[1]),
            records=(record,),
            leader_epoch=leader_epoch,
            is_control=True,
        )
    if found := _APPENDED.fullmatch(word):
        return replace(
            draft_of(found[2], leader_epoch),
            is_log_append_time=True,
            max_timestamp_ms=int(found[1]),
        )
    kind, producer, epoch, body = "", None, None, word
    if found := _PRODUCED.fullmatch(word):
        kind, producer, epoch, body = found.groups()
    start, last, records, horizon_ms = _body(body)
    return BatchDraft(
        base_offset=start,
        records=records,
        last_offset=last,
        leader_epoch=leader_epoch,
        producer_id=-1 if producer is None else int(producer),
        producer_epoch=-1 if producer is None else int(epoch or 0),
        base_sequence=-1 if producer is None else 0,
        is_transactional=kind == "P",
        delete_horizon_ms=horizon_ms,
        max_timestamp_ms=None if records else TIMESTAMP_MS,
    )


def _body(text: str) -> tuple[int, int, tuple[RecordDraft, ...], int | None]:
    """The base offset, last offset, records and horizon of a batch of data."""
    if found := _SINGLE.fullmatch(text):
        record = _record(found[1])
        return record.offset, record.offset, (record,), _number(found[7])
    found = _SPANNED.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} draws no batch")
    start, last, inside, _, horizon = found.groups()
    records = tuple(_record(word) for word in (inside or "").split())
    if start is None and not records:
        raise ValueError(f"{text!r} does not say which offsets it has")
    first = int(start) if start is not None else records[0].offset
    end = last or (start if not records else records[-1].offset)
    return first, int(end or first), records, _number(horizon)


def _record(word: str) -> RecordDraft:
    found = _RECORD.fullmatch(word)
    if found is None:
        raise ValueError(f"{word!r} draws no record")
    offset, key, value, timestamp, versions = found.groups()
    return RecordDraft(
        offset=int(offset),
        timestamp_ms=TIMESTAMP_MS if timestamp is None else int(timestamp),
        key=_field(key),
        value=_field(value),
        headers=tuple(_header(version) for version in versions.split("#")[1:]),
    )


def _header(version: str) -> tuple[bytes, bytes | None]:
    """The header of a version: a number in 8 bytes, `null`, or the bytes of another word."""
    name = VERSION_HEADER.encode()
    if version == "null":
        return name, None
    if version.lstrip("-").isdigit():
        return name, _VERSION.pack(int(version))
    return name, version.encode()


def _field(text: str) -> bytes | None:
    return b"" if text == _EMPTY else text.encode() or None


def _marker(offset: int, kind: ControlType) -> RecordDraft:
    key, value = end_marker(0, kind)
    return RecordDraft(offset=offset, timestamp_ms=TIMESTAMP_MS, key=key, value=value)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def word_of(batch: Batch) -> str:
    """The word that draws a batch; raises ValueError if the language has none."""
    horizon = "" if batch.delete_horizon_ms is None else f"^{batch.delete_horizon_ms}"
    epoch = f".{batch.producer_epoch}" if batch.producer_epoch > 0 else ""
    if batch.is_control:
        return _control_word(batch, epoch) + horizon
    word = _data_word(batch) + horizon
    if batch.is_log_append_time:
        return f"A{batch.max_timestamp_ms}({word})"
    if batch.producer_id < 0:
        return word
    return f"{'P' if batch.is_transactional else 'p'}{batch.producer_id}{epoch}({word})"


def _control_word(batch: Batch, epoch: str) -> str:
    who = f"{batch.base_offset}:P{batch.producer_id}{epoch}"
    if not batch.records:
        return f"{who}:()"
    kind = batch.records[0].control_type
    words = {
        ControlType.COMMIT: f"{who}:C",
        ControlType.ABORT: f"{who}:A",
        ControlType.LEADER_CHANGE: f"{batch.base_offset}:L",
    }
    if kind not in words:
        raise ValueError(f"no word for a control record of type {kind}")
    return words[kind]


def _data_word(batch: Batch) -> str:
    is_one = batch.base_offset == batch.last_offset
    span = f"{batch.base_offset}" if is_one else f"{batch.base_offset}-{batch.last_offset}"
    if not batch.records:
        return f"{span}:()"
    shown = TIMESTAMP_MS if not batch.is_log_append_time else batch.max_timestamp_ms
    words = [_record_word(record, shown) for record in batch.records]
    if is_one:
        return words[0]
    inside = f"[{' '.join(words)}]"
    known = (batch.records[0].offset, batch.records[-1].offset)
    return inside if known == (batch.base_offset, batch.last_offset) else f"{span}:{inside}"


def _record_word(record: Record, shown_ms: int) -> str:
    """The word of a record; a timestamp of `shown_ms` is not drawn."""
    written = "" if record.timestamp_ms == shown_ms else f"@{record.timestamp_ms}"
    versions = "".join(f"#{_version(value)}" for _, value in record.headers)
    return f"{record.offset}:{_text(record.key)}={_text(record.value)}{written}{versions}"


def _version(value: bytes | None) -> str:
    if value is None:
        return "null"
    return str(_VERSION.unpack(value)[0]) if len(value) == _VERSION.size else value.decode()


def _text(field: bytes | None) -> str:
    return "" if field is None else field.decode() or _EMPTY
