"""What `rebuild` says of each decision, to people and to programs."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from tests.compaction.builders import a_chain
from tests.compaction.looks import a_look, a_row
from tests.jobs.result_schema import faults
from tierfold.compaction.brokers.cluster_configs import Configs, ConfigSource, ConfigValue
from tierfold.compaction.publishing.lost_metadata import rebuild_step, with_rebuilds
from tierfold.jobs.pipeline.partition_report import (
    NOTHING_TO_DO,
    PLANNED,
    PUBLISHED,
    REFUSED,
    PartitionReport,
)
from tierfold.jobs.publishing.log_start_probe import LogStartReading
from tierfold.jobs.publishing.rebuild_looks import RebuildDecision, RebuildLook
from tierfold.jobs.reports.rebuild_report import RebuildResult
from tierfold.jobs.verbs.rebuild import Rebuilt

COPYING = {"remote.storage.enable": ConfigValue("true", ConfigSource.TOPIC)}
STOPPED = COPYING | {"remote.log.copy.disable": ConfigValue("true", ConfigSource.TOPIC)}
PUBLISH = "tierfold rebuild /mnt/tier --publish"


def rebuilt(
    outcome: str,
    *,
    is_served: bool = True,
    configs: Configs = COPYING,
    log_start: int = 0,
    **fields: Any,
) -> Rebuilt:
    """A partition of two segments, of which the topic names nothing."""
    look = with_rebuilds(a_look(a_row(a_chain(10, 10)), [], log_start=log_start), [])
    is_copying = configs is COPYING
    step = rebuild_step(look, is_served=is_served, is_copying=is_copying)
    reading = None if log_start else LogStartReading(is_served=is_served)
    report = PartitionReport(key=look.row.key, outcome=outcome, events_sent=4)
    defaults = Rebuilt(
        report=report,
        seen=RebuildLook(
            look=look, to_claim=look.row, configs=configs, is_unnoted=False
        ),
        decision=RebuildDecision(step=step, reading=reading),
        metadata_start=14,
        commands=(PUBLISH,),
    )
    return replace(defaults, **fields)


def entry_of(partition: Rebuilt) -> dict[str, Any]:
    result = RebuildResult(tier="/mnt/tier", partitions=(partition,))
    entry: dict[str, Any] = result.to_dict()["partitions"][0]
    assert faults(entry, "rebuilt_partition") == []
    return entry


def printed(partition: Rebuilt) -> str:
    console = Console(file=StringIO(), width=200)
    RebuildResult(tier="/mnt/tier", partitions=(partition,)).print_tables(console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_what_brokers_still_serve_is_published_before_any_restart() -> None:
    partition = rebuilt(PLANNED)
    text = printed(partition)
    assert "does not name 2 segments of the tier, offsets 0 to 19, 2.0 kB (2 000 bytes)" in text
    assert "Restart none of them before all is published." in text
    assert f"\nTo run now, in this order:\n  {PUBLISH}\n" in text
    assert "created again" not in text
    assert "Copying to the tier is stopped" not in text
    entry = entry_of(partition)
    assert (entry["order"], entry["is_served"], entry["is_copying"]) == ("from_memory", True, True)
    assert (len(entry["unnamed"]), entry["unnamed_bytes"]) == (2, 2000)
    assert (entry["lost_offsets"], entry["commands"]) == ([], [PUBLISH])


def test_after_a_restart_without_copying_it_goes_on_afterwards() -> None:
    partition = rebuilt(PLANNED, is_served=False, configs=STOPPED)
    text = printed(partition)
    assert "Copying was stopped in time, so nothing is lost. Publish before it goes on." in text
    assert text.index(PUBLISH) < text.index("let it go on, with the local.retention.ms")
    assert entry_of(partition)["order"] == "copying_stopped"


def test_a_topic_that_was_created_again_asks_for_a_restart_afterwards() -> None:
    for outcome in (PLANNED, PUBLISHED):
        partition = rebuilt(outcome, metadata_start=0)
        text = printed(partition)
        assert text.index(PUBLISH) < text.index("restart the brokers one after the other")
        assert entry_of(partition)["is_created_again"]


def test_what_was_published_is_counted() -> None:
    text = printed(rebuilt(PUBLISHED, commands=()))
    assert "Brokers know again what is in the tier: 4 events." in text
    assert "To run now" not in text


def test_what_all_partitions_need_is_said_once() -> None:
    console = Console(file=StringIO(), width=200)
    two = rebuilt(PLANNED, metadata_start=0, configs=STOPPED, is_served=False)
    RebuildResult(tier="/mnt/tier", partitions=(two, two)).print_tables(console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("orders-3: planned") == 2
    for once in (PUBLISH, "restart the brokers", "let it go on"):
        assert text.count(once) == 1


def test_what_is_lost_is_listed() -> None:
    partition = rebuilt(REFUSED, log_start=20, commands=())
    entry = entry_of(partition)
    assert entry["lost_offsets"] == [{"start_offset": 0, "end_offset": 19}]
    assert (entry["is_served"], entry["order"], len(entry["unnamed"])) == (None, None, 2)
    assert printed(partition).strip() == "orders-3: refused"


@pytest.mark.parametrize("outcome", [NOTHING_TO_DO, REFUSED])
def test_a_partition_that_could_not_be_looked_at_has_nulls(outcome: str) -> None:
    entry = entry_of(rebuilt(outcome, seen=None, decision=None, commands=()))
    names = ("log_start_offset", "high_watermark", "is_copying", "is_served", "order")
    assert [entry[name] for name in names] == [None] * 5


def test_a_row_that_is_only_yet_to_note_it() -> None:
    look = a_look(a_row([]), [])
    seen = RebuildLook(look=look, to_claim=look.row, configs=COPYING, is_unnoted=True)
    step = rebuild_step(look, is_served=True, is_copying=True)
    partition = rebuilt(PLANNED, seen=seen, decision=RebuildDecision(step=step))
    assert "the catalog is yet to note it" in printed(partition)


def test_an_empty_tier_is_said() -> None:
    console = Console(file=StringIO(), width=200)
    RebuildResult(tier="/mnt/tier", partitions=()).print_tables(console)
    assert "No partitions" in console.file.getvalue()  # type: ignore[attr-defined]
