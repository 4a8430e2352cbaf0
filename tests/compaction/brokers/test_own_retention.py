"""What is refused of the retention that tierfold itself has for a topic, beside that of brokers."""

from __future__ import annotations

from dataclasses import replace

from tests.compaction.brokers.test_preconditions import (
    COMPACT,
    COMPACT_DELETE,
    GOOD,
    ID,
    cluster,
    configs,
    refusals,
    topic,
)
from tierfold.compaction.brokers.cluster_facts import TopicFacts, TopicSetup
from tierfold.compaction.brokers.preconditions import (
    PreconditionCode,
    deletion_right,
    topic_notes,
)
from tierfold.compaction.model.rules import DAY_MS

UNWRITTEN = replace(COMPACT_DELETE, retention_ms=7 * DAY_MS, retention_written=frozenset())
A_DAY = replace(COMPACT_DELETE, retention_ms=DAY_MS)


def test_a_default_retention_is_refused_where_brokers_keep_everything() -> None:
    (found,) = refusals(configs(GOOD), UNWRITTEN)
    assert found.code == PreconditionCode.RETENTION_UNWRITTEN
    assert "no retention.ms is written for it" in found.detail
    assert 'Write "retention.ms" under [topics."orders"]' in found.remedy
    for rules in (COMPACT, COMPACT_DELETE, A_DAY):
        assert refusals(configs(GOOD), rules) == ()
    by_size = replace(UNWRITTEN, retention_written=frozenset({"retention_bytes"}))
    assert refusals(configs(GOOD), by_size) == ()


def test_brokers_that_delete_themselves_need_no_retention_here() -> None:
    finite = GOOD | {"retention.ms": str(DAY_MS)}
    assert refusals(configs(finite), UNWRITTEN) == ()
    assert refusals(configs(finite), A_DAY) == ()


def test_what_is_wrong_with_brokers_is_said_beside_it() -> None:
    found = refusals(configs(GOOD | {"retention.bytes": "5"}), UNWRITTEN)
    codes = [one.code for one in found]
    assert codes == [PreconditionCode.RETENTION_UNWRITTEN, PreconditionCode.RETENTION_BYTES]


def test_a_retention_below_that_of_local_data_is_refused_as_kafka_does() -> None:
    in_seconds = replace(COMPACT_DELETE, retention_ms=604_800)
    (found,) = refusals(configs(GOOD), in_seconds)
    assert found.code == PreconditionCode.RETENTION_BELOW_LOCAL
    assert "is 604800, less than the 3600000 ms" in found.detail
    assert refusals(configs(GOOD), replace(in_seconds, retention_ms=3_600_000)) == ()
    assert refusals(configs(GOOD), replace(in_seconds, retention_written=frozenset())) != ()
    sized = GOOD | {"local.retention.ms": "-1", "local.retention.bytes": "5"}
    assert refusals(configs(sized), in_seconds) == ()


def test_the_right_to_move_the_log_start_is_asked_for_where_retention_needs_it() -> None:
    facts = TopicFacts(name="orders", topic_id=ID, partitions=1, lacks_delete=True)
    denied = TopicSetup(name="orders", facts=facts, configs=configs(GOOD))
    found = deletion_right(denied, cluster(), A_DAY)
    assert found is not None
    assert found.code == PreconditionCode.RIGHT_MISSING
    assert "the right Delete on topic orders is missing" in found.detail
    assert "--operation Delete --topic orders" in found.remedy
    assert any("Delete on topic orders" in note for note in topic_notes(denied, cluster(), A_DAY))
    for rules in (COMPACT, COMPACT_DELETE, UNWRITTEN):
        assert deletion_right(denied, cluster(), rules) is None
    assert deletion_right(topic(configs(GOOD)), cluster(), A_DAY) is None
    assert topic_notes(topic(configs(GOOD)), cluster(), A_DAY) == ()
