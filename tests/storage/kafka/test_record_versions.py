"""Versions of records equal those that `headers_of` finds."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.decoded_logs import decoded, one_record, written
from tests.storage.drafts import NOW_MS, logs
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.kafka.records import Records, headers_of

Headers = tuple[tuple[bytes, bytes | None], ...]

names = st.sampled_from((b"v", b"version", b"versio", b"version!", "größe".encode(), b""))
contents = st.none() | st.binary(max_size=9) | st.binary(min_size=8, max_size=8)
some_headers = st.lists(st.tuples(names, contents), max_size=4).map(tuple)


def with_headers(headers: Sequence[Headers], codec: Codec = Codec.NONE) -> Records:
    records = tuple(
        RecordDraft(offset=i, timestamp_ms=NOW_MS + i, key=b"k", value=b"v" * i, headers=header)
        for i, header in enumerate(headers)
    )
    return decoded(written([BatchDraft(base_offset=0, records=records, codec=codec)])).records


def by_header(records: Records, header: str) -> tuple[list[int | None], int]:
    source = VersionSource(strategy=CompactionStrategy.HEADER, header=header)
    versions, malformed = source.versions_of(records, np.arange(len(records)))
    assert versions is not None
    found = zip(versions.value.tolist(), versions.is_known.tolist(), strict=True)
    return [value if known else None for value, known in found], malformed


def expected(headers: Sequence[Headers], name: bytes) -> tuple[list[int | None], int]:
    last = [dict(header).get(name, b"absent") for header in headers]
    versions = [
        struct.unpack(">q", value)[0] if value is not None and len(value) == 8 else None
        for value in last
    ]
    known = sum(version is not None for version in versions)
    return versions, len(headers) - known - last.count(b"absent")


@given(
    st.lists(some_headers, min_size=1, max_size=6),
    st.sampled_from(("v", "version", "größe", "")),
    st.sampled_from((Codec.NONE, Codec.LZ4)),
)
def test_the_last_header_of_the_name_counts(
    headers: list[Headers], name: str, codec: Codec
) -> None:
    records = with_headers(headers, codec)
    assert by_header(records, name) == expected(headers, name.encode())


@given(logs())
def test_versions_are_those_in_the_headers(drafts: tuple[BatchDraft, ...]) -> None:
    records = decoded(written(drafts)).records
    headers = [tuple(headers_of(records, i)) for i in range(len(records))]
    names_met = {name.decode(errors="ignore") for header in headers for name, _ in header}
    for name in {"version", *names_met}:
        assert by_header(records, name) == expected(headers, name.encode())


@pytest.mark.parametrize(
    ("value", "version"),
    [
        (b"\x00" * 7 + b"\x05", 5),
        (b"\xff" * 8, -1),
        (b"\x80" + b"\x00" * 7, -(2**63)),
        (b"\x7f" + b"\xff" * 7, 2**63 - 1),
        (b"\x00" * 7, None),
        (b"\x00" * 9, None),
        (b"", None),
        (None, None),
    ],
)
def test_a_version_is_eight_bytes_big_endian_and_signed(
    value: bytes | None, version: int | None
) -> None:
    records = with_headers([((b"other", b"x"), (b"v", value))])
    assert by_header(records, "v") == ([version], int(version is None))


def test_only_the_given_rows_are_read() -> None:
    records = with_headers([((b"v", None),), (), ((b"v", b"\x00" * 8),)])
    source = VersionSource(strategy=CompactionStrategy.HEADER, header="v")
    versions, malformed = source.versions_of(records, np.array([2, 1], np.uint32))
    assert versions is not None
    assert (versions.is_known.tolist(), malformed) == ([True, False], 0)


def test_a_timestamp_is_a_version_and_an_offset_is_none() -> None:
    by_broker = replace(one_record(2, timestamp_ms=9), is_log_append_time=True, max_timestamp_ms=4)
    drafts = [one_record(0, timestamp_ms=9), one_record(1, timestamp_ms=-1), by_broker]
    records = decoded(written(drafts)).records
    rows = np.arange(3)
    source = VersionSource(strategy=CompactionStrategy.TIMESTAMP)
    versions, malformed = source.versions_of(records, rows)
    assert versions is not None
    assert versions.value.tolist() == [9, -1, 4]
    assert (versions.is_known.all(), malformed) == (True, 0)
    assert VersionSource().versions_of(records, rows) == (None, 0)
