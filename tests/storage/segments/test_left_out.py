"""Batches of which no record stays: the rewrite neither reads nor decodes them again."""

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

from tests.compaction.hash_keys import HASH_KEY
from tests.pictures.batch_words import draft_of
from tests.scratch import SCRATCH
from tests.storage.corrupted_bytes import batch_around
from tests.storage.drafts import logs
from tests.storage.legacy_messages import message
from tests.storage.live_segments import KEY, a_group_task, a_tier, data, put_segment
from tests.storage.stored_logs import only_used
from tierfold.compaction.cleaning.batch_outline import BatchOutline
from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.cleaning.offset_map import SUPERSEDED
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.segments import Segment
from tierfold.storage.kafka.batch_draft import BatchDraft, write_batch
from tierfold.storage.kafka.batch_headers import read_heads
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.segments.log_windows import live_log
from tierfold.storage.segments.segment_scan import ScanOrder, scan_segment
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.object_store import MapRange
from tierfold.storage.tiers.remote_tier import Access, Part, address_of

BROKEN = batch_around(b"no records at all", count=2, last_offset_delta=1)
"""Offsets 50 and 51; its checksum is right, its payload is nonsense."""


def rewritten(
    tier: LocalTieredStorage,
    segment: Segment,
    superseded: Sequence[int],
    outline: BatchOutline | None,
    **fields: Any,
) -> tuple[GroupReceipt, bytes]:
    """The receipt and the new log; `outline`: from the scan, None: there was none."""
    bits = np.zeros(100, np.uint8)
    bits[[*superseded]] = SUPERSEDED
    outlines = {} if outline is None else {segment.segment_id: outline}
    task = a_group_task([segment], **fields)
    receipt = rewrite_group(tier, task, lambda _: bits, outlines)
    log = b""
    if receipt.segment is not None:
        log = tier.part_of(KEY, receipt.segment, Part.LOG)[0].tobytes()
    return receipt, log


def scanned(tier: LocalTieredStorage, segment: Segment) -> BatchOutline:
    order = ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=1)
    return scan_segment(live_log(tier, KEY, segment), (), order).outline


def by_heads(tier: LocalTieredStorage, segment: Segment, record_bytes: int) -> BatchOutline:
    """The outline of a log that no scan can decode; `record_bytes`: what the scan counted."""
    log = tier.read_part(address_of(KEY, segment), Part.LOG)
    heads = read_heads(np.asarray(log), where="a log", check_crc=False)
    return BatchOutline(
        size_bytes=heads.size_bytes.astype(np.int32),
        records=heads.count,
        last_offset=heads.last_offset,
        first_offset=int(heads.base_offset[0]),
        record_bytes=record_bytes,
    )


def with_wrong_gaps(store: LocalStore, key: str) -> MapRange:
    """As `LocalStore.range_mapper`, but what lies between the spans is wrong."""
    return only_used(store.read(key).tobytes())


def without_names(receipt: GroupReceipt) -> GroupReceipt:
    """The receipt without what contains the random id of its segment, and what was read.

    A delete horizon is only found in what is decoded; that of a batch that goes lets others wait.
    """
    written = tuple(
        replace(new, segment=replace(new.segment, segment_id=""), stored=())
        for new in receipt.written
    )
    return replace(receipt, written=written, bytes_read=0, found_horizon_ms=None)


@settings(max_examples=3 * settings().max_examples)
@given(logs(), st.data())
def test_any_log_becomes_the_same_as_if_all_of_it_were_decoded(
    drafts: tuple[BatchDraft, ...], data: st.DataObject
) -> None:
    eligible = [
        (i, not draft.is_control and record.key is not None)
        for i, draft in enumerate(drafts)
        for record in draft.records
    ]
    lost = data.draw(st.sets(st.integers(0, len(drafts) - 1)))
    some = data.draw(st.sets(st.integers(0, len(eligible))))
    superseded = [
        n for n, (i, may_go) in enumerate(eligible) if may_go and (i in lost or n in some)
    ]
    offsets = (drafts[0].base_offset, drafts[-1].last_offset or 0)
    with TemporaryDirectory(dir=SCRATCH) as folder:
        tier = a_tier(Path(folder))
        segment = put_segment(tier, drafts, offsets=offsets)
        decoded, expected = rewritten(tier, segment, superseded, None)
        outline = scanned(tier, segment)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LocalStore, "range_mapper", with_wrong_gaps)
            receipt, log = rewritten(tier, segment, superseded, outline)
    if lost and superseded:
        event("a batch may lose all its records")
    assert log == expected
    assert without_names(receipt) == without_names(decoded)


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_loses_all_records_is_not_read(
    codec: int, tier: LocalTieredStorage
) -> None:
    broken = batch_around(b"no records at all", count=2, last_offset_delta=1, codec=codec)
    log = [draft_of("49:a=1", 0), broken, draft_of("52:b=1", 0)]
    segment = put_segment(tier, log, offsets=(49, 52))
    outline = by_heads(tier, segment, 9 + 30 + 9)
    receipt, _ = rewritten(tier, segment, [1, 2], outline)
    assert receipt.bytes_read == segment.size_bytes - len(broken)
    assert receipt.result is GroupResult.WRITTEN
    assert receipt.counts == Counts(
        records_in=4,
        kept=2,
        superseded=2,
        record_bytes_in=48,
        kept_bytes=18,
        superseded_bytes=30,
    )


@pytest.mark.parametrize(
    ("superseded", "is_scanned"),
    [([1], True), ([2], True), ([], True), ([1, 2], False)],
    ids=["its last record stays", "its first one stays", "both stay", "nothing was scanned"],
)
def test_a_batch_of_which_a_record_may_stay_is_decoded(
    superseded: list[int], is_scanned: bool, tier: LocalTieredStorage
) -> None:
    segment = put_segment(tier, [draft_of("49:a=1", 0), BROKEN], offsets=(49, 51))
    with pytest.raises(CorruptLog, match="is broken at record"):
        rewritten(tier, segment, superseded, by_heads(tier, segment, 39) if is_scanned else None)


def test_offsets_outside_the_segment_are_refused_unread(tier: LocalTieredStorage) -> None:
    segment = put_segment(tier, [BROKEN, draft_of("52:a=1", 0)], offsets=(50, 52))
    outline = replace(by_heads(tier, segment, 39), first_offset=49)
    with pytest.raises(CorruptLog, match="batches have offsets 49 to 52, the segment 50 to 52"):
        rewritten(tier, segment, [0, 1], outline)


def test_a_scan_says_that_there_are_legacy_batches(tier: LocalTieredStorage) -> None:
    later = [message(10, b"v"), draft_of("11:a=1", 0)]
    segment = put_segment(tier, later, offsets=(10, 11))
    assert scanned(tier, segment).has_legacy
    assert not scanned(tier, put_segment(tier, later[1:], offsets=(11, 11))).has_legacy


def test_the_last_batch_of_the_range_stays_without_its_records(tier: LocalTieredStorage) -> None:
    segment = put_segment(tier, [draft_of("49:a=1", 0), BROKEN], offsets=(49, 51))
    task = a_group_task([segment])
    rules = replace(task.rules, remote_end=52)
    outline = by_heads(tier, segment, 29)
    with pytest.raises(CorruptLog, match="is broken at record"):
        rewritten(tier, segment, [1, 2], outline, rules=rules)
    batches = [draft_of("49:a=1", 0), data(50, (b"b", b"1"), (b"c", b"1"))]
    sound = put_segment(tier, batches, offsets=(49, 51))
    receipt, log = rewritten(tier, sound, [1, 2], scanned(tier, sound), rules=rules)
    assert receipt.records_written == 1
    assert [*read_heads(np.frombuffer(log, np.uint8), where="").count] == [1, 0]


def test_all_batches_may_go_unread(tier: LocalTieredStorage) -> None:
    segment = put_segment(tier, [BROKEN], offsets=(50, 51))
    rules = replace(a_group_task([segment]).rules, remote_end=60)
    receipt, _ = rewritten(tier, segment, [0, 1], by_heads(tier, segment, 30), rules=rules)
    assert (receipt.result, receipt.counts.superseded) == (GroupResult.EMPTY, 2)
    assert (receipt.bytes_read, receipt.bytes_written) == (0, 0)


def test_a_group_whose_last_batches_go_still_ends_in_a_batch(tier: LocalTieredStorage) -> None:
    segment = put_segment(tier, [draft_of("49:a=1", 0), BROKEN], offsets=(49, 54))
    rules = replace(a_group_task([segment]).rules, remote_end=60)
    outline = by_heads(tier, segment, 39)
    _, log = rewritten(tier, segment, [1, 2], outline, rules=rules, ends_in_batch=True)
    heads = read_heads(np.frombuffer(log, np.uint8), where="")
    assert (heads.last_offset.tolist(), heads.count.tolist()) == ([49, 54], [1, 0])


def test_bits_behind_the_last_record_are_a_bug_that_is_found(tier: LocalTieredStorage) -> None:
    segment = put_segment(tier, [BROKEN, draft_of("52:a=1", 0)], offsets=(50, 52))
    with pytest.raises(ValueError, match=r"1 records of .* were read, and bits are set of later"):
        rewritten(tier, segment, [0, 1, 3], by_heads(tier, segment, 39))


def test_bytes_that_the_scan_did_not_count_are_a_bug_that_is_found(
    tier: LocalTieredStorage,
) -> None:
    log = [draft_of("49:a=1", 0), BROKEN, draft_of("52:d=1", 0)]
    segment = put_segment(tier, log, offsets=(49, 52))
    with pytest.raises(ValueError, match="2 records are left, but only 1 bytes of records"):
        rewritten(tier, segment, [1, 2], by_heads(tier, segment, 19))


def test_the_batches_around_it_are_copied(tier: LocalTieredStorage) -> None:
    log = [write_batch(data(i, (b"k%d" % i, b"v"))) for i in range(49, 54)]
    segment = put_segment(tier, log, offsets=(49, 53))
    _, content = rewritten(tier, segment, [1, 3], scanned(tier, segment))
    assert content == log[0] + log[2] + log[4]


def test_a_log_that_is_decoded_in_chunks_is_read_whole(tier: LocalTieredStorage) -> None:
    segment = put_segment(tier, [draft_of("49:a=1", 0), BROKEN], offsets=(49, 51))
    rules = replace(a_group_task([segment]).rules, remote_end=60)
    outline = by_heads(tier, segment, 39)
    assert rewritten(tier, segment, [1, 2], outline, rules=rules)[0].counts.superseded == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalTieredStorage, "access", lambda *_: Access(unit_bytes=2))
        with pytest.raises(CorruptLog, match="is broken at record"):
            rewritten(tier, segment, [1, 2], outline, rules=rules)
