"""New segment ids are unique, and only Kafka's own spelling of a UUID is accepted."""

from __future__ import annotations

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.model.segment_ids import (
    FINGERPRINT_BITS,
    SegmentMark,
    is_kafka_uuid,
    is_own_id,
    is_uploaded_id,
    mark_of,
)
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid, new_segment_id


def test_new_ids_differ_and_look_like_kafkas() -> None:
    mark = SegmentMark(1, is_restored=True)
    ids = {new_segment_id(mark) for _ in range(2000)} | {new_kafka_uuid() for _ in range(2000)}
    assert len(ids) == 4000
    assert all(is_kafka_uuid(text) and not text.startswith("-") for text in ids)


@given(st.builds(SegmentMark, st.integers(0, 2**FINGERPRINT_BITS - 1), st.booleans()))
def test_an_id_bears_its_mark(mark: SegmentMark) -> None:
    text = new_segment_id(mark)
    number = uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))
    assert (number.version, number.variant) == (5 if mark.is_uploaded else 8, uuid.RFC_4122)
    assert mark_of(text) == mark
    assert is_own_id(text) is not mark.is_uploaded
    assert is_uploaded_id(text) is mark.is_uploaded


@given(st.binary(min_size=16, max_size=16), st.integers(0, 15), st.integers(0, 3))
def test_only_a_uuid_of_version_8_or_5_bears_a_mark(raw: bytes, version: int, variant: int) -> None:
    number = int.from_bytes(raw, "big") & ~(0xF << 76 | 0b11 << 62) | version << 76 | variant << 62
    text = base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")
    assert (mark_of(text) is not None) is (uuid.UUID(int=number).version in {8, 5})


def test_an_id_of_an_older_tierfold_is_known_without_a_mark() -> None:
    text = "AAECAwQFBgd80JKRLf0jHg"
    assert is_own_id(text)
    assert mark_of(text) is None


def test_a_brokers_id_bears_no_mark() -> None:
    brokers = [new_kafka_uuid() for _ in range(200)]
    assert not any(map(is_own_id, brokers))
    assert {*map(mark_of, [*brokers, "short"])} == {None}
    assert not is_own_id("short")


@given(st.binary(min_size=16, max_size=16))
def test_every_16_bytes_are_an_id(raw: bytes) -> None:
    assert is_kafka_uuid(base64.urlsafe_b64encode(raw).decode().rstrip("="))


@given(st.text("AQZaz09-_gw", min_size=22, max_size=22))
def test_only_ids_as_kafka_prints_them_are_accepted(text: str) -> None:
    printed = base64.urlsafe_b64encode(base64.urlsafe_b64decode(text + "==")).decode()
    assert is_kafka_uuid(text) == (printed.rstrip("=") == text)


@pytest.mark.parametrize(
    "text",
    ["", "A" * 21, "A" * 23, "A" * 21 + "+", "A" * 21 + "B", "A" * 22 + "\n", "A" * 20 + "=="],
)
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_kafka_uuid(text)
