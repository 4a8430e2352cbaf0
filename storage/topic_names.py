"""What a topic may be called. Rule: Kafka `org.apache.kafka.common.internals.Topic.validate`."""

from __future__ import annotations

import re
from typing import Final

TOPIC_PATTERN: Final = r"[a-zA-Z0-9._-]{1,249}"
"""Its characters and its length; the names in `NO_TOPICS` fit too, and are none."""

NO_TOPICS: Final = (".", "..")
"""As folders they would lead elsewhere."""

_TOPIC: Final = re.compile(TOPIC_PATTERN)


def is_topic(name: str) -> bool:
    """Whether Kafka would take it for a topic's name."""
    return _TOPIC.fullmatch(name) is not None and name not in NO_TOPICS
