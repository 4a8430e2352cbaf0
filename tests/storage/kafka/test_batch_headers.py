"""Reading the headers of a log, and each way in which a log can be corrupt."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.storage.corrupted_bytes import batch, patched, summed
from tests.storage.decoded_logs import WHERE, heads_of
from tests.storage.kafka_dumps import NAMES, kafka_reads, log_bytes
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.batch_headers import UNKNOWN_COUNT, read_heads, unchecked_heads
from tierfold.storage.kafka.compression import Codec

FIRST = batch(0, records=3)
SECOND = batch(3)
AT = len(FIRST)


@pytest.mark.parametrize("name", NAMES)
def test_headers_are_read_as_kafka_reads_them(name: str) -> None:
    heads, expected = heads_of(log_bytes(name)), kafka_reads(name)
    assert heads.position.tolist() == [b["pos"] for b in expected]
    assert heads.size_bytes.tolist() == [b["size"] for b in expected]
    assert heads.last_offset.tolist() == [b["lastOffset"] for b in expected]
    assert heads.max_timestamp_ms.tolist() == [b["maxTimestamp"] for b in expected]
    assert heads.is_legacy.tolist() == [b["magic"] < 2 for b in expected]
    assert heads.is_control.tolist() == [b["isControl"] for b in expected]
    horizons = [NO_HORIZON if h is None else h for h in (b["deleteHorizonMs"] for b in expected)]
    assert heads.delete_horizon_ms.tolist() == horizons


def test_magic_0_and_1_have_no_flags_of_magic_2() -> None:
    heads = heads_of(patched(log_bytes("v1none"), 17, "B", 0x70), check_crc=False)
    first = heads.slice(0, 1)
    flags = (first.is_transactional, first.is_control, first.has_delete_horizon)
    assert [flag.tolist() for flag in flags] == [[False]] * 3


def test_magic_0_has_no_timestamp_type() -> None:
    heads = heads_of(patched(log_bytes("v0none"), 17, "B", 0x08), check_crc=False)
    assert not heads.is_log_append_time[0]


def test_a_wrappers_count_is_unknown() -> None:
    assert set(heads_of(log_bytes("v1gzip")).count.tolist()) == {UNKNOWN_COUNT}
    assert set(heads_of(log_bytes("v1none")).count.tolist()) == {1}


def test_a_slice_is_a_view_of_some_batches() -> None:
    heads = heads_of(FIRST + SECOND + batch(4))
    middle = heads.slice(1, 2)
    assert len(middle) == 1
    assert middle.position.tolist() == [AT]
    assert np.shares_memory(middle.crc, heads.crc)


def test_a_log_of_zero_bytes_has_no_heads() -> None:
    assert len(heads_of(b"")) == 0


def test_a_writable_log_can_be_read_too() -> None:
    log = np.frombuffer(FIRST, np.uint8).copy()
    assert len(read_heads(log, where="here")) == 1


CORRUPT = {
    "a torn tail": (FIRST + SECOND[:-4], rf"torn at byte {AT}: a batch there needs 4 bytes more"),
    "a torn head": (FIRST + SECOND[:16], rf"torn at byte {AT}: a batch there needs 1 bytes more"),
    "one byte": (b"\0", r"torn at byte 0: a batch there needs 16 bytes more"),
    "a short batch": (patched(FIRST, 8, "i", 48), r"at byte 0 claims 60 bytes, fewer than"),
    "a negative length": (patched(FIRST, 8, "i", -5), r"at byte 0 claims 7 bytes, fewer than"),
    "zeros": (bytes(100), r"at byte 0 claims 12 bytes, fewer than"),
    "a short message of magic 1": (
        patched(patched(FIRST, 16, "b", 1), 8, "i", 21),
        r"at byte 0 claims 33 bytes, fewer than",
    ),
    "magic 3": (FIRST + patched(SECOND, 16, "b", 3), rf"at byte {AT} has magic 3; Kafka has"),
    "magic −1": (patched(FIRST, 16, "b", -1), r"at byte 0 has magic -1; Kafka has"),
    "codec 5": (summed(patched(FIRST, 21, "h", 5)), r"unknown compression codec 5 \(base offset 0"),
    "codec 7": (summed(patched(FIRST, 21, "h", 7)), r"unknown compression codec 7"),
    "out of order": (FIRST + batch(2), rf"at byte {AT} is out of order: offset 2 was .*offset 2\)"),
    "a negative offset": (patched(FIRST, 0, "q", -4), r"at byte 0 is out of order"),
    "an offset beyond 63 bits": (patched(FIRST, 0, "q", 2**63 - 2), r"at byte 0 is out of order"),
    "a negative delta": (summed(patched(FIRST, 23, "i", -1)), r"byte 0 has last offset delta -1"),
    "a negative count": (summed(patched(FIRST, 57, "i", -2)), r"byte 0 claims -2 records \(base"),
    "too many records": (
        summed(patched(FIRST, 57, "i", 9)),
        r"byte 0 claims 9 records, more than its bytes can hold",
    ),
    "a bad CRC": (
        FIRST + patched(SECOND, 70, "B", 0xEE),
        rf"at byte {AT} \(base offset 3\) has a bad CRC: stored 0x[0-9a-f]{{8}}, computed 0x",
    ),
    "a bad legacy CRC": (patched(log_bytes("v0none"), 30, "B", 1), r"\(base offset 0\) has a bad"),
    # Its header is odd, too, but the checksum matters more.
    "a bad CRC, not codec 5": (patched(FIRST, 21, "h", 5), r"byte 0 .* has a bad CRC"),
}


@pytest.mark.parametrize("corrupt", CORRUPT)
def test_a_corrupt_log_is_named_with_its_place(corrupt: str) -> None:
    log, found = CORRUPT[corrupt]
    with pytest.raises(CorruptLog, match=found) as caught:
        heads_of(log)
    assert caught.value.where == WHERE
    # Offsets that were there before may be a broker's doing, which no backup undoes (KAFKA-6264).
    is_disordered = "is out of order" in found
    assert ("wrote these offsets twice" in caught.value.remedy) is is_disordered
    assert re.search("differs|has other bytes", caught.value.remedy)
    is_newer = "unknown compression codec" in found or "has magic" in found
    assert ("a newer Kafka" in caught.value.remedy) is is_newer


@pytest.mark.parametrize("corrupt", [name for name in CORRUPT if name != "a bad CRC"])
def test_only_checksums_of_sound_headers_are_left_to_the_decoder(corrupt: str) -> None:
    log, found = CORRUPT[corrupt]
    with pytest.raises(CorruptLog, match=found):
        unchecked_heads(np.frombuffer(log, np.uint8), where=WHERE)


def test_magic_0_and_1_have_no_zstd() -> None:
    with pytest.raises(CorruptLog, match="unknown compression codec 4"):
        heads_of(patched(log_bytes("v1none"), 17, "B", Codec.ZSTD), check_crc=False)


def test_the_record_count_of_a_compressed_batch_is_checked_when_it_is_decoded() -> None:
    zstd = summed(patched(FIRST, 21, "h", Codec.ZSTD))
    assert heads_of(summed(patched(zstd, 57, "i", 2**30))).count.tolist() == [2**30]


def test_without_checksums_a_corrupt_payload_is_not_noticed() -> None:
    assert len(heads_of(patched(FIRST, 70, "B", 0xEE), check_crc=False)) == 1


def test_every_field_has_its_place() -> None:
    record = RecordDraft(offset=1 << 40, timestamp_ms=1 << 41, key=b"", value=b"")
    draft = BatchDraft(
        base_offset=(1 << 40) - 3,
        records=(record,),
        last_offset=(1 << 40) + 2,
        leader_epoch=11,
        producer_id=1 << 42,
        producer_epoch=12,
        base_sequence=13,
        is_transactional=True,
        is_log_append_time=True,
        max_timestamp_ms=(1 << 41) + 9,
        delete_horizon_ms=(1 << 41) - 8,
    )
    heads = heads_of(write_batch(draft))
    assert (heads.base_offset[0], heads.last_offset[0]) == ((1 << 40) - 3, (1 << 40) + 2)
    assert (heads.leader_epoch[0], heads.producer_epoch[0], heads.base_sequence[0]) == (11, 12, 13)
    assert (heads.producer_id[0], heads.max_timestamp_ms[0]) == (1 << 42, (1 << 41) + 9)
    assert heads.delete_horizon_ms[0] == heads.base_timestamp_ms[0] == (1 << 41) - 8
    assert heads.attributes[0] == 0x58
    assert (heads.magic[0], heads.count[0], heads.codec[0]) == (2, 1, 0)
