"""Kafka's ids as text: 16 bytes as 22 characters of url-safe base64 without padding.

Rule: Kafka `org.apache.kafka.common.Uuid`. An id may hold `-` and `_`, so a name that contains an
id cannot be split at its dashes.
"""

from __future__ import annotations

import base64
import re
import uuid
from typing import Final

KAFKA_UUID_PATTERN: Final = r"[A-Za-z0-9_-]{21}[AQgw]"
"""22 characters hold 132 bits. The last four are zero, so only four last characters occur."""

_KAFKA_UUID: Final = re.compile(KAFKA_UUID_PATTERN)


def new_segment_id() -> str:
    """A new random id; like Kafka's, it does not begin with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def is_kafka_uuid(text: str) -> bool:
    """Whether `text` is an id as Kafka prints it; 16 bytes have only one such spelling."""
    return _KAFKA_UUID.fullmatch(text) is not None
