"""How many events a run sent to brokers, or would: only beside brokers."""

from __future__ import annotations

import pytest

from tests.jobs.tiers import key_of
from tierfold.compaction.planning.outlook import Outlook
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.pipeline.chunk_reports import whole_report
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    LEFT,
    NOTHING_TO_DO,
    PLANNED,
    REFUSED,
    PartitionReport,
)
from tierfold.jobs.reports.plan_report import CompactResult, PlanResult

KEY, OTHER = map(key_of, ("orders", "payments"))
OUTLOOK = Outlook(metadata_records=8, local_until_ms=None)
SENT = PartitionReport(
    key=KEY, outcome=COMPACTED, events_planned=8, events_sent=5, publishing="published"
)


@pytest.mark.parametrize("state", Publishing)
def test_a_document_has_them_where_brokers_were_asked(state: Publishing) -> None:
    entry = PlanResult(tier="/tier", partitions=(SENT,), publishing=state).to_dict()
    (partition,) = entry["partitions"]
    found = {name: partition.get(name) for name in ("events_planned", "events_sent", "publishing")}
    beside = {"events_planned": 8, "events_sent": 5, "publishing": "published"}
    is_beside = state in {Publishing.ON, Publishing.OFF}
    assert found == (beside if is_beside else dict.fromkeys(beside))
    assert entry["publishing"] == state


def test_the_text_counts_what_was_sent() -> None:
    other = PartitionReport(key=OTHER, outcome=COMPACTED, events_sent=2)
    text = str(CompactResult(tier="/tier", partitions=(SENT, other)))
    assert "Published: 7 events to brokers; 3 more to come, with `tierfold vacuum`." in text
    idle = PartitionReport(key=OTHER, outcome=COMPACTED)
    assert "to brokers" not in str(CompactResult(tier="/tier", partitions=(idle,)))


def test_the_text_counts_what_is_planned_and_what_is_open() -> None:
    planned = PartitionReport(key=KEY, outcome=PLANNED, events_planned=9, outlook=OUTLOOK)
    text = str(PlanResult(tier="/tier", partitions=(planned,)))
    assert "To be published: 9 events to brokers" in text
    assert "open" not in text
    idle = PartitionReport(key=OTHER, outcome=NOTHING_TO_DO, events_planned=3)
    text = str(PlanResult(tier="/tier", partitions=(planned, idle)))
    assert "To be published: 9 events to brokers" in text
    assert "3 events to brokers are open: the next `tierfold compact` goes on." in text
    # A person has to act first.
    refused = PartitionReport(key=OTHER, outcome=REFUSED, events_planned=5)
    assert "open" not in str(PlanResult(tier="/tier", partitions=(planned, refused)))
    text = str(CompactResult(tier="/tier", partitions=(SENT, idle)))
    assert "3 more to come, with `tierfold vacuum`; of other partitions 3 events to brokers" in text


def test_the_events_of_chunks_are_summed() -> None:
    assert whole_report([SENT, SENT]).events_sent == 10


def test_a_run_that_may_not_publish_is_not_called_a_dry_run() -> None:
    left = PartitionReport(key=KEY, outcome=LEFT)
    text = str(CompactResult(tier="/tier", partitions=(left,), publishing=Publishing.OFF))
    assert "nothing is changed: publishing is not on" in text
    planned = PartitionReport(key=KEY, outcome=PLANNED)
    text = str(CompactResult(tier="/tier", partitions=(planned,), publishing=Publishing.OFF))
    assert "dry run: nothing is changed" in text
