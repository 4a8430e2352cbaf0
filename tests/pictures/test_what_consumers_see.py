"""After several passes over random logs a read-committed consumer still gets the right values."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.pictures.cleaning import RETENTION_MS, RULES, cleaned
from tests.pictures.log_pictures import KEY, Log, batches_of, drawn, picture
from tests.scratch import SCRATCH
from tierfold.storage.segments.segment_metadata import read_aborted


@st.composite
def drawings(draw: st.DrawFn) -> str:
    """Draw batches of records, of producers, and of transactions that all end, in segments.

    In half of the logs each segment but the last ends in a hole so wide that one index cannot have
    the offsets of two segments.
    """
    holes = draw(st.sampled_from([(0, 1, 2), (2**31 - 100,)]))
    words: list[str] = []
    offset = draw(st.integers(0, 3))
    open_producers: set[int] = set()
    for _ in range(draw(st.integers(1, 14))):
        if words and draw(st.integers(0, 3)) == 0:
            hole = draw(st.sampled_from(holes))
            words.append(f"..{offset + hole - 1} |")
            offset += hole
        producer = draw(st.integers(0, 3))
        if producer in open_producers and draw(st.booleans()):
            words.append(f"{offset}:P{producer}:{draw(st.sampled_from('CA'))}")
            open_producers.discard(producer)
            offset += 1
            continue
        count = draw(st.integers(1, 3))
        data = " ".join(draw(_records(offset + i)) for i in range(count))
        # Number 0 is a batch without a producer; producer 3 has no transactions.
        words.append(("[{}]", "P1([{}])", "P2([{}])", "p3([{}])")[producer].format(data))
        open_producers |= {producer} & {1, 2}
        offset += count + draw(st.sampled_from([0, 0, 1]))
    for producer in sorted(open_producers):
        words.append(f"{offset}:P{producer}:{draw(st.sampled_from('CA'))}")
        offset += 1
    return " ".join([*words, f"..{offset - 1}"])


@st.composite
def _records(draw: st.DrawFn, offset: int) -> str:
    key = draw(st.sampled_from(["", "a", "b", "c", "d"]))
    return f"{offset}:{key}={draw(st.sampled_from(['', offset]))}"


def as_consumed(log: Log) -> dict[bytes, bytes]:
    """The last committed value of each key; a tombstone removes the key."""
    aborted = [entry for segment in log.segments for entry in read_aborted(log.tier, KEY, segment)]
    seen: dict[bytes, bytes] = {}
    for batch in (batch for segment in log.segments for batch in batches_of(log, segment)):
        is_hidden = batch.is_control or any(
            entry.producer_id == batch.producer_id
            and entry.first_offset <= batch.base_offset <= entry.last_offset
            for entry in aborted
            if batch.is_transactional
        )
        for record in () if is_hidden else batch.records:
            if record.key is None:
                continue
            seen.pop(record.key, None)
            if record.value is not None:
                seen[record.key] = record.value
    return seen


@given(drawings(), st.integers(1, 2000), st.data())
def test_a_consumer_sees_the_same_after_every_pass(
    text: str, segment_bytes: int, data: st.DataObject
) -> None:
    rules = replace(RULES, segment_bytes=segment_bytes)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        log = picture(text, Path(folder))
        expected = as_consumed(log)
        first_dirty = data.draw(st.integers(0, log.next_offset))
        for now_ms in (0, RETENTION_MS, 200_000):
            log = cleaned(log, now_ms=now_ms, rules=rules, first_dirty=first_dirty)
            first_dirty = 0
            assert as_consumed(log) == expected
            assert all(a.end_offset + 1 == b.start_offset for a, b in pairwise(log.segments))
            assert all(
                segment.end_offset - segment.start_offset < 2**31 for segment in log.segments
            )
            last = batches_of(log, log.segments[-1])[-1]
            assert last.last_offset + 1 == log.next_offset
        records = [
            record
            for segment in log.segments
            for batch in batches_of(log, segment)
            for record in batch.records
            if not batch.is_control
        ]
        # In the end only the newest value of each key is left.
        assert {record.key: record.value for record in records} == expected
        assert len(records) == len(expected)


@given(drawings())
def test_from_the_third_pass_on_nothing_changes_at_the_same_time(text: str) -> None:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        twice = cleaned(cleaned(picture(text, Path(folder))))
        thrice = cleaned(twice)
        assert drawn(thrice) == drawn(twice)
        assert thrice.segments == cleaned(thrice).segments
