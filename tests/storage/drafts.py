"""Hypothesis strategies: batches and logs over the full range of the format."""

from __future__ import annotations

from hypothesis import strategies as st

from tierfold.compaction.model.units import NO_TIMESTAMP_MS
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.control_records import ControlType, end_marker

NOW_MS = 1_700_000_000_123

content = st.none() | st.binary(max_size=40) | st.just(b"x" * 200)
# Far apart, and so close that deltas to two bases take the same bytes. Some clients write negative
# ones, and brokers store them.
timestamp_ms = (
    st.integers(NOW_MS - 100_000, NOW_MS + 100_000)
    | st.integers(NOW_MS - 2_000, NOW_MS + 2_000)
    | st.integers(-(2**45), 2**45)
    | st.just(NO_TIMESTAMP_MS)
)
horizon_ms = st.none() | timestamp_ms
headers = st.lists(st.tuples(st.binary(max_size=8), content), max_size=3).map(tuple)


@st.composite
def batch_drafts(draw: st.DrawFn, *, base_offset: int | None = None) -> BatchDraft:
    base = draw(st.integers(0, 2**40)) if base_offset is None else base_offset
    gaps = draw(st.lists(st.integers(1, 300), max_size=8))
    offsets = [base + sum(gaps[: i + 1]) - 1 for i in range(len(gaps))]
    is_control = draw(st.booleans()) and draw(st.booleans())
    if is_control:
        offsets = offsets[:1]
    records = tuple(draw(_records(offset, is_control=is_control)) for offset in offsets)
    is_log_append_time = draw(st.booleans())
    is_idempotent = draw(st.booleans())
    return BatchDraft(
        base_offset=base,
        records=records,
        last_offset=(offsets[-1] if offsets else base) + draw(st.sampled_from([0, 0, 7])),
        codec=draw(st.sampled_from(Codec)) if records else Codec.NONE,
        leader_epoch=draw(st.integers(-1, 9)),
        producer_id=draw(st.integers(0, 2**40)) if is_idempotent else -1,
        producer_epoch=draw(st.integers(0, 2**15 - 1)) if is_idempotent else -1,
        base_sequence=draw(st.integers(0, 2**31 - 1)) if is_idempotent else -1,
        is_transactional=is_idempotent and draw(st.booleans()),
        is_control=is_control,
        is_log_append_time=is_log_append_time,
        delete_horizon_ms=draw(horizon_ms) if records else None,
        max_timestamp_ms=draw(timestamp_ms) if is_log_append_time or not records else None,
    )


@st.composite
def logs(draw: st.DrawFn) -> tuple[BatchDraft, ...]:
    """One to five batches, in offset order."""
    drafts: list[BatchDraft] = []
    next_offset = draw(st.integers(0, 2**33))
    for _ in range(draw(st.integers(1, 5))):
        drafts.append(draw(batch_drafts(base_offset=next_offset)))
        next_offset = (drafts[-1].last_offset or 0) + draw(st.integers(1, 5))
    return tuple(drafts)


@st.composite
def _records(draw: st.DrawFn, offset: int, *, is_control: bool) -> RecordDraft:
    if is_control:
        kind = draw(st.sampled_from([ControlType.ABORT, ControlType.COMMIT]))
        key, value = end_marker(draw(st.integers(0, 9)), kind)
        return RecordDraft(offset=offset, timestamp_ms=draw(timestamp_ms), key=key, value=value)
    return RecordDraft(
        offset=offset,
        timestamp_ms=draw(timestamp_ms),
        key=draw(content),
        value=draw(content),
        headers=draw(headers),
    )
