"""Kafka's ids as text: 16 bytes as 22 characters of url-safe base64 without padding.

Rule: Kafka `org.apache.kafka.common.Uuid`. Such an id may hold `-` and `_`, so names that contain
one are cut by length, never at a dash.
"""

from __future__ import annotations

import base64
import re
import uuid
from typing import Final

UUID_CHARACTERS: Final = 22

KAFKA_UUID_PATTERN: Final = r"[A-Za-z0-9_-]{21}[AQgw]"
"""22 characters hold 132 bits; the last four are zero, which leaves four last characters."""

_KAFKA_UUID: Final = re.compile(KAFKA_UUID_PATTERN)


def new_segment_id() -> str:
    """A new random id; like Kafka's, it never begins with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def is_kafka_uuid(text: str) -> bool:
    """Whether Kafka could have printed `text` as an id: the one spelling of some 16 bytes."""
    return _KAFKA_UUID.fullmatch(text) is not None
