"""Deleted values do not return and live values do not vanish, under hostile attempts.

One tier has a topic per attempt, so that one run of the command covers them all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import ALWAYS, CLOCK, status_of, tierfold
from tests.jobs.tiers import key_of, live_values, made_tier, put_segment
from tests.storage.live_segments import data, marker
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.storage.kafka.control_records import ControlType

NOW_MS: Final = 1_800_000_000_000
FORCED, BEYOND, UNOPENED = key_of("forced"), key_of("beyond"), key_of("unopened")
KEYLESS, FOREVER = key_of("keyless"), key_of("forever")


def compact(tier: Path, now_ms: int, *arguments: str) -> dict[str, dict[str, object]]:
    """The report of each topic."""
    ran = tierfold("compact", tier, *ALWAYS, CLOCK, str(now_ms), *arguments, "--json")
    assert ran.code in {0, 3}, ran.stderr
    return {entry["topic"]: entry for entry in ran.entries}


def value_of(tier: Path, topic: str, key: bytes) -> bytes | None:
    """What a reader of the live segments has for a key."""
    return live_values(status_of(tier)[topic, 0]).get(key)


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return made_tier(tmp_path / "tier")


def test_a_forced_start_above_what_is_clean_brings_no_deleted_key_back(tier: Path) -> None:
    put_segment(tier, FORCED, [data(0, (b"k", b"SECRET"), (b"a", b"1"))], start_offset=0)
    put_segment(tier, FORCED, [data(2, (b"k", None), (b"a", b"2"))], start_offset=2)
    put_segment(tier, FORCED, [data(4, (b"b", b"3"), (b"c", b"4"))], start_offset=4)
    retention = ("--set", "delete.retention.ms=1000")
    # The second pass finds the tombstone's horizon gone by, and below it what it deletes.
    for now_ms in (NOW_MS, NOW_MS + 2000):
        compact(tier, now_ms, "--first-dirty", "4", *retention)
        assert status_of(tier)["forced", 0]["cleaner_offset"] == 0
    put_segment(tier, FORCED, [data(6, (b"b", b"5"))], start_offset=6)
    compact(tier, NOW_MS + 4000, *retention)
    assert value_of(tier, "forced", b"k") is None
    assert value_of(tier, "forced", b"a") == b"2"
    assert status_of(tier)["forced", 0]["cleaner_offset"] == 7


def test_an_abort_above_the_round_that_no_index_lists_costs_no_older_value(tier: Path) -> None:
    put_segment(
        tier,
        BEYOND,
        [data(0, (b"k", b"OLD")), data(1, (b"k", b"aborted"), producer_id=7)],
        start_offset=0,
    )
    opened = ProducerEntry(
        producer_id=8,
        epoch=0,
        last_sequence=3,
        last_data_offset=2,
        last_offset_delta=0,
        last_timestamp_ms=NOW_MS,
        coordinator_epoch=0,
        current_txn_first_offset=2,
    )
    put_segment(
        tier,
        BEYOND,
        [data(2, (b"z", b"z"), producer_id=8), marker(3, 7, ControlType.ABORT)],
        start_offset=2,
        producers=[opened],
    )
    report = compact(tier, NOW_MS)["beyond"]
    assert (report["outcome"], report["next_offset"]) == ("compacted", 2)
    assert "have only their marker" in str(report["notes"])
    put_segment(tier, BEYOND, [marker(4, 8, ControlType.COMMIT)], start_offset=4)
    compact(tier, NOW_MS + 1)
    assert value_of(tier, "beyond", b"k") == b"OLD"
    assert value_of(tier, "beyond", b"z") == b"z"


def test_an_undecided_transaction_that_is_not_open_stops_its_partition(tier: Path) -> None:
    put_segment(tier, UNOPENED, [data(0, (b"k", b"COMMITTED"))], start_offset=0)
    put_segment(tier, UNOPENED, [data(1, (b"k", b"open"), producer_id=7)], start_offset=1)
    report = compact(tier, NOW_MS)["unopened"]
    assert report["outcome"] == "failed"
    assert "producer 7 from offset 1 on has no marker in the tier" in str(report["reason"])
    assert [s["start_offset"] for s in status_of(tier)["unopened", 0]["segments"]] == [0, 1]


def test_dropped_records_without_a_key_are_reported(tier: Path) -> None:
    put_segment(tier, KEYLESS, [data(0, (None, b"event"), (b"k", b"v"))], start_offset=0)
    put_segment(tier, KEYLESS, [data(2, (None, b"event"))], start_offset=2)
    report = compact(tier, NOW_MS)["keyless"]
    assert "2 of 3 records have no key and were dropped" in str(report["notes"])


def test_a_tombstone_kept_for_ever_is_kept(tier: Path) -> None:
    put_segment(tier, FOREVER, [data(0, (b"k", b"v"), (b"a", b"1"))], start_offset=0)
    put_segment(tier, FOREVER, [data(2, (b"k", None), (b"a", b"2"))], start_offset=2)
    forever = ("--set", f"delete.retention.ms={2**63 - 1}", "--first-dirty", "0")
    for passed in range(2):
        report = compact(tier, NOW_MS + passed, *forever)["forever"]
        counts = report["counts"]
        assert isinstance(counts, dict)
        assert counts["tombstones_expired"] == 0
    assert value_of(tier, "forever", b"a") == b"2"
