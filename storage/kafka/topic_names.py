"""The names that Kafka allows for topics.

Rule: Kafka `org.apache.kafka.common.internals.Topic.validate`.
"""

from __future__ import annotations

import re
from typing import Final

TOPIC_CHARACTER: Final = r"[a-zA-Z0-9._-]"

TOPIC_CHARACTERS_MOST: Final = 249

TOPIC_PATTERN: Final = rf"{TOPIC_CHARACTER}{{1,{TOPIC_CHARACTERS_MOST}}}"
"""Characters and length; `NO_TOPICS` also match, but are not allowed."""

NO_TOPICS: Final = (".", "..")
"""As folder names they would lead to other folders."""

_TOPIC: Final = re.compile(TOPIC_PATTERN)


def is_topic(name: str) -> bool:
    """Whether Kafka allows `name` for a topic."""
    return _TOPIC.fullmatch(name) is not None and name not in NO_TOPICS
