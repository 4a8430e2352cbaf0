"""Idle runs read a segment once, whatever its layout and its store; the memory decides nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.aiven import BOTH
from tests.jobs.commands import ALWAYS, CLOCK, Ran, tierfold
from tests.jobs.tiers import (
    NOW_MS,
    copied,
    files_below,
    key_of,
    put_updates,
    updated_tier,
)
from tests.storage.emulators import s3, s3_environment, uploaded
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.compaction.discovery.candidates import EndFrom
from tierfold.storage.catalog.discovered_table import KEPT_MS, DiscoveredSegment, DiscoveredTable
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

DONE: Final = key_of("done")
NEW: Final = key_of("orders")
DETACHED: Final = ("--set", "tier.binding=detached")
YOUNG: Final = ("--set", "min.compaction.lag.ms=86400000")
"""Nothing of the tests' segments may be compacted yet."""
Place = Callable[[Path], tuple[str, ...]]


def local(folder: Path) -> Path:
    """A partition to compact first, and one whose three segments no row will name."""
    return updated_tier(folder / "local", (DONE, NEW), segments=3)


def in_a_bucket(folder: Path) -> tuple[str, ...]:
    return (uploaded(local(folder), s3()),)


def of_aiven_in_a_bucket(folder: Path) -> tuple[str, ...]:
    """Compressed and encrypted."""
    written = aiven_tier(local(folder), folder / "aiven", BOTH.variant)
    return (uploaded(written, s3()), *BOTH.arguments)


def ran(verb: str, *arguments: str | Path, now_ms: int = NOW_MS) -> Ran:
    found = tierfold(verb, *arguments, *ALWAYS, *DETACHED, CLOCK, str(now_ms), "--json")
    assert found.code == 0, found
    return found


def begun(*tier: str | Path) -> None:
    """Compact one of the partitions, so that there is a catalog."""
    done = ran("compact", *tier, "--topic", "done").partitions["done", 0]
    assert done["outcome"] == "compacted"


def idle(*tier: str | Path, verb: str = "compact", now_ms: int = NOW_MS) -> dict[str, Any]:
    """The document of a run that has nothing to do."""
    document = ran(verb, *tier, *YOUNG, now_ms=now_ms).document
    assert {entry["outcome"] for entry in document["partitions"]} == {"nothing_to_do"}
    return document


@pytest.mark.parametrize(
    ("place", "first"), [(in_a_bucket, 13), (of_aiven_in_a_bucket, 16)]
)
def test_only_the_first_of_three_idle_runs_reads_segments(
    place: Place, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_environment(s3()).items():
        monkeypatch.setenv(name, value)
    tier = place(tmp_path)
    begun(*tier)
    gets = [idle(*tier)["requests"]["gets"] for _ in range(3)]
    assert gets == [first, 0, 0]
    assert idle(*tier, verb="plan")["requests"]["gets"] == 0


def with_one_claimed(folder: Path) -> Path:
    tier = local(folder)
    begun(tier)
    return tier


tier = copied(with_one_claimed)


def remembered(tier: Path, now_ms: int = NOW_MS) -> tuple[DiscoveredSegment, ...]:
    return DiscoveredTable(str(tier / CATALOG_FOLDER)).read(now_ms)


def versions(tier: Path) -> int:
    """How often the table was written."""
    return len(list((tier / CATALOG_FOLDER / "discovered" / "_delta_log").glob("*.json")))


def blanked(tier: Path) -> None:
    """Overwrite all objects: a run that reads one notices it, and a listing is as before."""
    for path in (tier / "kafka-tiered-storage").rglob("*"):
        if path.is_file():
            found = path.stat()
            path.write_bytes(bytes(found.st_size))
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def swapped_for(tier: Path, *rows: DiscoveredSegment) -> None:
    partitions = {row.row_id for row in rows}
    assert DiscoveredTable(str(tier / CATALOG_FOLDER)).replace(partitions, rows, NOW_MS)


def test_an_idle_run_writes_the_memory_once_and_later_ones_not_at_all(tier: Path) -> None:
    before = versions(tier)
    idle(tier)
    assert len(remembered(tier)) == 3
    written = versions(tier)
    assert written == before + 2  # The table, and its rows.
    blanked(tier)
    idle(tier)
    idle(tier)
    assert versions(tier) == written


def test_plan_recalls_and_writes_nothing(tier: Path) -> None:
    before = files_below(tier)
    idle(tier, verb="plan")
    assert files_below(tier) == before
    idle(tier)
    blanked(tier)
    before = files_below(tier)
    idle(tier, verb="plan")
    assert files_below(tier) == before


def test_a_new_segment_is_read_and_the_others_are_not(tier: Path) -> None:
    idle(tier)
    blanked(tier)
    put_updates(tier, NEW, 3)
    idle(tier)
    assert [row.start_offset for row in remembered(tier)] == [0, 11, 22, 33]


def test_what_is_adopted_is_read_again_before_the_claim(tier: Path) -> None:
    idle(tier)
    wrong = [
        replace(row, segment=replace(row.segment, end_offset=row.segment.end_offset - 1))
        if row.start_offset == 22
        else row
        for row in remembered(tier)
    ]
    swapped_for(tier, *wrong)
    done = ran("compact", tier, "--topic", "orders").entry
    assert (done["outcome"], done["next_offset"]) == ("compacted", 33)
    assert not remembered(tier)


def test_what_is_remembered_refuses_nothing(tier: Path) -> None:
    idle(tier)
    first, *others = remembered(tier)
    with_gap = replace(first, segment=replace(first.segment, end_offset=5))
    swapped_for(tier, with_gap, *others)
    idle(tier)
    assert [row.segment.end_offset for row in remembered(tier)] == [10, 21, 32]


def test_what_changes_in_the_listing_is_read_again(tier: Path) -> None:
    idle(tier)
    before = remembered(tier)
    for path in (tier / "kafka-tiered-storage").rglob("*.log"):
        os.utime(path, ns=(2 * 10**18, 2 * 10**18))
    idle(tier)
    after = remembered(tier)
    assert [row.modified_ms for row in before] != [row.modified_ms for row in after]
    assert [replace(row, modified_ms=0) for row in before] == [
        replace(row, modified_ms=0) for row in after
    ]


def test_a_row_counts_for_a_month(tier: Path) -> None:
    idle(tier)
    later = NOW_MS + KEPT_MS
    assert len(remembered(tier, later)) == 3
    assert not remembered(tier, later + 1)
    assert not remembered(tier, NOW_MS - 1)


@pytest.mark.parametrize(
    "column",
    [
        {"whose": "unheard of"},
        {"end_from": "hearsay"},
        {"segment_id": "A" * 22},
        {"object_bytes": (1,)},
    ],
)
def test_a_row_that_does_not_fit_is_not_used(tier: Path, column: dict[str, Any]) -> None:
    idle(tier)
    before = remembered(tier)
    swapped_for(tier, *(replace(row, **column) for row in before))
    idle(tier)
    assert remembered(tier) == before


def test_a_table_that_cannot_be_read_stops_no_run(tier: Path) -> None:
    idle(tier)
    for path in (tier / CATALOG_FOLDER / "discovered").rglob("*.parquet"):
        path.write_bytes(b"?")
    idle(tier)
    for path in (tier / CATALOG_FOLDER / "discovered" / "_delta_log").glob("*.json"):
        path.write_bytes(b"?")
    idle(tier)


def test_a_tier_without_a_catalog_gets_none(tmp_path: Path) -> None:
    tier = local(tmp_path)
    idle(tier)
    assert not (tier / CATALOG_FOLDER).exists()


def test_the_snapshot_of_an_adopted_segment_is_read_once(tier: Path) -> None:
    """A claim adopts all segments, also those that its run has no time for."""
    only_one = ("--set", "chunk.bytes=1", "--max-bytes", "1")
    assert ran("compact", tier, "--topic", "orders", *only_one).entry["next_offset"] == 11
    idle(tier)
    blanked(tier)
    assert [row.end_from for row in remembered(tier)] == [""]
    idle(tier)


def test_end_from_is_never_empty() -> None:
    """An empty one says that only the snapshot was read."""
    assert "" not in {*EndFrom}
