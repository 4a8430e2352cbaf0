"""New segment ids are unique, and only Kafka's own spelling of a UUID is accepted."""

from __future__ import annotations

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.storage.kafka.kafka_uuid import is_kafka_uuid, is_own_id, new_segment_id


def test_new_ids_differ_and_look_like_kafkas() -> None:
    ids = {new_segment_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(is_kafka_uuid(text) and not text.startswith("-") for text in ids)


def test_an_id_of_ours_is_known_and_a_brokers_is_not() -> None:
    assert all(is_own_id(new_segment_id()) for _ in range(200))
    brokers = (base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22] for _ in range(200))
    assert not any(map(is_own_id, brokers))
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
