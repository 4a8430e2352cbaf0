"""Kafka's ids as text: 16 bytes as 22 characters of url-safe base64 without padding.

Rule: Kafka `org.apache.kafka.common.Uuid`. An id may hold `-` and `_`, so a name that contains an
id cannot be split at its dashes.

A segment's id shows whether tierfold made it: half of it is random, the rest is a hash of that
half. Brokers draw random ids, of which one in 2**64 looks like ours. So an unfinished upload of a
run that died is known as such, although nothing recorded it.
"""

from __future__ import annotations

import base64
import re
import uuid
from hashlib import blake2b
from typing import Final

KAFKA_UUID_PATTERN: Final = r"[A-Za-z0-9_-]{21}[AQgw]"
"""22 characters hold 132 bits. The last four are zero, so only four last characters occur."""

_KAFKA_UUID: Final = re.compile(KAFKA_UUID_PATTERN)


def new_segment_id() -> str:
    """A new id that `is_own_id`; like Kafka's, it does not begin with a dash."""
    while True:
        drawn = uuid.uuid4().bytes
        text = _text(_own(drawn[:4] + drawn[-4:]))
        if not text.startswith("-"):
            return text


def is_own_id(text: str) -> bool:
    """Whether tierfold made the id of a segment."""
    if not is_kafka_uuid(text):
        return False
    return text == _text(_own(base64.urlsafe_b64decode(f"{text}==")[:8]))


def _own(drawn: bytes) -> bytes:
    return drawn + blake2b(drawn, digest_size=8, person=b"tierfold").digest()


def _text(id_bytes: bytes) -> str:
    return base64.urlsafe_b64encode(id_bytes).decode("ascii").rstrip("=")


def is_kafka_uuid(text: str) -> bool:
    """Whether `text` is an id as Kafka prints it; 16 bytes have only one such spelling."""
    return _KAFKA_UUID.fullmatch(text) is not None
