"""Whatever happens to a log's bytes, reading it succeeds or says `CorruptLog`; nothing else."""

from __future__ import annotations

import random

import numpy as np
import pytest

from compaction.errors import CorruptLog
from storage.batch_heads import read_heads
from storage.legacy_batches import decode_any
from storage.records import windows
from storage.segment_reader import Batch, Record, SegmentContent
from tests.storage.kafka_dumps import NAMES, log_bytes

HARMS_PER_LOG = 150


def harmed(log: bytes, dice: random.Random) -> bytes:
    """One to three bytes changed, a cut, or a stretch repeated."""
    made = bytearray(log)
    kind = dice.randrange(4)
    if kind == 0:
        del made[dice.randrange(len(made)) :]
    elif kind == 1:
        start = dice.randrange(len(made))
        made[start:start] = made[start : start + dice.randrange(1, 200)]
    else:
        for _ in range(dice.randrange(1, 4)):
            made[dice.randrange(len(made))] = dice.randrange(256)
    return bytes(made)


def read_all(log: bytes, *, check_crc: bool) -> list[Batch] | None:
    """Every batch with its records; None: refused."""
    view = np.frombuffer(log, np.uint8)
    try:
        heads = read_heads(view, where="harmed", check_crc=check_crc)
        return list(SegmentContent(heads=heads, log=view, where="harmed").batches())
    except CorruptLog:
        return None


@pytest.mark.parametrize("name", NAMES)
def test_with_checksums_harm_is_refused_or_shows_in_the_heads(name: str) -> None:
    dice, log = random.Random(f"checked {name}"), log_bytes(name)
    whole = [batch.records for batch in read_all(log, check_crc=True) or ()]
    for _ in range(HARMS_PER_LOG):
        found = read_all(harmed(log, dice), check_crc=True)
        # Offsets and the leader epoch lie outside the checksum, so content is what must agree.
        if found is not None and len(found) == len(whole):
            assert [keys_and_values(batch.records) for batch in found] == [
                keys_and_values(records) for records in whole
            ]


def keys_and_values(records: tuple[Record, ...]) -> list[tuple[object, ...]]:
    return [(record.key, record.value, record.headers) for record in records]


@pytest.mark.parametrize("name", NAMES)
def test_without_checksums_harm_is_read_or_refused(name: str) -> None:
    dice, log = random.Random(f"unchecked {name}"), log_bytes(name)
    outcomes = [read_all(harmed(log, dice), check_crc=False) for _ in range(HARMS_PER_LOG)]
    assert any(found is None for found in outcomes)


@pytest.mark.parametrize("name", NAMES)
def test_columns_never_point_out_of_the_body(name: str) -> None:
    dice, log = random.Random(f"columns {name}"), log_bytes(name)
    for _ in range(HARMS_PER_LOG):
        view = np.frombuffer(harmed(log, dice), np.uint8)
        try:
            heads = read_heads(view, where="harmed", check_crc=False)
            for first, last in windows(heads, window_bytes=4096):
                records = decode_any(view, heads.slice(first, last), where="harmed")
                key_end = records.key_at + np.maximum(records.key_bytes, 0)
                value_end = records.value_at + np.maximum(records.value_bytes, 0)
                assert (records.start < records.key_at).all()
                assert (key_end <= records.value_at).all()
                assert (value_end <= records.headers_at).all()
                assert (records.headers_at <= records.end).all()
                assert (records.end <= records.body.size).all()
        except CorruptLog:
            continue
