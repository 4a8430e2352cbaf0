"""A segment that the scan has shown to stay as it is, and that the rewrite does not read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compaction.hash_keys import HASH_KEY
from tests.pictures.log_pictures import KEY, Log, picture
from tests.storage.live_segments import a_group_task
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.segments.log_windows import live_log
from tierfold.storage.segments.segment_scan import ScanOrder, scan_segment
from tierfold.storage.tiers.remote_tier import Part, address_of

SIX_RECORDS = "[0:a=1 1:b=1] 2:c=1 P1.0([3:d=1 4:e=1]) 5:f=1"
RECORDS = 6


def receipt_of(
    log: Log, bits: np.ndarray | None = None, *, is_scanned: bool = True, **fields: Any
) -> GroupReceipt:
    """The receipt of the only segment, with what the scan finds of it."""
    (segment,) = log.segments
    plain = None
    if is_scanned:
        order = ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=1)
        plain = scan_segment(live_log(log.tier, KEY, segment), (), order).plain
        assert plain is not None
    of_records = np.zeros(RECORDS, np.uint8) if bits is None else bits
    task = a_group_task(log.segments, key=KEY, plain=plain, **fields)
    return rewrite_group(log.tier, task, lambda _: of_records)


def path_of(log: Log, part: Part) -> Path:
    (segment,) = log.segments
    return Path(log.tier.uri(address_of(KEY, segment), part))


def test_its_receipt_counts_what_a_rewrite_would_have_counted(tmp_path: Path) -> None:
    log = picture(SIX_RECORDS, tmp_path)
    read = receipt_of(log, is_scanned=False)
    once = receipt_of(log)
    assert (read.result, once.result) == (GroupResult.UNCHANGED, GroupResult.NOT_READ)
    assert once.counts == read.counts
    assert (read.bytes_read, once.bytes_read) == (log.segments[0].size_bytes, 0)
    assert replace(once, result=read.result, bytes_read=read.bytes_read) == read


@pytest.mark.parametrize("bit", [SUPERSEDED, SUPERSEDING])
@pytest.mark.parametrize("record", range(RECORDS))
def test_a_bit_of_any_record_has_it_read(record: int, bit: int, tmp_path: Path) -> None:
    log = picture(SIX_RECORDS, tmp_path)
    bits = np.zeros(RECORDS + 2, np.uint8)
    bits[record] = bit
    expected = GroupResult.WRITTEN if bit == SUPERSEDED else GroupResult.UNCHANGED
    assert receipt_of(log, bits).result is expected


def test_fewer_bits_than_records_are_a_bug_that_is_found(tmp_path: Path) -> None:
    log = picture(SIX_RECORDS, tmp_path)
    with pytest.raises(ValueError, match="more records than there are bits"):
        receipt_of(log, np.zeros(RECORDS - 1, np.uint8))


def test_a_transaction_index_that_changes_has_it_rewritten(tmp_path: Path) -> None:
    log = picture(SIX_RECORDS, tmp_path)
    entry = AbortedTransaction(producer_id=1, first_offset=3, last_offset=5, last_stable_offset=3)
    receipt = receipt_of(log, listed=(entry,))
    assert receipt.result is GroupResult.WRITTEN
    assert receipt.segment is not None
    after = replace(log, segments=(receipt.segment,))
    assert receipt_of(after, listed=(entry,)).result is GroupResult.NOT_READ
    assert receipt_of(after).result is GroupResult.WRITTEN
    path_of(after, Part.TRANSACTION_INDEX).unlink()
    with pytest.raises(UnreadableObject):
        receipt_of(after, listed=(entry,))


def test_what_the_catalog_says_has_it_rewritten(tmp_path: Path) -> None:
    log = picture(SIX_RECORDS, tmp_path)
    (segment,) = log.segments
    due = replace(log, segments=(replace(segment, earliest_due_ms=500),))
    assert receipt_of(due).result is GroupResult.WRITTEN
    longer = replace(log, segments=(replace(segment, end_offset=7),))
    assert receipt_of(longer, ends_in_batch=True).result is GroupResult.WRITTEN
    shorter = replace(log, segments=(replace(segment, end_offset=4),))
    with pytest.raises(CorruptLog, match="the batches have offsets 0 to 5, the segment 0 to 4"):
        receipt_of(shorter)
