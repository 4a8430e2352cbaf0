"""The rewrite of a merge on real bytes: what its sources give, record by record.

    R         100 ──── 104                  a replacement
    upload        102 ──[105 ─────── 110]   a new leader's, of which R gives 102 to 104
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.compaction.builders import a_state, cleaned_to
from tests.compaction.hash_keys import FINGERPRINT, HASH_KEY
from tests.storage.legacy_messages import message, wrapper
from tests.storage.live_segments import (
    EPOCHS,
    KEY,
    NOW_MS,
    a_check_order,
    a_tier,
    an_abort,
    data,
    flip_bit,
    log_of,
    marker,
    part_file,
    put_segment,
)
from tests.storage.stored_logs import small_windows
from tierfold.compaction.cleaning import merges
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.invariants import violations
from tierfold.compaction.commits.round_commit import proposal_of
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState, Segment
from tierfold.compaction.planning.merges import merge_plan
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.publishing.steps import Merge
from tierfold.jobs.pipeline.check_and_commit import violation_of
from tierfold.jobs.pipeline.merging import merged
from tierfold.jobs.pipeline.round_execution import RoundResult
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.log_windows import live_log
from tierfold.storage.segments.segment_check import read_and_check
from tierfold.storage.segments.segment_metadata import read_aborted, read_checkpoint, read_snapshot
from tierfold.storage.segments.segment_reader import Record, read_segment
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Part

LONG_PAST_MS = NOW_MS - 10**9
OF_REPLACEMENT = (
    data(100, (b"a", b"0"), (b"z", b"0")),
    replace(data(102, (b"t", None)), delete_horizon_ms=LONG_PAST_MS),
    replace(data(103), max_timestamp_ms=NOW_MS + 999),
    replace(marker(104, 7, ControlType.ABORT), delete_horizon_ms=LONG_PAST_MS - 1),
)
SKIPPED = (data(102, (b"t", None)), data(103, (b"u", b"lost")), data(104, (b"v", b"lost")))
BEYOND = (
    data(105, (b"a", b"1"), (b"a", b"2"), (None, b"keyless")),
    data(108, (b"b", b"aborted"), producer_id=8),
    marker(109, 8, ControlType.ABORT),
    data(110, (b"t", None)),
)
ABORTS = (an_abort(7, 90, 104), an_abort(8, 108, 109))
ANY_RULES = (
    {},
    {"compaction_strategy": CompactionStrategy.TIMESTAMP},
    {"delete_retention_ms": 0},
)


@pytest.fixture
def tier(tmp_path: Path) -> LocalTieredStorage:
    return a_tier(tmp_path)


def cut(segment: Segment, start_offset: int, skipped: Sequence[BatchDraft | bytes]) -> Segment:
    """The upload from its effective start on, as the row names it."""
    skipped_bytes = len(log_of(skipped))
    return replace(
        segment,
        start_offset=start_offset,
        skipped_offsets=start_offset - segment.start_offset,
        size_bytes=segment.size_bytes - skipped_bytes,
        skipped_bytes=skipped_bytes,
        leader_epochs=(LeaderEpoch(epoch=3, start_offset=start_offset),),
    )


def sources(tier: LocalTieredStorage) -> tuple[Segment, Segment]:
    kept = put_segment(
        tier, OF_REPLACEMENT, offsets=(100, 104), aborted=ABORTS[:1], run="earlier"
    )
    upload = put_segment(tier, [*SKIPPED, *BEYOND], offsets=(102, 110), aborted=ABORTS[1:])
    return kept, cut(upload, 105, SKIPPED)


def merge(
    tier: LocalTieredStorage, segments: Sequence[Segment], **rules: Any
) -> tuple[RoundResult, PartitionState]:
    """The result of a merge of these segments, and the row before it."""
    row = a_state(
        segments,
        key=KEY,
        lineage=EPOCHS,
        epoch=2,
        owner_run="run-2",
        cleaner_offsets=cleaned_to(segments[0].next_offset),
    )
    view = PartitionView(
        key=KEY,
        state=row,
        segments=row.segments,
        orphans=(),
        set_apart=(),
        waiting=(),
        stalled_since_ms=None,
        retired=(),
        lineage=EPOCHS,
        log_start_offset=row.log_start_offset,
    )
    ids = tuple(segment.segment_id for segment in segments)
    plan = merge_plan(view, Merge(segment_ids=ids, why="an upload was finished beside it"))
    aborted = [one for segment in segments for one in read_aborted(tier, KEY, segment)]
    work = Round(
        index=0,
        state=row,
        plan=PartitionPlan(
            key=KEY,
            rules=Rules(cleanup_policy=frozenset({"compact"}), **rules),
            choice=plan,
            view=view,
        ),
        now_ms=NOW_MS + 10**12,
        hash_key=HASH_KEY,
        fingerprint=FINGERPRINT,
        aborted=tuple(aborted),
    )
    return merged(tier, work), row


def records_of(tier: LocalTieredStorage, segments: Sequence[Segment]) -> list[Record]:
    """What the segments give to the log."""
    return [record for one in segments for record in _records(tier, one)]


def _records(tier: LocalTieredStorage, segment: Segment) -> list[Record]:
    log = b"".join(part.tobytes() for part in live_log(tier, KEY, segment).ranges())
    return [record for batch in read_segment(log).batches() for record in batch.records]


def new_segments(result: RoundResult) -> list[Segment]:
    assert result.failure is None
    (receipt,) = result.receipts
    return [one.segment for one in receipt.written]


@pytest.mark.parametrize("rules", ANY_RULES)
def test_a_merge_keeps_every_byte_that_its_sources_give(
    tier: LocalTieredStorage, rules: dict[str, Any]
) -> None:
    before = sources(tier)
    result, row = merge(tier, before, **rules)
    (new,) = new_segments(result)
    assert violation_of(result, tier) is None
    assert part_file(tier, new, Part.LOG).read_bytes() == log_of([*OF_REPLACEMENT, *BEYOND])
    assert records_of(tier, [new]) == records_of(tier, before)
    assert (new.own_start_offset, new.start_offset, new.end_offset) == (100, 100, 110)
    assert (new.max_timestamp_ms, new.records_max_timestamp_ms) == (NOW_MS + 999, NOW_MS + 110)
    assert new.earliest_due_ms == LONG_PAST_MS - 1, "what is past its horizon is due"
    assert read_aborted(tier, KEY, new) == ABORTS
    assert read_snapshot(tier, KEY, new) == read_snapshot(tier, KEY, before[1])
    assert read_checkpoint(tier, KEY, new) == EPOCHS
    assert read_and_check(tier, a_check_order(new)).checked.corruptions == ()
    after = applied(proposal_of(result.round, result.receipts, "commit", NOW_MS, {}), row)
    assert not violations(row, after)
    assert after.cleaner_offset == 105


def test_a_large_merge_is_one_segment(
    tier: LocalTieredStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_windows(monkeypatch, 1)
    before = sources(tier)
    result, _ = merge(tier, before, segment_bytes=120)
    (new,) = new_segments(result)
    assert violation_of(result, tier) is None
    assert records_of(tier, [new]) == records_of(tier, before)


def test_what_cannot_be_one_segment_fails_and_leaves_nothing(
    tier: LocalTieredStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_windows(monkeypatch, 1)
    before = sources(tier)
    objects = len(tier.listing(KEY))
    monkeypatch.setattr(merges, "LOG_BYTES_MAX", 300)
    result, _ = merge(tier, before)
    assert result.failure is not None
    assert result.failure.startswith("orders-0: 2 segments of offsets 100 to 110 (")
    assert (result.receipts, len(tier.listing(KEY))) == ((), objects)


def test_old_messages_are_converted_and_kept(tier: LocalTieredStorage) -> None:
    old = wrapper(106, b"".join(message(i, None) for i in range(2)))
    upload = put_segment(tier, [*SKIPPED, old], offsets=(102, 106))
    before = (
        put_segment(tier, OF_REPLACEMENT, offsets=(100, 104), run="earlier"),
        cut(upload, 105, SKIPPED),
    )
    result, _ = merge(tier, before)
    assert violation_of(result, tier) is None
    (new,) = new_segments(result)
    assert set(read_segment(part_file(tier, new, Part.LOG)).heads.magic) == {2}
    found = records_of(tier, [new])
    assert [(one.offset, one.key, one.value, one.timestamp_ms) for one in found] == [
        (one.offset, one.key, one.value, one.timestamp_ms) for one in records_of(tier, before)
    ]


def test_a_corrupt_source_stops_the_merge(tier: LocalTieredStorage) -> None:
    before = sources(tier)
    flip_bit(part_file(tier, before[1], Part.LOG))
    result, _ = merge(tier, before)
    assert result.failure is not None
    assert "bad CRC" in result.failure
    assert result.receipts == ()


@pytest.mark.parametrize("seed", range(12))
def test_drawn_merges_keep_what_effective_ranges_give(
    tier: LocalTieredStorage, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(seed)
    small_windows(monkeypatch, rng.choice((1, 300, 10**6)))
    keys = (b"a", b"b", b"c", None)
    log, offset = list[BatchDraft](), 100
    for _ in range(20):
        count = rng.randrange(1, 4)
        pairs = [(rng.choice(keys), rng.choice((b"v", None))) for _ in range(count)]
        log.append(data(offset, *pairs))
        offset += count + rng.choice((0, 0, 2))
    first, overlap = rng.randrange(4, 15), rng.randrange(1, 4)
    kept = [batch for batch in log[:first] if rng.random() < 0.5] or log[:1]
    border = log[first].base_offset
    replaced = put_segment(tier, kept, offsets=(100, border - 1), run="earlier")
    skipped = log[first - overlap : first]
    upload = put_segment(
        tier,
        [*skipped, *log[first:]],
        offsets=(skipped[0].base_offset, log[-1].base_offset + len(log[-1].records) - 1),
    )
    before = (replaced, cut(upload, border, skipped))
    result, _ = merge(tier, before, segment_bytes=rng.choice((200, 10**6)))
    assert violation_of(result, tier) is None
    assert records_of(tier, new_segments(result)) == records_of(tier, before)
