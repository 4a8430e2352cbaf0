"""The other verbs and the reader work on a tier that `vacuum` has cleaned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.jobs.claims import row_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran, tierfold, told
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import copied, latest_updates, live_values, put_updates, updated_tier
from tests.jobs.vacuum_tiers import (
    DELETE,
    DETACHED,
    HOUR_MS,
    ORDERS,
    THEN_MS,
    compact,
    incomplete_upload,
    orphan,
    vacuum,
)
from tests.storage.call_scripts import Killed, killed
from tests.storage.live_segments import NOW_MS
from tierfold.compaction.model.segments import CleanerOffset
from tierfold.jobs.sources.segment_options import FORMAT
from tierfold.jobs.sources.segment_source import register

EACH = ("--set", "segment.bytes=1")
BOTH = (*DELETE, "--set", "cleanup.policy=compact,delete")


def keeping(since_ms: int) -> tuple[str, str]:
    """Records of `put_updates` at such an offset and later are kept: it is their time, too."""
    return "--set", f"retention.ms={THEN_MS - NOW_MS - since_ms}"


def expired_once(folder: Path) -> Path:
    """Each segment compacted by itself, then the first of them expired."""
    tier = updated_tier(folder, [ORDERS], 3)
    assert compact(tier, *EACH).outcomes["orders", 0] == "compacted"
    (gone,) = vacuum(tier, *BOTH, *keeping(5), hours=0).entry["expired"]
    assert gone["end_offset"] == 10
    return tier


tier = copied(expired_once)


def left_of(segments: int) -> dict[bytes, bytes]:
    return {key: value for key, value in latest_updates(segments).items() if key != b"own 0"}


def verified(tier: Path) -> tuple[int, int | None, str]:
    """Exit code, keys compared and notes."""
    ran = tierfold("verify", tier, "--json")
    entry = ran.entry
    return ran.code, entry["keys_compared"], "; ".join(entry["notes"])


def test_verify_compares_what_lies_above_the_log_start(tier: Path) -> None:
    assert verified(tier) == (0, len(left_of(3)), "")


def test_verify_reads_no_original_that_is_being_deleted_or_is_gone(tier: Path) -> None:
    with scripted(killed("delete 1")), pytest.raises(Killed):
        vacuum(tier)
    for _ in range(2):
        code, compared, notes = verified(tier)
        assert (code, compared) == (0, None)
        assert not told(notes, "not compared: some original segments are gone")
        assert vacuum(tier, hours=51).code == 0
    assert row_of(tier).retired == ()


def test_the_reader_begins_at_the_log_start(tier: Path, spark: SparkSession) -> None:
    register(spark)
    frame = spark.read.format(FORMAT).load(str(tier))
    offsets = [record["offset"] for record in frame.select("offset").collect()]
    assert min(offsets) == row_of(tier).log_start_offset == 11
    assert frame.filter("offset < 11").count() == 0


def test_compact_goes_on_from_the_log_start(tier: Path) -> None:
    put_updates(tier, ORDERS, 3)
    assert compact(tier, hours=1).outcomes["orders", 0] == "compacted"
    assert row_of(tier).log_start_offset == row_of(tier).segments[0].start_offset == 11
    lives = tierfold("status", tier, "--json", "--segments").entry
    assert live_values(lives) == left_of(4)


def test_a_cleaner_offset_that_the_log_start_passed_is_reset(tier: Path) -> None:
    put_updates(tier, ORDERS, 3)
    put_updates(tier, ORDERS, 4)
    assert vacuum(tier, *BOTH, *keeping(40), hours=0).code == 0
    after = row_of(tier)
    assert (after.log_start_offset, after.cleaner_offset) == (33, 33)
    put_updates(tier, ORDERS, 5)
    assert vacuum(tier, *BOTH, *keeping(50), hours=0).code == 0
    assert (row_of(tier).log_start_offset, row_of(tier).cleaner_offset) == (44, 33)
    ran = compact(tier, hours=1)
    entry = ran.entry
    assert (entry["outcome"], entry["first_dirty"]) == ("compacted", 44)
    assert "cleaner offset 33 lies below the log start 44" in "; ".join(entry["notes"])
    assert row_of(tier).cleaner_offsets[-1] == CleanerOffset(epoch=row_of(tier).epoch, offset=66)


def test_status_reports_what_waits_and_what_is_being_deleted(tier: Path) -> None:
    orphan(tier, 1)
    incomplete_upload(tier)
    with scripted(killed("delete 1", is_done=True)), pytest.raises(Killed):
        vacuum(tier)
    entry = tierfold("status", tier, "--json", "--segments").entry
    bytes_each = [retired["size_bytes"] for retired in entry["retired"]]
    assert [retired["deletion_started_at_ms"] is None for retired in entry["retired"]] == [
        False
    ] * 4
    assert all(
        retired["deletion_started_at_ms"] >= THEN_MS + 25 * HOUR_MS for retired in entry["retired"]
    )
    assert entry["owner_run"] == row_of(tier).owner_run != ""
    assert entry["committed_at_ms"] == row_of(tier).committed_at_ms
    assert entry["orphan_bytes"] > 0
    shown = tierfold("status", tier).stdout
    assert sum(bytes_each) > 0
    unfolded = " ".join(shown.replace("│", " ").split())
    assert not told(unfolded, "4 segments retired", "4 being deleted", "1 orphan")
    assert row_of(tier).owner_run in shown


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ((), ("brokers serve this tier", "tier.binding=detached")),
        (("--set", "tier.binding=bound"), ("brokers serve this tier",)),
        (DETACHED, ()),
    ],
)
def test_compact_warns_once_that_brokers_do_not_know(
    tier: Path, declared: tuple[str, ...], words: tuple[str, ...]
) -> None:
    put_updates(tier, ORDERS, 3)
    options = (*ALWAYS, *declared, CLOCK, str(THEN_MS))
    ran: Ran = tierfold("compact", tier, *options)
    assert ran.code == 0
    said = " ".join(ran.stderr.split())
    assert not told(said, *words)
    assert said.count("they keep serving the segments") == bool(words)
    # A run that changes nothing warns of nothing.
    assert "they keep serving" not in tierfold("compact", tier, *options).stderr
    # spark-submit joins stderr to stdout, where the document must be alone: it says the same.
    put_updates(tier, ORDERS, 4)
    documented = compact(tier, *declared)
    assert "they keep serving" not in documented.stderr
    warnings = json.loads(documented.stdout)["warnings"]
    assert len(warnings) == bool(words)
    assert not told("".join(warnings), *words)
    assert json.loads(compact(tier, *declared).stdout)["warnings"] == []
