"""Where brokers serve the partition, no event may arrive after the grace period of the call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.builders import CLUSTER, a_chain, a_state
from tierfold.compaction.brokers.cluster_configs import ConfigSource, ConfigValue
from tierfold.compaction.brokers.cluster_facts import ClusterSetup, MetadataTopic
from tierfold.compaction.deletion.served_grace import grace_refusal, least_grace_ms
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.rules import DAY_MS

HOUR_MS = 3_600_000
ROW = a_state(a_chain(10))
SERVED = replace(ROW, served_by=(CLUSTER,))


def setup(limit_ms: int) -> ClusterSetup:
    """A cluster whose brokers refuse events that are older than that."""
    limit = ConfigValue(text=str(limit_ms), source=ConfigSource.TOPIC)
    return ClusterSetup(
        server="b:1",
        metadata_topic=MetadataTopic(topic_id=CLUSTER.metadata_topic_id, partitions=50),
        metadata_configs={"message.timestamp.before.max.ms": limit},
        brokers={},
    )


@pytest.mark.parametrize(
    ("grace_ms", "limit_ms", "reason"),
    [
        (0, HOUR_MS // 2, RefusalReason.GRACE_TOO_SHORT),
        (HOUR_MS - 1, 1, RefusalReason.GRACE_TOO_SHORT),
        (HOUR_MS, HOUR_MS // 2, None),
        (HOUR_MS, HOUR_MS // 2 + 1, RefusalReason.PRECONDITION),
        (DAY_MS, DAY_MS // 2, None),
        (DAY_MS - 2, DAY_MS // 2, RefusalReason.PRECONDITION),
    ],
)
def test_only_a_longer_grace_period_will_do(
    grace_ms: int, limit_ms: int, reason: RefusalReason | None
) -> None:
    found = grace_refusal(setup(limit_ms), SERVED, grace_ms, HOUR_MS)
    assert (None if found is None else found.reason) is reason
    assert grace_refusal(setup(limit_ms), ROW, grace_ms, HOUR_MS) is None
    if reason is RefusalReason.PRECONDITION:
        assert found is not None
        assert "[late_sends]" in found.detail
        assert "`kafka-configs.sh" in found.remedy


@pytest.mark.parametrize(
    ("message_timeout_ms", "least_ms"), [(1000, HOUR_MS), (60_000, HOUR_MS), (61_000, 3_660_000)]
)
def test_sixty_timeouts_of_a_message_are_the_least(
    message_timeout_ms: int, least_ms: int
) -> None:
    assert least_grace_ms(message_timeout_ms) == least_ms
    found = grace_refusal(setup(1), SERVED, least_ms - 1, least_ms)
    assert found is not None
    assert found.remedy == f"Set --grace-period {least_ms // 60_000}m, or more."
    assert grace_refusal(setup(1), SERVED, least_ms, least_ms) is None
