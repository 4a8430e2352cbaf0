"""Control batches are recognised by type, and end markers carry their coordinator epoch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.storage.decoded_logs import decoded, one_record
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.kafka.batch_draft import BatchDraft, write_batch
from tierfold.storage.kafka.control_records import (
    EMPTIED,
    NOT_CONTROL,
    ControlType,
    control_type,
    control_types,
    coordinator_epoch,
    end_marker,
)


def control_batch(offset: int, key: bytes | None) -> bytes:
    return write_batch(replace(one_record(offset, key=key), is_control=True))


def types_in(log: bytes) -> list[int]:
    found = decoded(log)
    return control_types(found.records, found.heads, where="a log").tolist()


def test_each_batch_has_its_type() -> None:
    log = b"".join(
        (
            write_batch(one_record(0, key=b"\x00\x00\x00\x01")),
            control_batch(1, end_marker(3, ControlType.ABORT)[0]),
            control_batch(2, end_marker(3, ControlType.COMMIT)[0]),
            write_batch(BatchDraft(base_offset=3, is_control=True)),
            control_batch(4, bytes.fromhex("0000 0002 ffff")),
            control_batch(5, bytes.fromhex("0001 0fff")),
            write_batch(BatchDraft(base_offset=6)),
        )
    )
    expected = [NOT_CONTROL, 0, 1, EMPTIED, ControlType.LEADER_CHANGE, 0x0FFF, NOT_CONTROL]
    assert types_in(log) == expected


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01", b"\0\0\xff\xff"])
def test_a_key_without_a_type_is_a_corrupt_log(key: bytes | None) -> None:
    with pytest.raises(CorruptLog, match=r"a log: the control batch at byte 61 \(base offset 8\)"):
        types_in(write_batch(BatchDraft(base_offset=0)) + control_batch(8, key))


def test_an_end_marker_has_its_kind_and_epoch() -> None:
    key, value = end_marker(5, ControlType.COMMIT)
    assert (key.hex(), value.hex()) == ("00000001", "000000000005")
    assert control_type(key) is ControlType.COMMIT
    assert coordinator_epoch(value) == 5
    assert coordinator_epoch(value + b"later versions may say more") == 5


@pytest.mark.parametrize("value", [None, b"", b"\x00" * 5])
def test_a_value_without_an_epoch_gives_none(value: bytes | None) -> None:
    assert coordinator_epoch(value) is None


@pytest.mark.parametrize("key", [None, b"\x00", b"\xff\xff\x00\x00", b"\x00\x00\x00\x63"])
def test_a_type_that_kafka_lacks_is_unknown(key: bytes | None) -> None:
    assert control_type(key) is ControlType.UNKNOWN
