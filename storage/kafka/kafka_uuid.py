"""Draws new ids at random, of topics and of segments (`compaction.model.segment_ids`)."""

from __future__ import annotations

import uuid

from tierfold.compaction.model.segment_ids import SegmentMark, id_text, marked


def new_kafka_uuid() -> str:
    """A new id as a broker draws it: of version 4, and it does not begin with a dash."""
    while True:
        text = id_text(uuid.uuid4().bytes)
        if not text.startswith("-"):
            return text


def new_segment_id(mark: SegmentMark) -> str:
    """A new id that bears the mark; like Kafka's, it does not begin with a dash."""
    return marked(new_kafka_uuid(), mark)
