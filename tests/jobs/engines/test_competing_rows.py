"""The driver collects a round's competing keys from the rows of its dirty segments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.compaction.claimed import a_round
from tests.compaction.hash_keys import HASH_KEY
from tests.storage.judged_segments import segment_of
from tests.storage.live_segments import KEY, a_tier
from tierfold.compaction.skipping.skip_decision import COMPETING_MAX
from tierfold.jobs.context.byte_progress import unheard
from tierfold.jobs.engines import probe
from tierfold.jobs.engines.probe import competing_by_round
from tierfold.jobs.engines.rows import Row, RowKind, Worker, pickled, unpickled
from tierfold.jobs.engines.scan import ScanStage, ScanTask
from tierfold.jobs.engines.task_assignment import scan_rows
from tierfold.storage.segments.segment_scan import ScanOrder

ROUND = replace(a_round(first_dirty=11), has_key_indexes=True)
"""Its first segment is clean, the other two are dirty."""


def rows_of(tmp_path: Path, *words: str, most: int = 9) -> list[Row]:
    """The COMPETING rows of a scanned segment of these batches; the driver accepts `most` keys."""
    tier = a_tier(tmp_path)
    order = ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=1, competing_max=most)
    segment = segment_of(tier, words)
    task = ScanTask(key=KEY, segment=segment, aborted=(), order=order)
    row = Row(task=0, partition_index=0, segment_index=1, kind=RowKind.SCAN, payload=pickled(task))
    stage = ScanStage(first_bucket_task={0: 0})
    found = list(stage(Worker(tier=tier, advance=unheard), [row]))
    return [one for one in found if one.kind in {RowKind.COMPETING, RowKind.FAILED}]


def keys_of(rows: list[Row]) -> int | None:
    """How many keys compete; None: the key indexes are not asked."""
    found = competing_by_round([ROUND], rows)
    return len(found[0]) if found else None


def test_each_key_of_a_dirty_segment_competes(tmp_path: Path) -> None:
    assert ROUND.skippable
    assert keys_of(rows_of(tmp_path, "[11:a=1 12:b=1]", "13:a=")) == 2


def test_indexes_are_asked_even_if_a_dirty_segment_has_only_markers(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "11:P1:C", "12:P1:A")
    assert keys_of(rows) == 0
    more = replace(rows[0], segment_index=2, payload=np.array([256], np.uint64).tobytes())
    assert keys_of([*rows, more]) == 1


@pytest.mark.parametrize(("most", "expected"), [(2, 2), (1, None)])
def test_with_too_many_keys_no_index_is_asked(
    most: int, expected: int | None, tmp_path: Path
) -> None:
    rows = rows_of(tmp_path, "[11:a=1 12:b=1]", most=most)
    assert keys_of(rows) == expected


def test_the_dirty_segments_share_the_keys_that_the_driver_accepts() -> None:
    rows, _ = scan_rows([ROUND], 2)
    orders = [unpickled(row.payload).order for row in rows]
    half = COMPETING_MAX // 2
    assert [order.competing_max for order in orders] == [0, half, half]
    without = replace(ROUND, has_key_indexes=False)
    assert {unpickled(row.payload).order.competing_max for row in scan_rows([without], 2)[0]} == {0}


def test_the_limit_counts_the_keys_of_all_segments_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "COMPETING_MAX", 2)
    rows = rows_of(tmp_path, "[11:a=1 12:b=1]")
    same = [*rows, replace(rows[0], segment_index=2)]
    assert keys_of(same) == 2
    other = replace(rows[0], segment_index=2, payload=np.array([256], np.uint64).tobytes())
    assert keys_of([*rows, other]) is None


def test_a_failed_segment_excludes_its_round(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "[11:a=1 12:b=1]")
    failed = replace(rows[0], segment_index=2, kind=RowKind.FAILED, payload=pickled("broken"))
    assert keys_of([failed, *rows]) is None
    assert keys_of([*rows, failed]) is None
    others = replace(failed, partition_index=5)
    assert keys_of([others, *rows]) == 2
