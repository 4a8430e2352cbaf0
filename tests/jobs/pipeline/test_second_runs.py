"""A run on a clean partition reads only what must change, and its result is as without an index."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.jobs.claims import ORDERS, catalog_of
from tests.jobs.commands import ALWAYS, CLOCK, status_of, tierfold
from tests.jobs.tiers import copied, files_below, made_tier, put_segment, records_in
from tests.storage.live_segments import data
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.storage.key_indexes.index_files import filter_file, read_filter_file
from tierfold.storage.key_indexes.index_folder import FOLDER
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

APART: Final = (*ALWAYS, "--set", "segment.bytes=1")
"""Segments are not merged."""
DAY_MS: Final = 86_400_000
NOW_MS: Final = 1_800_000_000_000
OF_THE_EMPTIED: Final = ProducerEntry(
    producer_id=7,
    epoch=0,
    last_sequence=0,
    last_data_offset=0,
    last_offset_delta=0,
    last_timestamp_ms=NOW_MS,
    coordinator_epoch=0,
    current_txn_first_offset=None,
)


def put(tier: Path, offset: int, *words: str) -> Path:
    """Upload a segment of `key=value` records from that offset on; `key` alone is a tombstone."""
    records = []
    for word in words:
        key, equals, value = word.partition("=")
        records.append((key.encode(), value.encode() if equals else None))
    return put_segment(tier, ORDERS, [data(offset, *records)], start_offset=offset)


def compact(tier: Path, *arguments: str, now_ms: int = NOW_MS) -> dict[str, Any]:
    """The entry of a run that compacts."""
    ran = tierfold("compact", tier, *APART, CLOCK, str(now_ms), "--json", *arguments)
    assert ran.code == 0, ran
    return ran.entry


def indexes(tier: Path) -> Path:
    return tier / CATALOG_FOLDER / FOLDER


def live(tier: Path) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of each record of the live log."""
    return records_in([segment["log"] for segment in status_of(tier)["orders", 0]["segments"]])


def two_clean(folder: Path) -> Path:
    """Two clean segments with key indexes: offsets 0 to 2 with keys a, b, and 3 to 5 with c, d."""
    tier = made_tier(folder)
    put(tier, 0, "a=1", "a=2", "b=1")
    put(tier, 3, "c=1", "c=2", "d=1")
    compact(tier)
    assert len(list(indexes(tier).rglob("*.bloom"))) == 2
    return tier


clean = copied(two_clean)


def test_an_unchanged_tier_is_neither_read_nor_written(clean: Path) -> None:
    before = files_below(clean / "kafka-tiered-storage")
    entry = compact(clean)
    assert (entry["outcome"], entry["bytes_read"], entry["bytes_written"]) == (
        "nothing_to_do",
        0,
        0,
    )
    assert files_below(clean / "kafka-tiered-storage") == before


def test_segments_without_a_superseded_key_are_not_read(clean: Path) -> None:
    new = put(clean, 6, "e=1")
    entry = compact(clean)
    asked = entry["key_indexes"]
    assert entry["segments_skipped"] == 2
    assert asked["by_bloom_filter"] + asked["by_key_index"] == 2
    # The new segment lost nothing, as its scan showed.
    assert entry["bytes_read"] == new.stat().st_size
    assert entry["bytes_written"] == 0
    assert entry["counts"]["records_in"] == entry["counts"]["kept"] == 5


def test_only_the_segment_with_a_superseded_key_is_read(clean: Path) -> None:
    put(clean, 6, "d=2")
    entry = compact(clean)
    assert (entry["segments_skipped"], entry["key_indexes"]["superseded"]) == (1, 1)
    assert entry["counts"]["superseded"] == 1
    assert [(offset, key) for offset, key, _ in live(clean)] == [
        (1, b"a"),
        (2, b"b"),
        (4, b"c"),
        (6, b"d"),
    ]


def damaged(tier: Path) -> None:
    for path in indexes(tier).rglob("*.*"):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def swapped(tier: Path) -> None:
    """Give each segment the index of the other one."""
    for suffix in (".bloom", ".keys"):
        one, other = sorted(indexes(tier).rglob(f"*{suffix}"))
        first = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(first)


def huge(tier: Path) -> None:
    """Filters of 8 GiB that take no room on the disk."""
    for path in indexes(tier).rglob("*.bloom"):
        os.truncate(path, 2**33)


def odd(tier: Path) -> None:
    """Filters without a bit, whose checksums are right."""
    for segment in catalog_of(tier).read()[ORDERS].segments:
        (path,) = indexes(tier).rglob(f"{segment.segment_id}.bloom")
        found = read_filter_file(path.read_bytes(), segment)
        none = replace(found.bloom, words=np.empty(0, np.uint64))
        path.write_bytes(filter_file(replace(found, bloom=none)))


def without_keys(tier: Path) -> None:
    for path in indexes(tier).rglob("*.keys"):
        path.unlink()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda tier: shutil.rmtree(indexes(tier)), "no_index"),
        (damaged, "unsound_index"),
        (swapped, "unsound_index"),
        (huge, "unsound_index"),
        (odd, "unsound_index"),
        (without_keys, "no_index"),
    ],
    ids=["missing", "damaged", "of other segments", "huge", "odd", "only the filter is left"],
)
def test_a_spoilt_index_costs_one_read_and_is_made_again(
    clean: Path, spoil: Any, why: str
) -> None:
    spoil(clean)
    put(clean, 6, "b=2", "d=2")
    entry = compact(clean)
    assert (entry["key_indexes"][why], entry["segments_skipped"]) == (2, 0)
    assert entry["counts"]["superseded"] == 2
    put(clean, 8, "e=1")
    again = compact(clean)
    # The segment of offsets 6 and 7 has one, too: it lost nothing when it was dirty.
    assert (again["key_indexes"]["no_index"], again["segments_skipped"]) == (0, 3)


def indexed_starts(tier: Path) -> list[int]:
    """The first offsets of the live segments that have both files."""
    files = {path.name for path in indexes(tier).rglob("*.*")}
    return [
        segment.start_offset
        for segment in catalog_of(tier).read()[ORDERS].segments
        if {f"{segment.segment_id}.bloom", f"{segment.segment_id}.keys"} <= files
    ]


def test_an_upload_that_loses_nothing_gets_its_index_at_its_first_read(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    new = [put(tier, 0, "a=1", "b=1"), put(tier, 2, "c=1", "d=1")]
    entry = compact(tier)
    sizes = sum(path.stat().st_size for path in new)
    assert (entry["bytes_read"], entry["bytes_written"]) == (sizes, 0)
    assert indexed_starts(tier) == [0, 2]


def test_an_upload_that_no_scan_shows_to_stay_gets_its_index_too(tmp_path: Path) -> None:
    """A broker's cleaner has emptied a batch of it, so that the rewrite reads it."""
    tier = made_tier(tmp_path / "tier")
    emptied = replace(data(0, (b"a", b"1")), records=(), last_offset=0)
    batches = [replace(emptied, producer_id=7, producer_epoch=0), data(1, (b"b", b"1"))]
    put_segment(tier, ORDERS, batches, start_offset=0, producers=[OF_THE_EMPTIED])
    assert compact(tier)["bytes_written"] == 0
    assert indexed_starts(tier) == [0]


def test_what_loses_records_gets_no_index_of_its_own(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    put(tier, 0, "a=1", "a=2", "b=1")
    put(tier, 3, "c=1", "d=1")
    put(tier, 5, "d=2")
    compact(tier)
    assert indexed_starts(tier) == [0, 3, 5]
    # Only the other segment's key shows that one loses a record: its first index goes with it.
    assert len(list(indexes(tier).rglob("*.bloom"))) == 4


def test_neighbours_that_become_one_get_one_index(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    put(tier, 0, "a=1")
    put(tier, 1, "b=1")
    compact(tier, "--set", f"segment.bytes={2**20}")
    assert len(list(indexes(tier).rglob("*.bloom"))) == 1


def test_each_round_ends_as_one_without_an_index(clean: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(clean, other)
    offset = 6
    rounds = (["e=1"], ["a=3"], ["b"], ["f=1", "c"], ["d=2", "e=2"], ["g=1"])
    skipped = 0
    for number, words in enumerate(rounds):
        now_ms = NOW_MS + number * DAY_MS
        for tier in (clean, other):
            put(tier, offset, *words)
        shutil.rmtree(indexes(other), ignore_errors=True)
        skipped += compact(clean, now_ms=now_ms)["segments_skipped"]
        assert compact(other, now_ms=now_ms)["segments_skipped"] == 0
        assert live(clean) == live(other)
        offset += len(words)
    assert skipped >= 4


# What a rewrite must save at least.


def test_a_small_gain_leaves_a_segment_as_it_is(clean: Path) -> None:
    put(clean, 6, "d=2")
    entry = compact(clean, "--set", "min.rewrite.bytes=1000000")
    assert (entry["key_indexes"]["by_small_gain"], entry["segments_skipped"]) == (1, 2)
    assert (5, b"d", b"1") in live(clean)
    # The value is superseded by a clean record now: it goes with the next record of its key.
    put(clean, 7, "d=3")
    compact(clean)
    assert (5, b"d", b"1") not in live(clean)


def test_a_share_that_is_large_enough_is_worth_a_rewrite(clean: Path) -> None:
    put(clean, 6, "d=2")
    shutil.copytree(clean, other := clean.with_name("other"))
    assert compact(clean, "--set", "min.rewrite.gain=0.4")["segments_skipped"] == 1
    assert compact(other, "--set", "min.rewrite.gain=0.6")["segments_skipped"] == 2


def test_a_deleted_value_goes_however_little_that_saves(clean: Path) -> None:
    small = ("--set", "min.rewrite.bytes=1000000")
    put(clean, 6, "d")
    assert compact(clean, *small)["key_indexes"]["superseded"] == 1
    assert [key for _, key, _ in live(clean)] == [b"a", b"b", b"c", b"d"]
    # The tombstone goes, and no older value comes back.
    compact(clean, *small, now_ms=NOW_MS + 2 * DAY_MS)
    assert [key for _, key, _ in live(clean)] == [b"a", b"b", b"c"]


# A batch that stays only for its producer.


def with_a_producer(folder: Path) -> Path:
    """A tier whose first batch loses its record, and is the last one of an active producer."""
    tier = made_tier(folder / "tier")
    of_producer = replace(
        data(0, (b"a", b"1")), producer_id=7, producer_epoch=0, base_sequence=0
    )
    live = (OF_THE_EMPTIED,)
    put_segment(tier, ORDERS, [of_producer, data(1, (b"b", b"1"))], start_offset=0, producers=live)
    put_segment(tier, ORDERS, [data(2, (b"a", b"2"))], start_offset=2, producers=live)
    return tier


def test_a_producer_that_expires_makes_its_partition_due_once(tmp_path: Path) -> None:
    tier = with_a_producer(tmp_path)
    assert compact(tier)["counts"]["superseded"] == 1
    first, last = catalog_of(tier).read()[ORDERS].segments
    assert (first.kept_for_producer_ms, last.kept_for_producer_ms) == (NOW_MS, None)
    bytes_before = first.size_bytes
    assert compact(tier, now_ms=NOW_MS + DAY_MS - 1)["outcome"] == "nothing_to_do"
    planned = tierfold("plan", tier, *APART, CLOCK, str(NOW_MS + DAY_MS), "--json").entry
    assert planned["outcome"] == "planned"
    assert "a producer that has expired (producer.id.expiration.ms)" in planned["reason"]
    explain = ("--explain", "orders-0")
    told = tierfold("plan", tier, *APART, CLOCK, str(NOW_MS + DAY_MS), *explain).stdout
    assert "a producer whose last batch in it is empty expired" in " ".join(told.split())
    assert compact(tier, now_ms=NOW_MS + DAY_MS)["outcome"] == "compacted"
    first, last = catalog_of(tier).read()[ORDERS].segments
    assert first.kept_for_producer_ms is None
    assert first.size_bytes == bytes_before - 61
    assert compact(tier, now_ms=NOW_MS + 9 * DAY_MS)["outcome"] == "nothing_to_do"


def test_a_producer_that_wrote_since_puts_the_time_off(tmp_path: Path) -> None:
    """Its newest data is in a segment that is too young to compact."""
    tier = with_a_producer(tmp_path)
    compact(tier)
    later = replace(OF_THE_EMPTIED, last_timestamp_ms=NOW_MS + DAY_MS)
    put_segment(tier, ORDERS, [data(3, (b"c", b"1"))], start_offset=3, producers=[later])
    held = ("--set", "min.cleanable.dirty.ratio=0.9")
    assert compact(tier, *held, now_ms=NOW_MS + DAY_MS)["outcome"] == "compacted"
    first, *_ = catalog_of(tier).read()[ORDERS].segments
    assert first.kept_for_producer_ms == NOW_MS + DAY_MS
    assert compact(tier, *held, now_ms=NOW_MS + DAY_MS)["outcome"] == "nothing_to_do"


# Where indexes lie, and when they go.


def test_indexes_lie_beside_the_catalog(tmp_path: Path) -> None:
    tier, catalog = made_tier(tmp_path / "tier"), tmp_path / "catalog"
    put(tier, 0, "a=1", "a=2")
    compact(tier, "--catalog", str(catalog))
    assert list((catalog / FOLDER).rglob("*.bloom"))
    assert not list(tier.rglob("*.bloom"))


def test_vacuum_deletes_the_indexes_of_segments_that_are_gone(clean: Path) -> None:
    put(clean, 6, "b=2", "d=2")
    compact(clean)
    detached = ("--set", "tier.binding=detached", "--grace-period", "1h")
    later = (CLOCK, str(NOW_MS + DAY_MS), "--json")
    named = {path.stem for path in indexes(clean).rglob("*.bloom")}
    before = tierfold("vacuum", clean, *detached, CLOCK, str(NOW_MS), "--json")
    assert before.document["catalog_files"] == 0
    dry = tierfold("vacuum", clean, *detached, *later, "--dry-run")
    assert dry.document["catalog_files"] == 0
    tierfold("vacuum", clean, *detached, *later)
    live = {segment.segment_id for segment in catalog_of(clean).read()[ORDERS].segments}
    left = {path.stem for path in indexes(clean).rglob("*.*")}
    assert left == named & live < named


def test_all_is_read_if_versions_decide(clean: Path) -> None:
    put(clean, 6, "e=1")
    entry = compact(clean, "--set", "compaction.strategy=timestamp")
    assert entry["segments_skipped"] == sum(entry["key_indexes"].values()) == 0
