"""How a cluster and its topics are set up is diagnosed, also of topics that are not compacted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.brokers.test_preconditions import (
    COMPACT,
    GOOD,
    changes_of,
    cluster,
    configs,
    topic,
)
from tests.compaction.ill_partitions import HEALTHY, ILL
from tierfold.compaction.brokers.broker_versions import KafkaVersion
from tierfold.compaction.brokers.cluster_facts import ClusterSetup
from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.brokers.metadata_fold import MetadataRecord
from tierfold.compaction.brokers.metadata_size import MetadataSize
from tierfold.compaction.brokers.missing_rights import lacking
from tierfold.compaction.diagnosis.cluster import METADATA_RECORDS_MAX, topic_findings
from tierfold.compaction.diagnosis.diagnosis import Diagnosis, diagnosis
from tierfold.compaction.diagnosis.examined import Examined
from tierfold.compaction.diagnosis.findings import Finding, Severity, worst_first
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.rights import Resource, Right
from tierfold.compaction.model.rules import DAY_MS, Rules

V4_4: Final = {1: {"compression.zstd.level": "3", "max.decompressed.message.bytes": "1"}}
V4_3: Final = {1: {"compression.zstd.level": "3", "follower.fetch.last.tiered.offset.enable": ""}}
V3_8: Final = {1: {"compression.zstd.level": "3"}}
WEEK: Final = "604800000"
SIZE: Final = {"retention.bytes": "1000000000"}
UNLIMITED: Final = {"message.timestamp.before.max.ms": str(2**63 - 1)}
COMPACTED: Final = replace(HEALTHY, rules=COMPACT)


def of_topic(
    changes: dict[str, str],
    rules: Rules = Rules(),  # noqa: B008 - it is frozen
    setup: ClusterSetup | None = None,
    declared: KafkaVersion | None = None,
) -> dict[str, Finding]:
    setup = setup or cluster(brokers=V4_4)
    found = topic_findings(topic(configs(GOOD | changes)), setup, rules, declared)
    return {one.code: one for one in found}


def diagnosed(
    *examined: Examined, setup: ClusterSetup | None = None, **fields: Any
) -> Diagnosis:
    defaults = ClusterView(
        cluster_id="c",
        setup=setup or cluster(brokers=V4_4),
        records=0,
        partitions={},
        topics={one.key.topic: topic(configs(GOOD)) for one in examined},
    )
    look = replace(defaults, **fields)
    return diagnosis(examined, look, grace_ms=DAY_MS)


def codes(found: Diagnosis) -> list[str]:
    return [one.code for one in found.findings]


def test_500_healthy_partitions_of_a_healthy_cluster_have_no_finding() -> None:
    keys = [
        replace(HEALTHY.key, topic=f"topic-{number % 20}", partition=number // 20)
        for number in range(500)
    ]
    found = diagnosed(*(replace(HEALTHY, key=key) for key in keys))
    assert found.findings == ()
    assert len(found.topics) == 20
    (first, *_) = found.topics
    assert (first.partitions, first.segments, first.size_bytes) == (25, 75, 75_000)
    assert (first.is_compacted, first.in_the_way) == (False, ())


@pytest.mark.parametrize(
    ("changes", "rules", "expected"),
    [
        ({}, COMPACT, set()),
        ({"retention.ms": WEEK}, Rules(), set()),
        ({"retention.ms": WEEK}, COMPACT, {"retention_ms"}),
        (SIZE, COMPACT, {"retention_bytes"}),
        (SIZE, Rules(), set()),
        ({"local.retention.ms": "-2"}, Rules(), {"local_retention"}),
        ({"local.retention.ms": "-2", "retention.ms": WEEK}, Rules(), set()),
        ({"remote.storage.enable": "false"}, COMPACT, {"not_tiered"}),
        ({"remote.storage.enable": "false", "local.retention.ms": "-2"}, Rules(), set()),
        ({"cleanup.policy": "", "retention.ms": WEEK}, Rules(), {"empty_policy"}),
        ({"cleanup.policy": ""}, Rules(), set()),
    ],
)
def test_the_traps_of_retention(
    changes: dict[str, str], rules: Rules, expected: set[str]
) -> None:
    assert set(of_topic(changes, rules)) == expected


def test_a_topic_that_is_not_tiered_has_no_trap_of_a_tier() -> None:
    assert of_topic({"remote.storage.enable": "false", "cleanup.policy": ""} | SIZE) == {}


@pytest.mark.parametrize(
    ("brokers", "declared", "severity"),
    [
        (V3_8, None, Severity.LOSES_DATA),
        (V4_3, None, Severity.HINDERS),
        (V4_4, None, None),
        (V3_8 | {2: V4_4[1]}, None, Severity.LOSES_DATA),
        (V3_8, KafkaVersion(4, 4), None),
        ({}, None, Severity.LOSES_DATA),
    ],
)
def test_retention_by_size_loses_data_on_old_brokers(
    brokers: dict[int, dict[str, str]], declared: KafkaVersion | None, severity: Severity | None
) -> None:
    setup = cluster(brokers=brokers)
    found = of_topic(SIZE, setup=setup, declared=declared)
    assert of_topic({}, setup=setup, declared=declared) == {}
    if severity is None:
        assert found == {}
    else:
        assert found["kafka_20732"].severity is severity


@pytest.mark.parametrize("code", ["empty_policy", "kafka_20732"])
def test_the_command_of_a_trap_leads_out(code: str) -> None:
    setup = cluster(brokers=V3_8)
    changes = {"cleanup.policy": "", "retention.ms": WEEK} | SIZE
    finding = of_topic(changes, setup=setup)[code]
    part = RefusalPart(code=code, detail=finding.detail, remedy=finding.remedy)
    assert code not in of_topic(changes | changes_of(part.command), setup=setup)


def test_a_missing_right_is_a_finding() -> None:
    right = Right(operation="DescribeConfigs", resource=Resource.TOPIC, name="orders")
    setup = cluster(brokers=V4_4)
    denied = topic(lacking([right], "b:1"))
    (finding,) = topic_findings(denied, setup, Rules(), None)
    assert (finding.code, finding.topic) == ("right_missing", "orders")
    assert "kafka-acls.sh" in finding.remedy


def test_the_metadata_topic_must_keep_everything_and_old_events_matter_to_tierfold_only() -> None:
    setup = cluster({"retention.ms": WEEK} | UNLIMITED, V4_4)
    assert codes(diagnosed(HEALTHY, setup=setup)) == ["metadata_settings"]
    assert codes(diagnosed(COMPACTED, setup=setup)) == ["metadata_settings", "late_sends"]
    ours = ILL["another_catalog"]
    assert "late_sends" in codes(diagnosed(ours, setup=setup))


def test_old_brokers_and_a_wrong_version_are_found() -> None:
    assert codes(diagnosed(HEALTHY, setup=cluster(brokers={1: {}}))) == ["kafka_too_old"]


def test_a_large_metadata_topic_is_a_note() -> None:
    size = MetadataSize(
        records=METADATA_RECORDS_MAX + 1, value_bytes=9, first_ms=0, last_ms=10 * DAY_MS
    )
    found = diagnosed(HEALTHY, metadata_size=size)
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("metadata_large", Severity.NOTE)
    assert "100 000 more a day" in finding.detail
    fewer = replace(size, records=METADATA_RECORDS_MAX)
    assert codes(diagnosed(HEALTHY, metadata_size=fewer)) == []


def test_the_size_of_the_metadata_topic_is_summed() -> None:
    size = MetadataSize()
    assert size.records_a_day == 0
    for chunk in ([(0, 50, b"abc"), (1, 40, None)], [(0, 70, b"d"), (1, 45, b"")]):
        size = size.with_chunk(
            [MetadataRecord(number, 0, at_ms, value, None) for number, at_ms, value in chunk]
        )
    assert size == MetadataSize(records=4, value_bytes=4, first_ms=40, last_ms=70)
    assert size.records_a_day == 4


def test_a_topic_says_what_keeps_it_from_being_compacted() -> None:
    expiring = topic(configs(GOOD | {"retention.ms": WEEK}))
    other = replace(ILL["gap"], key=replace(HEALTHY.key, topic="other"))
    setup = cluster(UNLIMITED, V4_4)
    found = diagnosed(
        HEALTHY,
        replace(ILL["never_named"], key=replace(HEALTHY.key, partition=4)),
        replace(other, rules=COMPACT),
        setup=setup,
        topics={"orders": expiring, "other": topic(configs(GOOD))},
    )
    first, second = found.topics
    assert first.in_the_way == ("late_sends", "retention_ms", "never_named")
    assert (second.is_compacted, second.in_the_way) == (True, ("late_sends",))


def test_the_worst_comes_first() -> None:
    small, orphans, gap = (
        replace(ILL[code], key=replace(HEALTHY.key, partition=number))
        for number, code in enumerate(("small_segments", "orphans", "gap"))
    )
    found = diagnosed(small, orphans, gap, setup=cluster({"retention.ms": WEEK}, V4_4))
    assert codes(found) == ["metadata_settings", "gap", "orphans", "small_segments"]


def test_what_goes_on_losing_data_comes_before_what_is_lost() -> None:
    goes_on = ["retention_ms", "retention_bytes", "kafka_20732"]
    found = worst_first(
        Finding(code=code, severity=Severity.LOSES_DATA, detail="x", remedy="y")
        for code in ("gap", *reversed(goes_on), "metadata_settings", "corrupt")
    )
    assert [one.code for one in found] == ["metadata_settings", *goes_on, "corrupt", "gap"]
