"""What `status` says of brokers: a table, sentences below it, and the entry of the document."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Final

import pytest
from rich.console import Console

from tests.jobs.commands import tierfold
from tests.jobs.result_schema import faults
from tests.jobs.tiers import key_of
from tierfold.compaction.brokers.beside_catalog import beside_catalog
from tierfold.compaction.brokers.broker_view import Naming
from tierfold.compaction.brokers.cluster_facts import (
    Absence,
    ClusterSetup,
    MetadataTopic,
    PartitionOffsets,
    UnknownOffsets,
)
from tierfold.compaction.brokers.cluster_view import BrokerPartition, ClusterView
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import SegmentAdded, SegmentState, SegmentUpdated
from tierfold.compaction.brokers.metadata_fold import MetadataFold, MetadataRecord
from tierfold.compaction.brokers.metadata_partitions import metadata_partition
from tierfold.compaction.model.segments import CleanerOffset, LeaderEpoch
from tierfold.compaction.planning.local_segments import LocalCopy, LocalSegments
from tierfold.compaction.publishing.steps import Done, Purpose, Send, Wait
from tierfold.jobs.reports.broker_report import broker_entry, local_entry
from tierfold.jobs.reports.status_report import StatusResult
from tierfold.jobs.verbs.status import PartitionStatus

ORDERS: Final = key_of("orders")
FINISHED, STARTED = SegmentState.COPY_FINISHED, SegmentState.COPY_STARTED
DELETING: Final = SegmentState.DELETE_STARTED
UPLOADED, REPLACED, BESIDE, WAITS, GOES, OURS = (f"{name:A<22}" for name in "uvwxyz")


def added(segment_id: str, start_offset: int, end_offset: int) -> SegmentAdded:
    return SegmentAdded(
        key=ORDERS,
        segment_id=segment_id,
        start_offset=start_offset,
        end_offset=end_offset,
        broker_id=1,
        max_timestamp_ms=5,
        event_timestamp_ms=6,
        leader_epochs=(LeaderEpoch(epoch=0, start_offset=start_offset),),
        size_bytes=1000,
        custom_metadata=None,
        is_transaction_index_empty=True,
    )


def updated(segment_id: str, state: SegmentState) -> SegmentUpdated:
    return SegmentUpdated(ORDERS, segment_id, 1, 7, None, state)


EVENTS: Final = (
    *(added(GOES, 0, 4), updated(GOES, FINISHED), updated(GOES, DELETING)),
    *(added(UPLOADED, 0, 9), updated(UPLOADED, FINISHED)),
    *(added(BESIDE, 12, 15), updated(BESIDE, FINISHED)),
    # It begins below the one before and ends beyond it: no look-up finds that.
    *(added(REPLACED, 10, 19), updated(REPLACED, FINISHED)),
    added(WAITS, 20, 29),
)


@pytest.fixture
def status() -> PartitionStatus:
    fold = MetadataFold(5, [ORDERS])
    listed = (UPLOADED, REPLACED, OURS)
    fold.ask(ORDERS, listed)
    number = metadata_partition(ORDERS, 5)
    values = [encode(event) for event in EVENTS]
    fold.apply(
        MetadataRecord(number, offset, 1000 + offset, value, b"k" if not offset else None)
        for offset, value in enumerate(values)
    )
    brokers = BrokerPartition(
        view=fold.view(ORDERS),
        naming=fold.naming(ORDERS),
        offsets=PartitionOffsets(log_start=3, high_watermark=44, last_stable=40),
    )
    beside = beside_catalog(
        brokers.view, brokers.naming, live=[UPLOADED, OURS], retired=[REPLACED]
    )
    return PartitionStatus(key=ORDERS, row=None, brokers=brokers, beside=beside)


def shown(*statuses: PartitionStatus) -> str:
    topic = MetadataTopic(topic_id="t" * 22, partitions=5)
    cluster = ClusterView(
        cluster_id="c1",
        setup=ClusterSetup(server="b:1", metadata_topic=topic, metadata_configs={}, brokers={}),
        records=9,
        partitions={},
        topics={},
    )
    text = io.StringIO()
    result = StatusResult(tier="", partitions=statuses, cluster=cluster)
    result.show(Console(file=text, width=400))
    assert faults(result.to_dict()) == []
    return text.getvalue()


def test_the_table_says_what_brokers_have_and_what_differs(status: PartitionStatus) -> None:
    (row,) = [line for line in shown(status).splitlines() if "orders-0" in line and "│" in line]
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[:-1] == ["orders-0", "3", "3.0 kB", "0–19", "3", "44"]
    assert cells[-1].split("; ") == [
        "see below",
        "1 segment pending: 1.0 kB",
        "1 segment unreferenced: 1.0 kB",
        "1 segment being deleted: 1.0 kB",
        "1 live segment not served",
        "1 retired segment still served",
        "1 served segment not in the catalog",
        "1 served segment without objects",
        "1 segment that brokers never had",
    ]


def test_sentences_below_say_why_nothing_may_be_published(status: PartitionStatus) -> None:
    text = shown(status)
    assert "orders-0: The record at offset 0 of __remote_log_metadata-" in text
    assert "9 records of the brokers' metadata topic replayed; nothing was sent." in text
    assert status.brokers is not None
    unknown = replace(status.brokers, offsets=UnknownOffsets(Absence.NO_TOPIC, "It was deleted."))
    assert "orders-0: It was deleted." in shown(replace(status, brokers=unknown))


def test_the_row_of_a_topic_that_was_deleted_says_so() -> None:
    why = "left alone: the topic with this id was deleted"
    result = StatusResult(
        tier="/tier", partitions=[PartitionStatus(key=ORDERS, row=None, absence=why)]
    )
    text = io.StringIO()
    result.show(Console(file=text, width=400))
    (row,) = [line for line in text.getvalue().splitlines() if "orders-0" in line]
    assert why in row
    (entry,) = result.to_dict()["partitions"]
    assert (entry["outcome"], entry["reason"]) == ("ok", why)


def test_what_brokers_say_of_many_partitions_is_one_line(status: PartitionStatus) -> None:
    assert status.brokers is not None
    gone = replace(status.brokers, offsets=UnknownOffsets(Absence.NO_TOPIC, "It was deleted."))
    many = [
        replace(status, key=replace(status.key, partition=number), brokers=gone)
        for number in range(50)
    ]
    text = shown(*many)
    assert "all 50 partitions: It was deleted." in text
    assert text.count("It was deleted.") == 1
    assert text.count("The record at offset 0") == 1


def test_the_entry_has_every_segment_and_its_state(status: PartitionStatus) -> None:
    assert status.brokers is not None
    entry = broker_entry(status.brokers, status.beside)
    assert [(one["id"], one["state"], one["is_referenced"]) for one in entry["segments"]] == [
        (WAITS, "COPY_STARTED", False),
        (UPLOADED, "COPY_FINISHED", True),
        (REPLACED, "COPY_FINISHED", True),
        (BESIDE, "COPY_FINISHED", False),
        (GOES, "DELETE_STARTED", False),
    ]
    assert entry["unreferenced"] == {"segments": 1, "bytes": 1000}
    assert entry["beside_catalog"] == {
        "not_served": (OURS,),
        "retired_but_served": (REPLACED,),
        "not_in_catalog": (BESIDE,),
        "not_listed": (BESIDE,),
        "never_named": (OURS,),
    }


def test_the_open_step_is_named_with_its_reason(status: PartitionStatus) -> None:
    swap = Send(purpose=Purpose.SWAP, events=(), why="segments are replaced")
    assert "open: swap, as segments are replaced" in shown(replace(status, step=swap))
    wait = Wait(until_ms=None, why="brokers upload")
    assert "open: wait, as brokers upload" in shown(replace(status, step=wait))
    assert "open:" not in shown(replace(status, step=Done()))
    assert status.brokers is not None
    entries = [
        broker_entry(status.brokers, status.beside, step)["open_step"]
        for step in (swap, wait, Done(), None)
    ]
    assert entries == [
        {"step": "send", "purpose": "swap", "reason": "segments are replaced"},
        {"step": "wait", "purpose": None, "reason": "brokers upload"},
        None,
        None,
    ]


def test_local_segments_below_the_cleaner_offset_are_counted(status: PartitionStatus) -> None:
    copies = [LocalCopy(start_offset=at, end_offset=at + 9, size_bytes=1000) for at in (0, 10, 20)]
    local = LocalSegments(
        cleaner_offset=CleanerOffset(epoch=4, offset=20),
        copies=tuple(copies),
        others_below=None,
        is_time_limited=True,
    )
    taken_over = "a new leader takes over cleaner offset 20 of leader epoch 4"
    below = "2 of 3 local segments below it: 2.0 kB, offsets 0–19"
    status = replace(status, beside=None, local=local)
    assert f"{taken_over}; {below} │" in shown(status)
    none = replace(local, copies=local.copies[2:])
    assert f"{taken_over}; no local segment below it │" in shown(replace(status, local=none))
    unknown = replace(none, others_below=20, is_time_limited=False)
    said = "below offset 20 there can be others, whose uploads are deleted; no known time limit"
    assert f"{taken_over}; {said} of local segments │" in shown(replace(status, local=unknown))
    never = replace(local, cleaner_offset=None)
    assert "local segment" not in shown(replace(status, local=never))
    result = StatusResult(tier="/tier", partitions=[status])
    entry = result.entry(status)
    assert "local_segments" not in result.without_segments(status)
    assert entry["local"] == {
        "cleaner_offset": 20,
        "cleaner_leader_epoch": 4,
        "can_have": {"segments": 3, "bytes": 3000, "start_offset": 0, "end_offset": 29},
        "cleaned": {"segments": 2, "bytes": 2000, "start_offset": 0, "end_offset": 19},
        "others_below": None,
        "is_time_limited": True,
    }
    assert [one["is_cleaned"] for one in entry["local_segments"]] == [True, True, False]
    nothing = local_entry(replace(never, copies=()))
    assert (nothing["cleaner_offset"], nothing["can_have"]["start_offset"]) == (None, None)


def test_what_is_the_same_is_not_mentioned() -> None:
    fold = MetadataFold(5, [ORDERS])
    fold.ask(ORDERS, [])
    brokers = BrokerPartition(
        view=fold.view(ORDERS),
        naming=fold.naming(ORDERS),
        offsets=UnknownOffsets(Absence.NO_TOPIC, "Gone."),
    )
    beside = beside_catalog(brokers.view, brokers.naming, live=(), retired=())
    text = shown(PartitionStatus(key=ORDERS, row=None, brokers=brokers, beside=beside))
    assert "see below; their metadata topic names nothing of it" in text
    assert Naming.NEVER_NAMED not in brokers.naming.values()
    assert beside == replace(beside, not_served=(), never_named=())


@pytest.mark.parametrize("arguments", [("status",), ("status", "--json")])
def test_without_tier_and_brokers_there_is_nothing_to_ask(arguments: tuple[str, ...]) -> None:
    tierfold(*arguments).refuses("neither a tier nor brokers are named", "--bootstrap-server")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--catalog", "/catalog"),
        ("--layout", "aiven"),
        ("--key-prefix", "cluster-a/"),
        ("--rsm-config", "server.properties"),
        ("--encryption-key", "one=key.pem"),
        ("--holes-are-holes", "orders-0"),
        ("--first-dirty", "0"),
        ("--now", "2026-11-27T00:00:00Z"),
    ],
)
def test_without_a_tier_nothing_may_be_said_of_one(option: str, value: str) -> None:
    ran = tierfold("status", "--bootstrap-server", "127.0.0.1:9", option, value)
    ran.refuses(f"{option}: it says something of a tier, and none is named")
