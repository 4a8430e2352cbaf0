"""What a run keeps of the segments that it has read, and what it takes from earlier runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.tiers import NOW_MS, an_open_producer, key_of
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.ownership import UNSAID, doubtful
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.jobs.context.segment_memory import ENTRIES_MAX, SegmentMemory
from tierfold.storage.catalog.discovered_table import DiscoveredTable

KEY: Final = key_of("orders")
OTHER: Final = key_of("orders", 1)
LISTED: Final = ListedSegment(
    segment_id="A" * 22,
    start_offset=0,
    parts=(("index", 0), ("log", 100)),
    missing_parts=(),
    modified_ms=NOW_MS,
)
EPOCHS: Final = (LeaderEpoch(epoch=0, start_offset=0),)
FOUND: Final = Candidate(
    listed=LISTED,
    segment=Segment(
        segment_id="A" * 22,
        start_offset=0,
        end_offset=9,
        size_bytes=100,
        offset_index_bytes=0,
        time_index_bytes=0,
        max_timestamp_ms=NOW_MS,
        leader_epochs=EPOCHS,
        has_transaction_index=False,
        first_timestamp_ms=NOW_MS,
    ),
    end_offset=9,
    checkpoint=EPOCHS,
)


def memory(folder: Path) -> SegmentMemory:
    """The memory of a run."""
    return SegmentMemory(DiscoveredTable(str(folder)), NOW_MS)


def recalled(folder: Path, *, is_named: bool = False, key: Any = KEY) -> Candidate | None:
    return memory(folder).candidate(key, LISTED, None, is_named=is_named)


def kept(folder: Path, found: Candidate, *, is_named: bool = False) -> None:
    of_run = memory(folder)
    assert of_run.candidate(KEY, found.listed, None, is_named=is_named) is None
    of_run.note(KEY, found, is_named=is_named)
    of_run.save([KEY], [KEY])


@pytest.mark.parametrize("owner", [FOUND.ownership, UNSAID])
def test_what_was_read_comes_back_as_it_was(tmp_path: Path, owner: Any) -> None:
    found = replace(FOUND, ownership=owner, index_corruptions=("it is cut short",))
    kept(tmp_path, found)
    assert recalled(tmp_path) == found
    assert recalled(tmp_path, key=OTHER) is None


def test_what_brokers_named_counts_only_beside_brokers(tmp_path: Path) -> None:
    kept(tmp_path, FOUND, is_named=True)
    assert recalled(tmp_path, is_named=True) == FOUND
    assert recalled(tmp_path) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"ownership": doubtful("it may be another's")},
        {"corruption": "a bad checksum"},
        {"segment": None},
        {"checkpoint": ()},
        {"checkpoint": EPOCHS * (ENTRIES_MAX + 1)},
    ],
)
def test_what_is_doubtful_or_huge_is_not_kept(tmp_path: Path, changes: dict[str, Any]) -> None:
    kept(tmp_path, replace(FOUND, **changes))
    assert recalled(tmp_path) is None


@pytest.mark.parametrize("word", ["whose", "end_from"])
def test_a_word_of_a_later_version_is_not_used(tmp_path: Path, word: str) -> None:
    kept(tmp_path, FOUND)
    table = DiscoveredTable(str(tmp_path))
    (row,) = table.read(NOW_MS)
    later = replace(row, **{word: "of a later version"})
    table.replace({row.row_id}, [later], NOW_MS)
    assert recalled(tmp_path) is None


def test_producers_are_kept_with_their_segment(tmp_path: Path) -> None:
    producers = (an_open_producer(1, 5), replace(an_open_producer(2, 5), last_data_offset=4))
    of_run = memory(tmp_path)
    assert FOUND.segment is not None
    of_run.note(KEY, FOUND, is_named=False)
    of_run.note_producers(KEY, LISTED, FOUND.segment, producers)
    of_run.note_producers(OTHER, LISTED, FOUND.segment, producers[:1] * (ENTRIES_MAX + 1))
    of_run.save([KEY, OTHER], [KEY, OTHER])
    assert recalled(tmp_path) == FOUND
    assert memory(tmp_path).producers(KEY, LISTED) == producers
    assert memory(tmp_path).producers(OTHER, LISTED) is None


def test_what_is_forgotten_is_neither_recalled_nor_kept(tmp_path: Path) -> None:
    kept(tmp_path, FOUND)
    of_run = memory(tmp_path)
    assert of_run.candidate(KEY, LISTED, None, is_named=False) == FOUND
    assert of_run.has_recalled(KEY)
    of_run.forget(KEY)
    assert not of_run.has_recalled(KEY)
    assert of_run.candidate(KEY, LISTED, None, is_named=False) is None
    of_run.save([KEY], [KEY])
    assert recalled(tmp_path) is None


def test_partitions_that_do_not_rest_are_dropped_and_those_out_of_scope_stay(
    tmp_path: Path,
) -> None:
    assert FOUND.segment is not None
    of_run = memory(tmp_path)
    for key in (KEY, OTHER):
        of_run.note(key, FOUND, is_named=False)
    of_run.save([KEY, OTHER], [KEY, OTHER])
    of_run = memory(tmp_path)
    of_run.candidate(KEY, LISTED, None, is_named=False)
    of_run.save([KEY], [])
    assert recalled(tmp_path) is None
    assert recalled(tmp_path, key=OTHER) == FOUND


def test_of_two_runs_that_write_at_once_one_is_lost_and_none_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(tmp_path, FOUND)
    table = DiscoveredTable(str(tmp_path))
    (row,) = table.read(NOW_MS)
    stale = table._table.newest()
    newer = replace(row, partition=1)
    assert table.replace({newer.row_id}, [newer], NOW_MS)
    monkeypatch.setattr(table._table, "newest", lambda: stale)
    assert not table.replace({row.row_id}, [], NOW_MS)
    assert {found.partition for found in DiscoveredTable(str(tmp_path)).read(NOW_MS)} == {0, 1}
