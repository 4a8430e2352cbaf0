"""Walking a log batch by batch equals reading it whole and isolates a corrupt batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.kafka_dumps import GOLDEN
from tests.storage.live_segments import data
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.storage.kafka.batch_draft import write_batch
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.segments.segment_walk import walk

FIRST, SECOND = (write_batch(data(base, (b"k", b"v"))) for base in (0, 1))


@pytest.mark.parametrize("name", ["v0gzip", "v1none", "v2lz4", "v2append"])
def test_batch_by_batch_is_the_whole_segment(name: str) -> None:
    path = GOLDEN / f"{name}.log"
    walked, whole = list(walk(path)), list(read_segment(path).batches())
    assert [batch.position for batch in walked] == [batch.position for batch in whole]
    assert [batch.records() for batch in walked] == [batch.records for batch in whole]
    assert all(batch.is_valid for batch in walked)


def test_a_flipped_byte_makes_only_its_own_batch_invalid(tmp_path: Path) -> None:
    path = tmp_path / "flipped.log"
    path.write_bytes(FIRST[:-1] + b"\xff" + SECOND)
    assert [batch.is_valid for batch in walk(path)] == [False, True]


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (SECOND[:-1], "torn"),
        (SECOND[:5], "torn"),
        (SECOND[:8] + b"\x00\x00\x00\x05" + SECOND[12:], "torn|fewer"),
        (SECOND[:8] + b"\xff\xff\xff\xff" + SECOND[12:], "torn|fewer"),
        (SECOND[:16] + b"\x03" + SECOND[17:], "magic 3"),
    ],
)
def test_an_impossible_header_ends_the_walk(tmp_path: Path, tail: bytes, message: str) -> None:
    path = tmp_path / "torn.log"
    path.write_bytes(FIRST + tail)
    batches = walk(path)
    assert next(batches).is_valid
    with pytest.raises(CorruptLog, match=rf"from byte {len(FIRST)} on.*({message})"):
        next(batches)


def test_a_file_without_bytes_has_no_batch(tmp_path: Path) -> None:
    # A broker uploads such segments, of which its cleaner has removed every record.
    (tmp_path / "empty.log").touch()
    assert list(walk(tmp_path / "empty.log")) == []


@pytest.mark.parametrize(
    ("name", "what"), [("none.log", "the file cannot be read"), (".", "this is a folder. Name a")]
)
def test_a_missing_file_or_a_folder_is_unreadable(tmp_path: Path, name: str, what: str) -> None:
    with pytest.raises(UnreadableObject, match=what):
        next(walk(tmp_path / name))
