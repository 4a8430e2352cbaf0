"""The latest committed value of each key in a segment is kept, for any window size."""

from __future__ import annotations

import pytest

from tests.compaction.hash_keys import HASH_KEY
from tests.storage.decoded_logs import decoded, written
from tests.storage.live_segments import an_abort, data, marker
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.verification.latest_values import latest_of
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.control_records import ControlType, control_types
from tierfold.storage.kafka.record_versions import OFFSETS_DECIDE
from tierfold.storage.segments.segment_latest import LatestCollector

OPEN = data(105, (b"a", b"undecided"), producer_id=9)
WINDOWS = (
    (data(100, (b"a", b"1"), (b"b", b"22")), data(102, (b"a", b"333"), producer_id=7)),
    (marker(103, 7, ControlType.ABORT), data(104, (b"b", None))),
)


def collected(
    *windows: tuple[BatchDraft, ...], aborted: tuple[AbortedTransaction, ...], keys_max: int
) -> list[tuple[int, int]]:
    """(offset, value bytes) of all keys, after the blocks were put together again."""
    collector = LatestCollector(aborted, 3, OFFSETS_DECIDE, HASH_KEY, keys_max)
    for drafts in windows:
        _, heads, records = decoded(written(drafts))
        collector.add(heads, records, control_types(records, heads, where="a log"))
    blocks = sorted(collector.blocks(), key=lambda block: int(block[1].offset.min()))
    found = latest_of([latest for _, latest in blocks])
    return sorted(zip(found.offset.tolist(), found.value_bytes.tolist(), strict=True))


@pytest.mark.parametrize("keys_max", [1, 100])
def test_the_last_committed_value_of_each_key_is_kept(keys_max: int) -> None:
    aborted = (an_abort(7, 102, 103),)
    assert collected(*WINDOWS, aborted=aborted, keys_max=keys_max) == [(100, 1), (104, -1)]
    assert collected(*WINDOWS, aborted=(), keys_max=keys_max) == [(102, 3), (104, -1)]


def test_an_undecided_transaction_counts() -> None:
    assert collected(*WINDOWS, (OPEN,), aborted=(), keys_max=9) == [(104, -1), (105, 9)]


def test_a_record_without_a_key_is_ignored() -> None:
    assert collected((data(1, (None, b"x")),), aborted=(), keys_max=9) == []
