"""Whether and why a group is rewritten: truth tables, one row per combination."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.compaction.builders import a_segment, epochs
from tierfold.compaction.cleaning.counts import KEPT, SUPERSEDED, Counts
from tierfold.compaction.cleaning.group_outcome import (
    ClosingBatch,
    PlainSegment,
    RewriteReason,
    closing_batch_of,
    last_offset_of,
    needs_no_rewrite,
    offset_violation,
    reason_after_reading,
    reason_before_reading,
    reason_in_batches,
)
from tierfold.compaction.cleaning.record_retention import BatchRetention, Retention
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.compaction.planning.drop_limits import DropLimits
from tierfold.compaction.planning.grouping import SegmentGroup

NOW_MS = 500
NOW = DropLimits(now_ms=NOW_MS)
DROP, COPY, REWRITE, EMPTY = BatchRetention


@pytest.mark.parametrize(
    ("due_ms", "reason"),
    [
        pytest.param(None, None, id="a segment that is never due waits for its batches"),
        pytest.param(NOW_MS + 1, None, id="a segment that is due later waits for its batches"),
        pytest.param(NOW_MS, RewriteReason.DUE, id="a segment that is due now is rewritten"),
        pytest.param(NOW_MS - 1, RewriteReason.DUE, id="an overdue segment is rewritten"),
        pytest.param(0, RewriteReason.DUE, id="a segment that was due in 1970 is rewritten"),
    ],
)
def test_a_single_due_segment_is_rewritten_without_reading_it(
    due_ms: int | None, reason: RewriteReason | None
) -> None:
    assert reason_before_reading((a_segment(0, 9, earliest_due_ms=due_ms),), NOW) is reason


def test_a_segment_that_a_broker_emptied_is_not_left_as_it_is() -> None:
    emptied = (a_segment(0, 9, size_bytes=0),)
    assert reason_before_reading(emptied, NOW) is RewriteReason.NO_BATCH


@pytest.mark.parametrize(
    ("first_ms", "second_ms"), [*product((None, NOW_MS, NOW_MS + 1), repeat=2)]
)
def test_two_segments_become_one_whether_due_or_not(
    first_ms: int | None, second_ms: int | None
) -> None:
    segments = (
        a_segment(0, 9, earliest_due_ms=first_ms),
        a_segment(10, 19, earliest_due_ms=second_ms),
    )
    assert reason_before_reading(segments, NOW) is RewriteReason.SEVERAL_SEGMENTS


PLAIN = PlainSegment(first_offset=2, last_offset=9, records=3, record_bytes=70)


@pytest.mark.parametrize(
    ("fields", "due_ms", "ends_in_batch", "unread"),
    [
        pytest.param({}, None, True, True, id="nothing changes"),
        pytest.param({}, NOW_MS + 1, True, True, id="it is due later"),
        pytest.param({}, NOW_MS, True, False, id="it is due now"),
        pytest.param({"last_offset": 8}, None, False, True, id="it ends in a hole that may stay"),
        pytest.param({"last_offset": 8}, None, True, False, id="its end lacks a batch"),
        pytest.param({"first_offset": 1}, None, True, True, id="it begins with its first batch"),
        pytest.param({"first_offset": 0}, None, True, False, id="a batch lies before its range"),
        pytest.param({"last_offset": 10}, None, False, False, id="a batch lies after its range"),
    ],
)
def test_a_plain_segment_is_read_again_only_if_something_may_change(
    fields: dict[str, int], due_ms: int | None, *, ends_in_batch: bool, unread: bool
) -> None:
    group = SegmentGroup(segments=(a_segment(1, 9, earliest_due_ms=due_ms),))
    found = needs_no_rewrite(
        group, replace(PLAIN, **fields), limits=NOW, ends_in_batch=ends_in_batch
    )
    assert found == unread


def test_a_plain_segment_keeps_everything() -> None:
    counts = Counts(records_in=3, kept=3, record_bytes_in=70, kept_bytes=70)
    assert PLAIN.counts == counts
    assert counts.adds_up


@pytest.mark.parametrize(
    ("batches", "reason"),
    [
        pytest.param([COPY], None, id="a batch that is copied is no reason"),
        pytest.param([COPY, COPY], None, id="batches that are all copied are no reason"),
        pytest.param([DROP], RewriteReason.BATCHES, id="a batch that goes is one"),
        pytest.param([REWRITE], RewriteReason.BATCHES, id="a batch that is rewritten is one"),
        pytest.param([EMPTY], RewriteReason.BATCHES, id="a batch that is emptied is one"),
        pytest.param([DROP, COPY], RewriteReason.BATCHES, id="the first batch alone suffices"),
        pytest.param([COPY, DROP], RewriteReason.BATCHES, id="the last batch alone suffices"),
    ],
)
def test_a_stretch_is_a_reason_unless_all_of_it_is_copied(
    batches: list[BatchRetention], reason: RewriteReason | None
) -> None:
    assert reason_in_batches(np.array(batches, np.int8)) is reason


@pytest.mark.parametrize(
    ("is_legacy", "batch", "last_offset"),
    [
        pytest.param(False, COPY, 9, id="a copied batch keeps its last offset"),
        pytest.param(False, REWRITE, 9, id="a rewritten batch of magic 2 keeps its last offset"),
        pytest.param(False, EMPTY, 9, id="an emptied batch of magic 2 keeps its last offset"),
        pytest.param(False, DROP, 9, id="a batch of magic 2 that goes counts with its last offset"),
        pytest.param(True, REWRITE, 7, id="a converted batch ends at its last kept record"),
        pytest.param(True, EMPTY, 9, id="an emptied batch of magic 1 keeps its last offset"),
        pytest.param(True, DROP, 9, id="a batch of magic 1 that goes counts with its last offset"),
    ],
)
def test_the_last_offset_of_a_stretchs_last_batch(
    batch: BatchRetention, last_offset: int, *, is_legacy: bool
) -> None:
    # The batches have the offsets 0 to 4 and 5 to 9; of their records, 1 and 7 are kept.
    kept = np.isin(np.arange(10), [1, 7])
    retention = Retention(
        record=np.where(kept, KEPT, SUPERSEDED).astype(np.uint8),
        batch=np.array([REWRITE, batch], np.int8),
        horizon_ms=np.full(2, NO_HORIZON),
    )
    found = last_offset_of(
        np.array([4, 9]), np.array([is_legacy, is_legacy]), retention, np.arange(10)
    )
    assert found == last_offset


@pytest.mark.parametrize("is_legacy", [[False, True], [True, False]])
def test_the_last_batch_of_a_stretch_alone_decides_where_it_ends(is_legacy: list[bool]) -> None:
    retention = Retention(
        record=np.array([KEPT, KEPT, SUPERSEDED], np.uint8),
        batch=np.array([REWRITE, REWRITE], np.int8),
        horizon_ms=np.full(2, NO_HORIZON),
    )
    found = last_offset_of(
        np.array([0, 2]), np.array(is_legacy), retention, np.array([0, 1, 2])
    )
    assert found == (1 if is_legacy[-1] else 2)


@pytest.mark.parametrize(
    ("first", "last", "is_within"),
    [
        pytest.param(10, 19, True, id="batches may fill the segment's range"),
        pytest.param(11, 18, True, id="batches may leave holes at both ends"),
        pytest.param(10, 18, True, id="batches may leave a hole at the end"),
        pytest.param(11, 19, True, id="batches may leave a hole at the start"),
        pytest.param(9, 19, False, id="a batch must not begin before the effective start"),
        pytest.param(10, 20, False, id="a batch must not end beyond the end offset"),
        pytest.param(9, 20, False, id="batches must not leave the range at both ends"),
        pytest.param(5, 8, False, id="batches must not lie before the range"),
        pytest.param(20, 25, False, id="batches must not lie behind the range"),
    ],
)
def test_which_offsets_the_batches_of_a_segment_may_have(
    first: int, last: int, *, is_within: bool
) -> None:
    # Its own range begins at 5; the effective one, which counts, at 10.
    segment = a_segment(10, 19, skipped_offsets=5)
    sentence = f"the batches have offsets {first} to {last}, the segment 10 to 19"
    assert offset_violation(first, last, segment) == ("" if is_within else sentence)


@pytest.mark.parametrize(
    ("ends_in_batch", "last_offset", "is_added"),
    [
        pytest.param(True, 19, False, id="a batch that ends at the group's end closes it"),
        pytest.param(True, 18, True, id="a hole of one offset at the end is closed"),
        pytest.param(True, 9, True, id="a hole of a whole segment is closed"),
        pytest.param(False, 19, False, id="a group that need not end in a batch gets none"),
        pytest.param(False, 18, False, id="a hole at the end stays where it may"),
    ],
)
def test_when_a_group_gets_a_closing_batch(
    last_offset: int, *, ends_in_batch: bool, is_added: bool
) -> None:
    group = SegmentGroup(segments=(a_segment(0, 9), a_segment(10, 19)))
    found = closing_batch_of(group, last_offset, ends_in_batch=ends_in_batch)
    assert found == (ClosingBatch(offset=19, leader_epoch=0) if is_added else None)


@pytest.mark.parametrize(
    ("last", "epoch"),
    [
        pytest.param([(3, 10)], 3, id="the only epoch of the last segment"),
        pytest.param([(3, 10), (6, 15)], 6, id="its newest epoch, not its first"),
        pytest.param([(6, 15), (3, 10)], 6, id="its newest epoch, wherever that is listed"),
    ],
)
def test_which_leader_epoch_a_closing_batch_has(last: list[tuple[int, int]], epoch: int) -> None:
    # The first segment's epoch is higher than any: only the last segment counts.
    group = SegmentGroup(
        segments=(
            a_segment(0, 9, leader_epochs=epochs((9, 0))),
            a_segment(10, 19, leader_epochs=epochs(*last)),
        )
    )
    found = closing_batch_of(group, 15, ends_in_batch=True)
    assert found == ClosingBatch(offset=19, leader_epoch=epoch)


ABORTED = AbortedTransaction(producer_id=1, first_offset=0, last_offset=4, last_stable_offset=5)
LATER = AbortedTransaction(producer_id=2, first_offset=3, last_offset=6, last_stable_offset=7)
INDEX = RewriteReason.TRANSACTION_INDEX


def reason_after(
    segment: Segment,
    *,
    indexed: tuple[AbortedTransaction, ...] = (),
    listed: tuple[AbortedTransaction, ...] = (),
    has_corrupt_index: bool = False,
    due_ms: int | None = None,
) -> RewriteReason | None:
    return reason_after_reading(
        segment, indexed=indexed, listed=listed, has_corrupt_index=has_corrupt_index, due_ms=due_ms
    )


@pytest.mark.parametrize(
    ("indexed", "listed", "reason"),
    [
        pytest.param((), (), None, id="no index stays none"),
        pytest.param((), (ABORTED,), INDEX, id="a transaction is listed for the first time"),
        pytest.param((ABORTED,), (), INDEX, id="a transaction is no longer listed"),
        pytest.param((ABORTED,), (ABORTED,), None, id="the index lists the same transaction"),
        pytest.param((ABORTED,), (LATER,), INDEX, id="the index lists another transaction"),
        pytest.param((ABORTED,), (ABORTED, LATER), INDEX, id="the index lists one more"),
        pytest.param((ABORTED, LATER), (ABORTED,), INDEX, id="the index lists one fewer"),
    ],
)
def test_a_segment_is_rewritten_if_its_transaction_index_would_differ(
    indexed: tuple[AbortedTransaction, ...],
    listed: tuple[AbortedTransaction, ...],
    reason: RewriteReason | None,
) -> None:
    for known_ms in (None, NOW_MS):
        segment = a_segment(0, 9, earliest_due_ms=known_ms)
        found = reason_after(segment, indexed=indexed, listed=listed)
        assert found is reason


@pytest.mark.parametrize(
    ("known_ms", "due_ms", "reason"),
    [
        pytest.param(None, None, None, id="nothing is due and the catalog knows of nothing"),
        pytest.param(900, None, None, id="nothing is due where the catalog has a time"),
        pytest.param(900, 900, None, id="the catalog knows the due time"),
        pytest.param(800, 900, None, id="the catalog has an earlier due time"),
        pytest.param(None, 900, RewriteReason.UNKNOWN_HORIZON, id="the catalog lacks it"),
        pytest.param(None, 0, RewriteReason.UNKNOWN_HORIZON, id="the catalog lacks one of 1970"),
    ],
)
def test_a_segment_is_rewritten_if_the_catalog_lacks_its_delete_horizon(
    known_ms: int | None, due_ms: int | None, reason: RewriteReason | None
) -> None:
    segment = a_segment(0, 9, earliest_due_ms=known_ms)
    for aborted in ((), (ABORTED,)):
        found = reason_after(segment, indexed=aborted, listed=aborted, due_ms=due_ms)
        assert found is reason


def test_another_transaction_index_is_named_before_an_unknown_horizon() -> None:
    found = reason_after(a_segment(0, 9), indexed=(ABORTED,), due_ms=900)
    assert found is RewriteReason.TRANSACTION_INDEX


@pytest.mark.parametrize("due_ms", [None, 900])
def test_a_segment_is_rewritten_if_an_index_cannot_be_used(due_ms: int | None) -> None:
    found = reason_after(a_segment(0, 9), has_corrupt_index=True, due_ms=due_ms)
    assert found is RewriteReason.INDEX
