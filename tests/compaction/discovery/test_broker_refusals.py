"""Partitions share the refusal for how their cluster and their topics are set up."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.compaction.brokers.test_preconditions import (
    COMPACT,
    GOOD,
    ID,
    cluster,
    configs,
    denied,
    topic,
)
from tests.compaction.builders import KEY
from tierfold.compaction.brokers.cluster_configs import Configs
from tierfold.compaction.brokers.cluster_facts import ClusterSetup, TopicFacts, TopicSetup
from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.discovery.broker_refusals import rights_refusals, setup_refusals
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import PartitionKey


def looked(setup: ClusterSetup, values: Configs) -> ClusterView:
    return ClusterView(
        cluster_id="c",
        setup=setup,
        records=0,
        partitions={},
        topics={KEY.topic: replace(topic(values), name=KEY.topic)},
    )


def refusals_of(look: ClusterView, *keys: PartitionKey) -> dict[PartitionKey, Refusal]:
    rules = dict.fromkeys((key.topic for key in keys), COMPACT)
    return setup_refusals(look, keys, rules, declared=None, grace_ms=DAY_MS)


def test_a_partition_has_one_refusal_that_says_each_remedy_once() -> None:
    values = configs(GOOD | {"retention.bytes": "1", "retention.ms": "1"})
    key, late = replace(KEY, topic_id=ID), {"message.timestamp.before.max.ms": "99999999999"}
    look = looked(cluster(late), values)
    (refusal,) = refusals_of(look, key).values()
    assert refusal.reason is RefusalReason.PRECONDITION
    for code in ("late_sends", "retention_bytes", "retention_ms"):
        assert f"[{code}]" in refusal.detail
    assert refusal.remedy.count("--entity-name orders") == 1
    assert refusal.remedy.count("--entity-name __remote_log_metadata") == 1
    good = looked(cluster(), configs(GOOD))
    assert refusals_of(good, key) == {}


def test_partitions_share_the_refusal_of_their_topic() -> None:
    look = looked(cluster(), configs(GOOD | {"retention.bytes": "1"}))
    keys = [replace(KEY, topic_id=ID, partition=number) for number in range(3)]
    found = refusals_of(look, *keys)
    assert [*found] == keys
    assert len({id(refusal) for refusal in found.values()}) == 1


def test_each_precondition_is_a_part_of_its_own_with_its_code() -> None:
    values = configs(GOOD | {"retention.bytes": "1", "retention.ms": "1"})
    late = {"message.timestamp.before.max.ms": "99999999999"}
    (refusal,) = refusals_of(looked(cluster(late), values), replace(KEY, topic_id=ID)).values()
    codes = ["late_sends", "retention_bytes", "retention_ms"]
    assert [part.code for part in refusal.parts] == codes
    assert not any("[" in part.detail for part in refusal.parts)
    gap = replace(refusal, reason=RefusalReason.GAP, preconditions=())
    assert [(part.code, part.detail) for part in gap.parts] == [("gap", gap.detail)]


def test_topics_without_rights_share_one_refusal_with_one_command() -> None:
    setups = [
        TopicSetup(name=name, facts=denied("Describe", name), configs=configs(GOOD))
        for name in ("a", "b", "left-out")
    ]
    look = replace(looked(cluster(), configs(GOOD)), topics={one.name: one for one in setups})
    rules = {"a": COMPACT, "b": COMPACT, "left-out": Rules(), "unknown": COMPACT}
    found = rights_refusals(look, rules)
    assert [*found] == ["a", "b"]
    assert found["a"] is found["b"]
    (part,) = found["a"].parts
    assert part.code == "right_missing"
    assert part.command.endswith("--operation Describe --topic a --topic b")
    assert rights_refusals(look, {"left-out": Rules()}) == {}


def test_what_a_run_needs_to_publish_is_said_before_anything_is_done() -> None:
    write = denied("Write", METADATA_TOPIC)
    facts = {
        "denied": denied("Describe", "denied"),
        "unread": TopicFacts(name="unread", topic_id=ID, partitions=1, lacks_read=True),
        "read": TopicFacts(name="read", topic_id=ID, partitions=1),
        "absent": None,
        "taken-out": denied("Describe", "taken-out"),
    }
    topics = {
        name: TopicSetup(name=name, facts=found, configs=configs(GOOD))
        for name, found in facts.items()
    }
    look = replace(looked(cluster(), configs(GOOD)), topics=topics)
    no_write = replace(look, setup=replace(look.setup, lacks_write=write))
    rules = dict.fromkeys(topics, COMPACT) | {"taken-out": replace(COMPACT, publish=False)}

    def said(look: ClusterView, **needs: bool) -> tuple[set[str], set[str], bool]:
        """The topics that are refused, what commands grant, and whether there is another way."""
        found = rights_refusals(look, rules, **needs)
        ((part,),) = {one.parts for one in found.values()}
        granted = re.findall(r"--operation (\w+) ([^`]+)`", part.remedy)
        words = {f"{operation} {place}" for operation, place in granted}
        return {*found}, words, "--canary off" in part.remedy

    describe = "Describe --topic denied --topic taken-out"
    assert said(no_write) == said(look, publishes=True) == said(look, consumes=True)
    assert said(look) == ({"denied", "taken-out"}, {describe}, False)
    refused, words, _ = said(no_write, publishes=True)
    assert refused == {"denied", "unread", "read", "taken-out"}
    assert words == {describe, f"Write --topic {METADATA_TOPIC}"}
    refused, words, has_other_way = said(no_write, publishes=True, consumes=True)
    assert refused == {"denied", "unread", "read", "taken-out"}
    assert has_other_way
    assert words == {
        "Describe --topic taken-out",
        "Read --topic denied --topic unread",
        f"Write --topic {METADATA_TOPIC}",
    }
    assert said(look, publishes=True, consumes=True)[0] == {"denied", "unread", "taken-out"}
