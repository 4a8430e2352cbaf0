"""The index of a rewritten segment is the one that a scan of that segment would make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.pictures.batch_words import draft_of
from tests.scratch import SCRATCH
from tests.storage.drafts import logs
from tests.storage.judged_segments import FPP, scanned_files, segment_of
from tests.storage.legacy_messages import message
from tests.storage.live_segments import a_group_task, a_tier, an_abort, put_segment
from tests.storage.stored_logs import small_windows
from tierfold.compaction.cleaning.offset_map import SUPERSEDED
from tierfold.compaction.commits.receipts import GroupReceipt
from tierfold.compaction.model.segments import Segment
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.key_indexes.index_folder import FOLDER, KeyIndexes
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage


def rewritten(
    tier: LocalTieredStorage,
    segments: Sequence[Segment],
    superseded: Sequence[int] = (),
    **fields: Any,
) -> tuple[GroupReceipt, list[bytes] | None]:
    """The receipt, and both files of the new segment's index; `superseded`: of each segment."""
    bits = np.zeros(100, np.uint8)
    bits[[*superseded]] = SUPERSEDED
    root = tier.store.root
    task = a_group_task(segments, **({"fpp": FPP} | fields))
    receipt = rewrite_group(tier, task, lambda _: bits, key_indexes=KeyIndexes(LocalStore(root)))
    folder = root / FOLDER
    files = [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]
    if receipt.written:
        assert sum(new.index_bytes for new in receipt.written) == sum(map(len, files))
    return receipt, files or None


@pytest.mark.parametrize(
    ("logs_of", "superseded", "fields_of"),
    [
        ([["10:a=1", "11:b=1"]], [0], {}),
        ([["10:a=1", "11:b=1"], ["12:c=1"]], [], {}),
        ([["[10:a=1 11:b=1]", "12:c=1"], ["13:d=1", "[14:e=1 15:f=1]"]], [0], {}),
        ([["10:a=1", "11:b="]], [], {}),
        ([["10:a=1", "11:b=^400"]], [], {}),
        ([["P1(10:a=1)", "11:P1:A"]], [], {"aborted": (an_abort(1, 10, 11),)}),
        ([["P1(10:a=1)", "11:P1:C"], ["12:P1:()"]], [], {"discardable": np.array([11, 12])}),
        ([["10:a=1", "11:P1:C^400", "12:b=1"]], [], {"discardable": np.array([11])}),
        ([["10:a=1", "11:=1", "12:b=1"]], [], {}),
        ([["10:a=1", "11:b=1"]], [0, 1], {"ends_in_batch": True}),
        ([["10:a=1", "p1(11:b=1)"]], [1], {}),
    ],
    ids=[
        "superseded",
        "several segments",
        "several, superseded",
        "a horizon is set",
        "a tombstone goes",
        "aborted",
        "markers get horizons",
        "a marker goes",
        "a record without a key goes",
        "no record stays",
        "the last batch is emptied",
    ],
)
@pytest.mark.parametrize("window_bytes", [1, 10**6])
def test_a_rewritten_segment_has_the_index_that_a_scan_would_make(
    window_bytes: int,
    logs_of: list[list[str]],
    superseded: list[int],
    fields_of: dict[str, Any],
    tier: LocalTieredStorage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_windows(monkeypatch, window_bytes)
    segments = [segment_of(tier, words) for words in logs_of]
    receipt, files = rewritten(tier, segments, superseded, **fields_of)
    assert receipt.segment is not None
    assert files == scanned_files(tier, receipt.segment)
    assert files is not None


def test_a_closing_batch_is_in_the_index(tier: LocalTieredStorage) -> None:
    segment = replace(segment_of(tier, ["10:a=1"]), end_offset=15)
    receipt, files = rewritten(tier, [segment], ends_in_batch=True)
    assert receipt.segment is not None
    assert files == scanned_files(tier, receipt.segment)
    assert files is not None


def test_a_legacy_segment_gets_an_index_once_it_is_converted(tier: LocalTieredStorage) -> None:
    log = [message(10, b"v"), message(11, None, key=b"l"), "p1(12:a=1)"]
    drafts = [draft_of(one, 0) if isinstance(one, str) else one for one in log]
    segment = put_segment(tier, drafts, offsets=(10, 12))
    assert scanned_files(tier, segment) is None
    receipt, files = rewritten(tier, [segment])
    assert receipt.segment is not None
    assert files == scanned_files(tier, receipt.segment)
    assert files is not None


def test_an_unchanged_segment_gets_its_index_from_a_rewrite(tier: LocalTieredStorage) -> None:
    segment = segment_of(tier, ["10:a=1"])
    receipt, files = rewritten(tier, [segment])
    assert receipt.written == ()
    assert files is not None
    assert all(segment.segment_id.encode() in file for file in files)


def test_a_round_that_makes_no_indexes_makes_none(tier: LocalTieredStorage) -> None:
    receipt, files = rewritten(tier, [segment_of(tier, ["10:a=1", "11:b=1"])], [0], fpp=None)
    (new,) = receipt.written
    assert (new.index_bytes, files) == (0, None)


@settings(max_examples=3 * settings().max_examples)
@given(logs(), st.data())
def test_the_index_of_any_rewritten_log_is_that_of_its_scan(
    drafts: tuple[BatchDraft, ...], data: st.DataObject
) -> None:
    records = sum(len(draft.records) for draft in drafts)
    numbers = st.integers(0, max(0, records - 1))
    superseded = data.draw(st.sets(numbers, max_size=records)) if records else ()
    end = drafts[-1].last_offset
    assert end is not None
    with TemporaryDirectory(dir=SCRATCH) as folder:
        tier = a_tier(Path(folder))
        segment = put_segment(tier, drafts, offsets=(drafts[0].base_offset, end))
        receipt, files = rewritten(tier, [segment], [*superseded])
        if receipt.segment is not None:
            event("it is rewritten")
            assert files == scanned_files(tier, receipt.segment)
            assert files is not None
