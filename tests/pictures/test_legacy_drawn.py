"""A round converts every batch of magic 0 and 1, whether it loses records or not."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pictures.cleaning import RETENTION_MS, cleaned, passed
from tests.pictures.log_pictures import KEY, Log, batches_of, drawn, picture
from tests.scratch import SCRATCH
from tests.storage.corrupted_bytes import batch
from tests.storage.legacy_messages import message, wrapper
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.units import NO_TIMESTAMP_MS
from tierfold.storage.kafka.batch_headers import read_heads
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.segments.segment_reader import Batch
from tierfold.storage.tiers.local_tiered_storage import part_key
from tierfold.storage.tiers.remote_tier import Part, address_of

NOW_MS = 10_000
LAST_OFFSET = 99


def uploaded(folder: Path, *logs: bytes) -> Log:
    """A log of segments with these bytes, up to offset 99; their indexes do not match."""
    starts = [int.from_bytes(log[:8]) for log in logs[1:]]
    edges = " | ".join([f"{0 if i == 0 else start}:a=1" for i, start in enumerate([0, *starts])])
    log = picture(f"{edges} ..{LAST_OFFSET}", folder)
    segments = []
    for segment, content in zip(log.segments, logs, strict=True):
        key = part_key(address_of(KEY, segment), Part.LOG)
        Path(log.tier.store.uri(key)).write_bytes(content)
        times_ms = read_heads(
            np.frombuffer(content, np.uint8), where="", check_crc=False
        ).max_timestamp_ms
        segments.append(
            replace(segment, size_bytes=len(content), max_timestamp_ms=int(times_ms.max()))
        )
    ends = [start - 1 for start in starts] + [LAST_OFFSET]
    placed = [replace(segment, end_offset=end) for segment, end in zip(segments, ends, strict=True)]
    return replace(log, segments=tuple(placed))


def after(log: Log) -> list[Batch]:
    return [batch for segment in log.segments for batch in batches_of(log, segment)]


WRITTEN_MS = {0: -1, 1: 7000}
"""The timestamp of messages by magic; magic 0 has none."""


def closing(word: str) -> str:
    """The word, and the empty batch that ends the log."""
    return f"{word} e0 99:()"


@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_that_loses_no_records_is_converted(magic: int, tmp_path: Path) -> None:
    inner = message(1, b"1", key=b"b", magic=0) + message(4, b"2", key=b"c", magic=0)
    if magic:
        inner = message(0, b"1", key=b"b") + message(3, b"2", key=b"c")
    alone = message(0, b"1", key=b"a", magic=magic)
    log = uploaded(tmp_path, alone + wrapper(4, inner, magic=magic))
    done = passed(log)
    at = f"@{WRITTEN_MS[magic]}"
    assert drawn(done.log) == closing(f"e-1 0:a=1{at} [1:b=1{at} 4:c=2{at}]")
    single, several, _ = after(done.log)
    assert (single.magic, single.codec) == (2, "none")
    assert (several.magic, several.codec) == (2, "gzip")
    assert {record.timestamp_ms for record in several.records} == {7000 if magic else -1}
    assert (done.counts.records_in, done.counts.kept) == (3, 3)


def test_a_converted_batch_begins_and_ends_with_its_remaining_records(tmp_path: Path) -> None:
    inner = b"".join(message(i, b"1", key=key) for i, key in enumerate([b"a", b"b", b"c", b"a"]))
    log = uploaded(tmp_path, wrapper(13, inner) + message(14, b"2", key=b"a"))
    assert drawn(cleaned(log)) == closing(
        "0.. e-1 [11:b=1@7000 12:c=1@7000] 14:a=2@7000"
    )


def test_the_wrappers_log_append_time_stays(tmp_path: Path) -> None:
    inner = message(0, b"1", key=b"a", timestamp_ms=5) + message(1, b"1", key=b"b", timestamp_ms=6)
    found, _ = after(cleaned(uploaded(tmp_path, wrapper(1, inner, attributes=8))))
    assert found.is_log_append_time
    assert (found.max_timestamp_ms, found.records[0].timestamp_ms) == (9000, 9000)


def test_a_round_that_loses_its_last_legacy_record_is_closed(tmp_path: Path) -> None:
    # Kafka leaves a hole there, since a converted batch ends at its last remaining record.
    inner = message(0, b"1", key=b"a") + message(1, b"1", key=None)
    log = uploaded(tmp_path, wrapper(LAST_OFFSET, inner))
    assert drawn(cleaned(log)) == closing("0.. e-1 98:a=1@7000")


@pytest.mark.parametrize(
    ("last", "base_offset"),
    [
        # As long as an emptied batch, but not one.
        (message(LAST_OFFSET, b"v" * 35, key=None, magic=0), 99),
        (wrapper(LAST_OFFSET, message(0, b"", key=None) + message(2, b"", key=None)), 97),
    ],
)
def test_a_legacy_batch_that_must_stay_is_emptied(
    last: bytes, base_offset: int, tmp_path: Path
) -> None:
    log = uploaded(tmp_path, message(0, b"1", key=b"a") + last)
    found = after(cleaned(log))[-1]
    assert (found.magic, found.size_bytes, found.records) == (2, 61, ())
    assert (found.base_offset, found.last_offset) == (base_offset, LAST_OFFSET)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_tombstone_gets_its_horizon_when_it_is_converted(magic: int, tmp_path: Path) -> None:
    log = uploaded(tmp_path, message(0, None, key=b"a", magic=magic) + batch(LAST_OFFSET))
    once = cleaned(log, now_ms=NOW_MS)
    horizon_ms = NOW_MS + RETENTION_MS
    assert drawn(once) == (
        f"e-1 0:a=@{WRITTEN_MS[magic]}^{horizon_ms} 99:key=value@1000"
    )
    assert drawn(cleaned(once, now_ms=horizon_ms)) == "0.. e-1 99:key=value@1000"


@pytest.mark.parametrize(
    ("tombstone_ms", "stays"), [(9000, True), (8001, True), (8000, False), (NO_TIMESTAMP_MS, True)]
)
def test_tombstones_go_from_segments_older_than_the_last_clean_one(
    *, tombstone_ms: int, stays: bool, tmp_path: Path
) -> None:
    old = message(0, None, key=b"a", timestamp_ms=tombstone_ms)
    clean = message(1, b"1", key=b"b", timestamp_ms=8000 + RETENTION_MS)
    log = uploaded(tmp_path, old, clean, batch(10))
    found = [record.key for batch in after(cleaned(log, first_dirty=5)) for record in batch.records]
    assert found == [b"a"] * stays + [b"b", b"key"]
    assert b"a" in {r.key for b in after(cleaned(log)) for r in b.records}, "nothing is clean"


@pytest.mark.parametrize("at", [14, 30, -1])
def test_a_corrupt_message_stops_the_round(at: int, tmp_path: Path) -> None:
    corrupted = bytearray(wrapper(5, message(0, b"x")))
    corrupted[at] ^= 1
    log = uploaded(tmp_path, message(0, b"1") + bytes(corrupted))
    with pytest.raises(CorruptLog, match="bad CRC"):
        cleaned(log)


class Sent(NamedTuple):
    """A record of a legacy log."""

    offset: int
    key: bytes | None
    value: bytes | None


Drafted: TypeAlias = tuple[int, Codec, list[Sent]]
"""The magic, codec and records of a batch."""


@st.composite
def legacy_logs(draw: st.DrawFn) -> list[Drafted]:
    """Draw each batch's magic, codec and records; an uncompressed batch has one record."""
    batches = []
    offset = draw(st.integers(0, 2))
    for _ in range(draw(st.integers(1, 8))):
        codec = draw(st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]))
        count = 1 if codec == Codec.NONE else draw(st.integers(1, 4))
        records = []
        for _ in range(count):
            key = draw(st.sampled_from([None, b"", b"a", b"b", b"c"]))
            value = draw(st.sampled_from([None, b"", b"%d" % offset]))
            records.append(Sent(offset, key, value))
            offset += draw(st.sampled_from([1, 1, 3]))
        batches.append((draw(st.sampled_from([0, 1])), codec, records))
    return batches


def bytes_of(magic: int, codec: Codec, records: Sequence[Sent]) -> bytes:
    base = records[0].offset if magic and codec != Codec.NONE else 0
    messages = [message(r.offset - base, r.value, key=r.key, magic=magic) for r in records]
    if codec == Codec.NONE:
        return messages[0]
    return wrapper(records[-1].offset, b"".join(messages), magic=magic, codec=codec)


def model(batches: Sequence[Drafted]) -> list[tuple[int, str, list[Sent], bool]]:
    """The remaining batches: first offset, codec, records, and whether there is a horizon."""
    last = {r.key: r.offset for _, _, records in batches for r in records}
    expected = []
    for _, codec, records in batches:
        kept = [r for r in records if r.key is not None and last[r.key] == r.offset]
        waits = any(r.value is None for r in kept)
        if kept:
            expected.append((kept[0].offset, codec.name.lower(), kept, waits))
    return expected


@given(legacy_logs())
def test_of_each_key_the_last_record_is_left(batches: list[Drafted]) -> None:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        log = uploaded(Path(folder), b"".join(bytes_of(*batch) for batch in batches))
        done = cleaned(log, now_ms=NOW_MS)
        *found, end = after(done)
        assert (end.base_offset, end.last_offset, end.records) == (LAST_OFFSET, LAST_OFFSET, ())
        assert [
            (
                batch.base_offset,
                batch.codec,
                [Sent(r.offset, r.key, r.value) for r in batch.records],
                batch.delete_horizon_ms is not None,
            )
            for batch in found
        ] == model(batches)
        assert {batch.magic for batch in found} <= {2}
        assert drawn(cleaned(done, now_ms=NOW_MS)) == drawn(done)
