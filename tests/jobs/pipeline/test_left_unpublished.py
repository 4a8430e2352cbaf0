"""Beside brokers, what may not be published is left as it is, and it is said why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import told
from tests.jobs.runs_beside import beside
from tests.jobs.tiers import files_below, key_of, updated_tier
from tierfold.compaction.model.bindings import TierBinding
from tierfold.compaction.planning.chunks import UNBOUND
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.verification.canary import CanaryMode
from tierfold.jobs.context.publishing_settings import Publishing, PublishingSettings
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines.engine_choice import in_process
from tierfold.jobs.pipeline.left_unpublished import (
    NOT_ON,
    publishing_warnings,
    unless_published,
    unless_taken_out,
)
from tierfold.jobs.pipeline.partition_report import LEFT, NOTHING_TO_DO, PLANNED
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.compact import carried_out
from tierfold.storage.clock import now_ms

ORDERS = key_of("orders")
ON: Final = PublishingSettings(
    is_on=True,
    message_timeout_ms=60_000,
    max_events_per_second=None,
    canary=CanaryMode.BORDERS,
    readers_begin_again=False,
)
OFF: Final = replace(ON, is_on=False)
SETTINGS: Final = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0")


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", (ORDERS,), segments=3)


def plans_of(tier: Path, *settings: str) -> list[PartitionPlan]:
    return survey(run_context(str(tier)), resolve([*SETTINGS, *settings]), Scope())


def beside_brokers(tier: Path, publishing: PublishingSettings | None) -> RunContext:
    return replace(beside(tier), publishing=publishing)


@pytest.mark.parametrize("publishing", [OFF, None])
def test_where_publishing_is_not_on_each_due_partition_is_left(
    tier: Path, publishing: PublishingSettings | None
) -> None:
    run, (plan,) = beside_brokers(tier, publishing), plans_of(tier)
    report = unless_published(run, plan)
    assert (report.outcome, report.reason) == (LEFT, NOT_ON)
    assert not told(report.reason, "--publish", "publish = true under [cluster]")
    assert (report.segments_out, report.bytes_out) == (report.segments_in, report.bytes_in)
    assert report.segments_in == 3
    # `plan` shows what publishing would change.
    assert unless_taken_out(run, plan).outcome == PLANNED


def test_a_topic_that_is_taken_out_is_left_though_publishing_is_on(tier: Path) -> None:
    (plan,) = plans_of(tier, "publish=false")
    for publishing in (ON, OFF):
        run = beside_brokers(tier, publishing)
        for report in (unless_published(run, plan), unless_taken_out(run, plan)):
            assert report.outcome == LEFT
            assert not told(report.reason, "publish is false", "`tierfold config orders`")
    (other,) = plans_of(tier)
    assert unless_published(beside_brokers(tier, ON), other).outcome == PLANNED


def test_what_is_not_due_keeps_its_reason(tier: Path) -> None:
    for settings in ((), ("publish=false",)):
        (plan,) = plans_of(tier, "cleanup.policy=delete", *settings)
        report = unless_published(beside_brokers(tier, OFF), plan)
        assert report.outcome == NOTHING_TO_DO
        assert "cleanup.policy" in report.reason


def test_without_brokers_a_topic_that_is_taken_out_is_compacted(tier: Path) -> None:
    (plan,) = plans_of(tier, "publish=false")
    assert unless_published(run_context(str(tier)), plan).outcome == PLANNED


@pytest.mark.parametrize("settings", [("publish=false",), ()])
def test_nothing_is_claimed_or_written(tier: Path, settings: Sequence[str]) -> None:
    before = files_below(tier)
    run, plans = beside_brokers(tier, ON if settings else OFF), plans_of(tier, *settings)
    reports = carried_out(run, UNBOUND, in_process(2**30), now_ms(), plans)
    assert [report.outcome for report in reports] == [LEFT]
    assert not run.catalog.look([ORDERS]).states
    assert files_below(tier) == before


def test_the_warning_counts_what_could_be_compacted(tier: Path) -> None:
    run, (plan,) = beside_brokers(tier, OFF), plans_of(tier)
    for reports in ([unless_published(run, plan)], [unless_taken_out(run, plan)]):
        (said,) = publishing_warnings(run, reports)
        assert not told(said, "1 partition", "--publish", "publish = true under [cluster]")
    (out,) = plans_of(tier, "publish=false")
    assert publishing_warnings(run, [unless_published(run, out)]) == ()
    on = beside_brokers(tier, ON)
    assert publishing_warnings(on, [unless_published(on, plan)]) == ()


def test_a_run_without_brokers_says_that_they_learn_nothing_of_what_it_replaced(
    tier: Path,
) -> None:
    run, (plan,) = run_context(str(tier)), plans_of(tier)
    planned = unless_published(run, plan)
    assert publishing_warnings(run, [planned]) == ()
    written = replace(planned, objects_written=5)
    (said,) = publishing_warnings(run, [written])
    assert not told(said, "none learn of this run", "--bootstrap-server", "tier.binding=detached")
    detached = replace(run, declared=TierBinding.DETACHED)
    assert publishing_warnings(detached, [written]) == ()


@pytest.mark.parametrize(
    ("word", "state"),
    [
        (None, Publishing.NOT_NAMED),
        (TierBinding.BOUND, Publishing.NOT_NAMED),
        (TierBinding.DETACHED, Publishing.NO_BROKERS),
        (TierBinding.ABANDONED, Publishing.NO_BROKERS),
    ],
)
def test_what_brokers_learn_without_a_cluster_is_what_the_binding_says(
    tier: Path, word: TierBinding | None, state: Publishing
) -> None:
    run = replace(run_context(str(tier)), declared=word, publishing=OFF)
    assert run.publishing_state is state
    for publishing, beside_them in ((ON, Publishing.ON), (OFF, Publishing.OFF)):
        assert beside_brokers(tier, publishing).publishing_state is beside_them
