"""What changes while rows, tier and brokers are looked at is no reason to refuse a partition."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_forget_beside_brokers import Swapped
from tests.brokers.test_plan_beside_brokers import Planned
from tests.brokers.test_status_of_brokers import RECORDS, topic_of
from tests.storage.brokers.secured import client
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Listing

SETTINGS = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0", "tail.margin.segments=0")


def nothing() -> None:
    """Nothing happens."""


@dataclass(frozen=True, slots=True)
class ChangingTier(LocalTieredStorage):
    """A tier in which something happens before and after each listing, by its number."""

    before: Mapping[int, Callable[[], None]] = field(default_factory=dict)
    after: Mapping[int, Callable[[], None]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def listings(
        self, keys: Sequence[PartitionKey]
    ) -> dict[PartitionKey, Listing | Exception]:
        """As the tier lists them."""
        number = next(self.numbers)
        self.before.get(number, nothing)()
        found = LocalTieredStorage.listings(self, keys)
        self.after.get(number, nothing)()
        return found


def context_of(
    planned: Planned,
    before: Mapping[int, Callable[[], None]] | None = None,
    after: Mapping[int, Callable[[], None]] | None = None,
) -> RunContext:
    context = run_context(str(planned.kafka.tier), planned._scope[1])
    return replace(
        context,
        tier=ChangingTier(context.tier.store, before=before or {}, after=after or {}),
        cluster=RunCluster(client(planned.kafka.servers, {})),
    )


def plans_of(context: RunContext, *topics: str) -> list[PartitionPlan]:
    return survey(context, resolve(SETTINGS), Scope(topics=topics))


@pytest.mark.soak
def test_a_run_that_publishes_meanwhile_did_not_set_the_catalog_back(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "published-meanwhile")
    other = kafka.create("not-published")
    other.append(RECORDS)
    other.wait_until_tiered()
    swapped = Swapped(kafka, tmp_path, topic)
    topic.append(RECORDS)
    topic.wait_until_tiered()
    before = swapped.row

    def publish() -> None:
        swapped.compact()
        swapped.publish()

    def publish_again() -> None:
        topic.append(RECORDS)
        topic.wait_until_tiered()
        publish()

    context = context_of(swapped, after={1: publish, 3: publish_again})
    beside, plan = plans_of(context, topic.name, other.name)
    assert beside.key.topic == other.name
    for one in (beside, plan):
        assert not isinstance(one.choice, Refusal), one.choice
        assert one.view is not None
        assert one.view.brokers is not None
    assert plan.epoch == swapped.row.epoch > before.epoch
    assert {one.segment_id for one in plan.view.segments} == swapped.row.live_ids
    looked = context.cluster_view
    assert looked is not None
    assert looked.partitions == {one.key: one.view.brokers for one in (beside, plan)}
    assert looked.topics.keys() == {topic.name, other.name}


def test_a_catalog_that_was_set_back_is_refused_as_before(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "set-back")
    swapped = Swapped(kafka, tmp_path, topic)
    older = tmp_path / "older"
    shutil.copytree(swapped.catalog, older)
    topic.append(RECORDS)
    topic.wait_until_tiered()
    swapped.compact()
    swapped.publish()
    (live,) = swapped.row.live_ids
    shutil.rmtree(swapped.catalog)
    older.rename(swapped.catalog)
    (plan,) = plans_of(context_of(swapped), topic.name)
    assert isinstance(plan.choice, Refusal)
    assert plan.choice.reason is RefusalReason.CATALOG_SET_BACK
    assert live in plan.choice.detail


def test_what_expires_after_the_replay_is_not_missing_from_the_tier(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "expired-meanwhile")
    planned = Planned(kafka, tmp_path, topic)

    def upload() -> None:
        topic.append(RECORDS)
        topic.append(RECORDS)
        topic.wait_until_tiered()

    def expire() -> None:
        (_, end) = topic.offsets()
        logs = topic.logs()
        topic.delete_records(end - 4)
        kafka.wait(lambda: not any(log.exists() for log in logs[:-1]), "the deletion")

    context = context_of(planned, before={2: expire}, after={1: upload})
    (plan,) = plans_of(context, topic.name)
    assert not isinstance(plan.choice, Refusal), plan.choice
    assert plan.view is not None
    assert plan.view.log_start_offset == topic.offsets()[0] > 0
