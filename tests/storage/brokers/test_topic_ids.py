"""Topic ids are in Kafka's own alphabet, as in the names of a tier's folders."""

from __future__ import annotations

import uuid

from confluent_kafka import Uuid

from tierfold.compaction.model.segment_ids import is_kafka_uuid
from tierfold.storage.brokers.facts import topic_id_text


def test_an_id_is_printed_as_kafka_prints_it() -> None:
    assert topic_id_text(Uuid(-1, -1)) == "_____________________w"
    assert topic_id_text(Uuid(-0x0410410410410411, 0)) == "----------8AAAAAAAAAAA"
    assert is_kafka_uuid(topic_id_text(Uuid(uuid.uuid4().int >> 65, -2)))
