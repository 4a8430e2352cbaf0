"""The reference is right, and the checks find wrong answers."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.faults.malformed.malformed_logs import lying, malformed, v2_log
from tests.faults.malformed.malformed_outcome import Outcome, WrongAnswer, compared, refused
from tests.faults.malformed.malformed_parsers import PARSERS, inputs_by_parser
from tests.faults.malformed.malformed_reference import (
    LeftOpen,
    Meaningless,
    cut_in_batches,
    plain_batches,
    plain_payload,
    whole_batches,
)
from tests.faults.malformed.malformed_tiers import NOW_MS, survivors
from tests.storage.kafka_dumps import NAMES, kafka_reads, log_bytes
from tierfold.compaction.model.errors import CorruptLog, TierfoldError
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.compression import Codec, compress


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_reads_what_kafka_reads(name: str) -> None:
    found = [
        (batch.base_offset, batch.last_offset, batch.magic, batch.max_timestamp_ms)
        for batch in plain_batches(log_bytes(name))
    ]
    kafka = kafka_reads(name)
    assert found == [
        (read["baseOffset"], read["lastOffset"], read["magic"], read["maxTimestamp"])
        for read in kafka
    ]
    records = [record for batch in plain_batches(log_bytes(name)) for record in batch.records]
    assert [_fields(record) for record in records] == [
        (
            record["offset"],
            record["timestamp"],
            record["key"],
            record["valueCrc32"],
            [tuple(header) for header in record["headers"]],
        )
        for batch in kafka
        for record in batch["records"]
    ]


@pytest.mark.parametrize("cut", [0, 1, 40, 75])
def test_the_reference_reads_whole_batches_and_reports_a_torn_log(cut: int) -> None:
    log = log_bytes("v2none")
    whole, is_torn = whole_batches(log[: len(log) - cut])
    assert whole == plain_batches(log)[: -1 if cut else None]
    assert is_torn == (cut > 0)


def test_a_batch_longer_than_its_records_has_no_meaning() -> None:
    log = bytearray(next(cut_in_batches(log_bytes("v2none"))))
    log[60] -= 1
    with pytest.raises(Meaningless, match="bytes are left over"):
        plain_batches(bytes(log), has_sums=False)


def _fields(record: Any) -> tuple[Any, ...]:
    return (
        record.offset,
        record.timestamp_ms,
        None if record.key is None else record.key.hex(),
        None if record.value is None else f"{zlib.crc32(record.value):08x}",
        [(name.decode(), None if it is None else it.hex()) for name, it in record.headers],
    )


@pytest.mark.parametrize("codec", list(Codec)[1:])
@pytest.mark.parametrize("plain", [b"", b"a", b"ab" * 40_000, Random(5).randbytes(70_000)])
def test_the_reference_decompresses_every_codec(codec: Codec, plain: bytes) -> None:
    assert plain_payload(codec, compress(codec, plain)) == plain


def test_the_parsers_and_the_reference_accept_a_sound_log() -> None:
    for number in range(200):
        log = v2_log(Random(f"sound {number}"))
        plain_batches(log)
        for name in ("batches", "batches unsummed", "record columns", "log file"):
            assert PARSERS[name].checked(log) is Outcome.RIGHT


def test_half_of_the_lying_logs_pass_the_checksums_and_differ_from_the_sound_log() -> None:
    differing = 0
    for number in range(400):
        rng = Random(f"lies {number}")
        log = v2_log(rng)
        try:
            differing += plain_batches(lying(log, rng)) != plain_batches(log)
        except Meaningless as error:
            differing += str(error) != "crc"
        except LeftOpen:
            differing += 1
    assert differing > 200


def _raise(error: Exception) -> Callable[[], int]:
    def read() -> int:
        raise error

    return read


def _error(what: str, where: str = "a file", remedy: str = "Repair it.") -> TierfoldError:
    return CorruptLog(what, where=where, remedy=remedy)


def test_an_answer_that_differs_from_the_reference_is_wrong() -> None:
    assert compared(lambda: 1, lambda: 1) is Outcome.RIGHT
    with pytest.raises(WrongAnswer, match="found    1\nexpected 2"):
        compared(lambda: 1, lambda: 2)
    with pytest.raises(Meaningless):
        compared(lambda: 1, _raise(Meaningless()))


def test_exceptions_other_than_clear_errors_are_not_caught() -> None:
    assert compared(_raise(_error("it is torn")), lambda: 1) is Outcome.REFUSED
    for error in (ValueError("deep inside"), MemoryError(), RecursionError()):
        with pytest.raises(type(error)):
            compared(_raise(error), lambda: 1)


@pytest.mark.parametrize(
    "error",
    [
        _error(""),
        _error("it is torn", where=" "),
        _error("it is torn", remedy=""),
        _error("it cannot be decompressed ()"),
        _error("it cannot be decompressed (it asks for more memory than there is)"),
    ],
)
def test_an_error_with_empty_parts_is_wrong(error: TierfoldError) -> None:
    with pytest.raises(WrongAnswer):
        refused(error)


def test_the_dictionary_keeps_the_newest_record_of_each_key() -> None:
    def batch(*pairs: tuple[bytes | None, bytes | None], at: int, is_due: bool = False) -> bytes:
        records = tuple(
            RecordDraft(offset=at + i, timestamp_ms=5, key=key, value=value)
            for i, (key, value) in enumerate(pairs)
        )
        horizon_ms = NOW_MS if is_due else None
        draft = BatchDraft(base_offset=at, records=records, delete_horizon_ms=horizon_ms)
        return write_batch(draft)

    log = batch((b"a", b"1"), (b"b", b"1"), (None, b"1"), (b"c", None), at=0)
    log += batch((b"a", b"2"), (b"b", None), (b"d", b""), at=10, is_due=True)
    assert [survivor.offset for survivor in survivors(plain_batches(log))] == [3, 10, 12]


def test_inputs_are_divided_by_share_and_drawn_from_the_rng_alone() -> None:
    parsers = tuple(PARSERS.values())
    assert sum(inputs_by_parser(1_000_000, parsers).values()) >= 1_000_000
    assert inputs_by_parser(1, parsers) == dict.fromkeys(PARSERS, 1)
    for parser in parsers:
        assert repr(parser.made(parser.rng(1, 7))) == repr(parser.made(parser.rng(1, 7)))
    assert malformed(log_bytes("v2none"), Random(3)) == malformed(log_bytes("v2none"), Random(3))
