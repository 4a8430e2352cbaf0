"""A rewritten batch is what Kafka's cleaner would have written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tests.storage.corrupted_bytes import patched
from tests.storage.decoded_logs import decoded, one_record, written
from tests.storage.drafts import NOW_MS
from tests.storage.kafka_dumps import CLEANED, kafka_reads, log_bytes, we_read
from tests.storage.rewrite_decisions import Decision, decisions, rewrite_of
from tierfold.compaction.cleaning.record_retention import BatchRetention
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.batch_rewrite import closing_batch
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.segments.segment_reader import Batch, read_segment


def rewritten(*decision: Any, **options: bool) -> tuple[bytes, list[int]]:
    """The bytes and the batches' sizes of `rewrite_of`."""
    new = rewrite_of(*decision, **options)
    return new.data.tobytes(), new.batch_bytes.tolist()


def as_kafka_decided(name: str) -> tuple[bytes, list[BatchRetention], list[bool], list[int | None]]:
    """The source, and the decision of Kafka's cleaner, derived from its output."""
    cleaned = {batch["lastOffset"]: batch for batch in kafka_reads(f"{name}.cleaned")}
    survivors = {r["offset"] for batch in cleaned.values() for r in batch["records"]}
    retention: list[BatchRetention] = []
    keep: list[bool] = []
    horizons: list[int | None] = []
    for batch in kafka_reads(name):
        kept = [record["offset"] in survivors for record in batch["records"]]
        offsets = [r["offset"] for r, stays in zip(batch["records"], kept, strict=True) if stays]
        # A legacy batch ends at its last survivor.
        last = offsets[-1] if offsets and batch["magic"] < 2 else batch["lastOffset"]
        found = cleaned.get(last)
        if found is None:
            retention.append(BatchRetention.DROP)
        elif found["crc"] == batch["crc"]:
            retention.append(BatchRetention.COPY)
        else:
            retention.append(BatchRetention.REWRITE if offsets else BatchRetention.EMPTY)
        keep += kept
        horizons.append(found["deleteHorizonMs"] if found else None)
    return log_bytes(name), retention, keep, horizons


@pytest.mark.parametrize("name", CLEANED)
def test_the_output_equals_kafkas(name: str) -> None:
    source, retention, keep, horizons = as_kafka_decided(name)
    out, _ = rewritten(source, retention, keep, horizons)
    expected = log_bytes(f"{name}.cleaned")
    assert without_compression(out) == without_compression(expected)
    if all(batch["codec"] == "none" for batch in kafka_reads(f"{name}.cleaned")):
        assert out.hex() == expected.hex()


def without_compression(log: bytes) -> list[dict[str, object]]:
    """The log's content without sizes and checksums, which depend on the compressor."""
    batches = we_read(log)
    for batch in batches:
        del batch["pos"]
        if batch["codec"] != "none":
            del batch["size"], batch["crc"]
    return batches


def test_kafkas_logs_need_every_retention() -> None:
    retention = {retention for name in CLEANED for retention in as_kafka_decided(name)[1]}
    horizons = {h is None for name in CLEANED for h in as_kafka_decided(name)[3]}
    assert retention >= {BatchRetention.DROP, BatchRetention.REWRITE, BatchRetention.EMPTY}
    assert horizons == {True, False}


@given(decisions())
def test_the_output_equals_the_models(decision: Decision) -> None:
    drafts, retention, keep, horizons = decision
    sources = [write_batch(draft) for draft in drafts]
    out, sizes = rewritten(b"".join(sources), retention, keep, horizons)
    rest = iter(keep)
    batches = list(read_segment(b"".join(sources)).batches())
    expected = [
        model(batch, source, retention, [next(rest) for _ in batch.records], horizon)
        for batch, source, retention, horizon in zip(
            batches, sources, retention, horizons, strict=True
        )
    ]
    assert out.hex() == b"".join(expected).hex()
    assert sizes == [len(batch) for batch in expected]


@given(decisions())
def test_the_sizes_of_records_are_those_that_are_written(decision: Decision) -> None:
    drafts, retention, keep, horizons = decision
    source = written(drafts)
    new = rewrite_of(source, retention, keep, horizons)
    records = decoded(new.data.tobytes()).records
    in_source = decoded(source).records
    stays = new.record_bytes > 0
    assert new.record_bytes[stays].tolist() == (records.end - records.start).tolist()
    # All records of a copied batch are written, and of a rewritten one those to keep.
    copied = np.array([r == BatchRetention.COPY for r in retention], np.bool_)[in_source.batch]
    is_new = np.array([r == BatchRetention.REWRITE for r in retention], np.bool_)[in_source.batch]
    assert stays.tolist() == (copied | is_new & np.array(keep, np.bool_)).tolist()


def model(
    batch: Batch, source: bytes, retention: BatchRetention, keep: list[bool], horizon_ms: int | None
) -> bytes:
    """The rule in a few plain lines."""
    if retention in (BatchRetention.DROP, BatchRetention.COPY):
        return source if retention == BatchRetention.COPY else b""
    survivors = tuple(
        RecordDraft(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        for record, stays in zip(batch.records, keep, strict=True)
        if stays and retention == BatchRetention.REWRITE
    )
    keeps_max = batch.is_log_append_time or not survivors
    return write_batch(
        BatchDraft(
            base_offset=batch.base_offset,
            records=survivors,
            last_offset=batch.last_offset,
            codec=Codec[batch.codec.upper()],
            leader_epoch=batch.leader_epoch,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
            is_log_append_time=batch.is_log_append_time,
            delete_horizon_ms=horizon_ms,
            max_timestamp_ms=batch.max_timestamp_ms if keeps_max else None,
        )
    )


def timed(codec: Codec, *times_ms: int) -> BatchDraft:
    """A batch of a record per time."""
    records = tuple(
        RecordDraft(offset=i, timestamp_ms=time_ms, key=b"k", value=b"v")
        for i, time_ms in enumerate(times_ms)
    )
    return BatchDraft(base_offset=0, records=records, codec=codec)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_horizon_that_keeps_the_length_of_deltas_changes_their_values(
    codec: Codec,
) -> None:
    draft = timed(codec, NOW_MS, NOW_MS + 300, NOW_MS + 600)
    out, _ = rewritten(write_batch(draft), [BatchRetention.REWRITE], [True] * 3, [NOW_MS - 1000])
    (batch,) = read_segment(out).batches()
    assert batch.base_timestamp_ms == NOW_MS - 1000
    assert [record.timestamp_ms - NOW_MS for record in batch.records] == [0, 300, 600]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("horizon", [None, NOW_MS])
def test_negative_timestamps_survive(codec: Codec, horizon: int | None) -> None:
    draft = timed(codec, NOW_MS, -1, -(2**40), -7)
    keep = [False, True, True, True]
    out, _ = rewritten(write_batch(draft), [BatchRetention.REWRITE], keep, [horizon])
    (batch,) = read_segment(out).batches()
    assert [record.timestamp_ms for record in batch.records] == [-1, -(2**40), -7]
    # As in Kafka's `MemoryRecordsBuilder`: no record is older than "no timestamp".
    assert batch.max_timestamp_ms == -1


@pytest.mark.parametrize(
    ("key", "payload"),
    [
        # A two-byte varint for a key length of 0, and an undefined attributes byte.
        (b"", "10 77 00 00 8000 02 76 00"),
        # Only an undefined attributes byte.
        (b"k", "10 77 00 00 02 6b 02 76 00"),
    ],
)
def test_an_odd_encoding_becomes_kafkas(key: bytes, payload: str) -> None:
    plain = write_batch(one_record(0, key=key, timestamp_ms=5))
    odd = plain[:61] + bytes.fromhex(payload)
    odd = patched(odd, 8, "i", len(odd) - 12)
    out, _ = rewritten(odd, [BatchRetention.REWRITE], [True], [None], check_crc=False)
    assert out.hex() == plain.hex()


def test_a_legacy_batch_can_be_emptied() -> None:
    log = log_bytes("v1gzip")
    retention = [BatchRetention.EMPTY] * len(kafka_reads("v1gzip"))
    keep = [False] * sum(len(batch["records"]) for batch in kafka_reads("v1gzip"))
    out, _ = rewritten(log, retention, keep, [None] * len(retention))
    batches = list(read_segment(out).batches())
    assert {(b.magic, b.size_bytes, b.codec) for b in batches} == {(2, 61, "none")}
    assert [b.last_offset for b in batches] == [b["lastOffset"] for b in kafka_reads("v1gzip")]


def test_no_batches_give_no_bytes() -> None:
    assert rewritten(b"", [], [], []) == (b"", [])


def test_a_rewrite_without_survivors_is_refused() -> None:
    log = write_batch(BatchDraft(base_offset=0))
    with pytest.raises(ValueError, match="without survivors"):
        rewritten(log, [BatchRetention.REWRITE], [], [None])


def test_a_closing_batch_is_empty_and_has_no_producer() -> None:
    (batch,) = read_segment(closing_batch(41, 7)).batches()
    assert (batch.size_bytes, batch.base_offset, batch.last_offset) == (61, 41, 41)
    assert (batch.leader_epoch, batch.producer_id, batch.max_timestamp_ms) == (7, -1, -1)
    assert batch.records == ()
