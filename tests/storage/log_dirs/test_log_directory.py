"""What a log directory has of a partition, and what goes while it is read."""

from __future__ import annotations

import os
import struct
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.log_dirs import WrittenLogDir
from tests.jobs.tiers import an_open_producer, key_of
from tests.storage.live_segments import EPOCHS, NOW_MS, data
from tests.storage.permissions import an_ordinary_user
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.log_dirs import log_directory
from tierfold.storage.log_dirs.log_directory import LogDirectory
from tierfold.storage.log_dirs.offset_checkpoints import LOG_STARTS, read_offset_checkpoint
from tierfold.storage.log_dirs.segment_files import SegmentReplaced, opened
from tierfold.storage.log_dirs.stray_snapshots import is_within

ORDERS = key_of("orders")


@pytest.fixture
def logs(tmp_path: Path) -> WrittenLogDir:
    return WrittenLogDir(tmp_path / "data").filled(ORDERS, 2)


def test_what_it_has_of_a_partition(logs: WrittenLogDir) -> None:
    logs.note(LOG_STARTS, {ORDERS: 5})
    directory = LogDirectory(logs.path)
    assert directory.partitions() == (ORDERS,)
    log = directory.log(ORDERS, directory.checkpoints())
    spans = [(one.start_offset, one.end_offset) for one in log.rolled]
    assert spans == [(0, 9), (10, 19)]
    assert [one.max_timestamp_ms for one in log.rolled] == [NOW_MS + 9, NOW_MS + 19]
    assert [one.size_bytes for one in log.rolled] == [
        logs.file(ORDERS, start, "log").stat().st_size for start in (0, 10)
    ]
    assert (log.active_start_offset, log.active_bytes) == (20, 0)
    assert log.lineage == EPOCHS
    bounds = (log.recovery_point, log.high_watermark, log.last_stable_offset)
    assert bounds == (20, 20, 20)
    assert (log.log_start_offset, log.start_offset) == (5, 0)


def test_folders_that_are_no_partitions_are_left_out(logs: WrittenLogDir) -> None:
    for name in ("orders-0.6d7e3f-delete", "orders-1.0a-future", "orders-2.1b-stray", "x", "a-01"):
        (logs.path / name).mkdir()
    (logs.path / "orders-7").mkdir()  # It is being made, and has no topic id yet.
    (logs.path / "orders-8").write_text("a file")
    assert LogDirectory(logs.path).partitions() == (ORDERS,)


def test_a_transaction_that_is_open_holds_the_log_back(tmp_path: Path) -> None:
    logs = WrittenLogDir(tmp_path / "data")
    logs.begin(ORDERS)
    logs.roll(ORDERS, [data(0, (b"a", b"1"))], 9, producers=[an_open_producer(7, 4)])
    directory = LogDirectory(logs.path)
    assert directory.log(ORDERS, directory.checkpoints()).last_stable_offset == 4
    logs.file(ORDERS, 10, "snapshot").unlink()
    assert directory.log(ORDERS, directory.checkpoints()).last_stable_offset == 0
    logs.file(ORDERS, 0, "snapshot").unlink()
    assert directory.log(ORDERS, directory.checkpoints()).last_stable_offset == 0


def test_without_a_timestamp_the_time_of_the_file_counts(logs: WrittenLogDir) -> None:
    logs.file(ORDERS, 0, "timeindex").write_bytes(b"")
    directory = LogDirectory(logs.path)
    first = directory.log(ORDERS, directory.checkpoints()).rolled[0]
    file = logs.file(ORDERS, 0, "log").stat()
    assert first.max_timestamp_ms == file.st_mtime_ns // 1_000_000


def test_a_directory_that_may_not_be_read_is_one_clear_error() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # pytest's own folders are closed to others.
        logs = WrittenLogDir(Path(place) / "data").filled(ORDERS, 2)
        (file := logs.file(ORDERS, 0, "timeindex")).chmod(0)
        directory = LogDirectory(logs.path)
        with an_ordinary_user(), pytest.raises(UnreadableObject, match="Permission denied"):
            directory.log(ORDERS, directory.checkpoints())
        file.chmod(0o644)
        with an_ordinary_user():
            assert len(directory.log(ORDERS, directory.checkpoints()).rolled) == 2


@pytest.mark.parametrize("start", [0, 10, 20])
@pytest.mark.parametrize("is_named_swap", [True, False])
def test_a_segment_that_is_being_replaced_is_waited_for(
    logs: WrittenLogDir, monkeypatch: pytest.MonkeyPatch, start: int, *, is_named_swap: bool
) -> None:
    """Otherwise the one below it would seem to end where the next one begins."""
    logs.roll_ten(ORDERS, 20)
    file = logs.file(ORDERS, start, "log")
    hidden = file.with_suffix(".log.swap" if is_named_swap else ".log.elsewhere")
    file.rename(hidden)
    waits: list[int] = []

    def paused(wait_ms: int) -> None:
        waits.append(wait_ms)
        if len(waits) == 4:
            hidden.rename(file)

    monkeypatch.setattr(log_directory, "pause", paused)
    directory = LogDirectory(logs.path)
    log = directory.log(ORDERS, directory.checkpoints())
    assert waits == [0, 50, 100, 150]
    spans = [(one.start_offset, one.end_offset) for one in log.rolled]
    assert spans == [(0, 9), (10, 19), (20, 29)]


def test_a_snapshot_of_a_shutdown_lies_within_the_segment_that_went_on(
    logs: WrittenLogDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    monkeypatch.setattr(log_directory, "pause", waits.append)
    logs.file(ORDERS, 5, "snapshot").touch()
    directory = LogDirectory(logs.path)
    log = directory.log(ORDERS, directory.checkpoints())
    assert [one.stray_snapshots for one in log.rolled] == [{5}, set()]
    assert waits == [0]
    with opened(directory.folder(ORDERS), log.rolled[0]) as files:
        assert files.segment.size_bytes > 0


@pytest.mark.parametrize("kept", ["the first batch", "nothing", "half a header", "no index"])
def test_a_snapshot_that_no_batch_reaches_may_be_that_of_a_segment_on_its_way(
    logs: WrittenLogDir, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    waits: list[int] = []
    monkeypatch.setattr(log_directory, "pause", waits.append)
    logs.file(ORDERS, 5, "snapshot").touch()
    log, index = logs.file(ORDERS, 0, "log"), logs.file(ORDERS, 0, "index")
    first_bytes = int.from_bytes(log.read_bytes()[8:12], "big") + 12
    index.write_bytes(b"")
    size_bytes = {"the first batch": first_bytes, "nothing": 0, "half a header": first_bytes + 30}
    os.truncate(log, size_bytes.get(kept, log.stat().st_size))
    if kept == "no index":
        index.unlink()
    directory = LogDirectory(logs.path)
    with pytest.raises(UnreadableObject, match="being replaced each of the 8 times"):
        directory.log(ORDERS, directory.checkpoints())
    assert len(waits) == 8


def test_the_index_leads_to_the_end_of_a_segment(logs: WrittenLogDir) -> None:
    log, index = logs.file(ORDERS, 0, "log"), logs.file(ORDERS, 0, "index")
    first_bytes = int.from_bytes(log.read_bytes()[8:12], "big") + 12
    index.write_bytes(struct.pack(">ii", 9, first_bytes))
    with log.open("r+b") as file:
        file.write(bytes(12))  # What is above is not read.
    assert is_within(log, index, 9)
    assert not is_within(log, index, 10)
    index.write_bytes(b"")
    assert not is_within(log, index, 9)


def test_what_a_broker_that_died_left_is_one_clear_error(
    logs: WrittenLogDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_directory, "pause", lambda _wait_ms: None)
    (left := logs.file(ORDERS, 0, "log.swap")).touch()
    directory = LogDirectory(logs.path)
    with pytest.raises(UnreadableObject, match="being replaced each of the 8 times"):
        directory.log(ORDERS, directory.checkpoints())
    left.unlink()  # As a broker does when it starts.
    assert len(directory.log(ORDERS, directory.checkpoints()).rolled) == 2


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex"])
def test_a_segment_that_the_cleaner_replaced_is_not_taken(
    logs: WrittenLogDir, suffix: str
) -> None:
    directory = LogDirectory(logs.path)
    first = directory.log(ORDERS, directory.checkpoints()).rolled[0]
    file = logs.file(ORDERS, 0, suffix)
    file.rename(file.with_suffix(f".{suffix}.deleted"))
    with pytest.raises(SegmentReplaced), opened(directory.folder(ORDERS), first):
        pass


@pytest.mark.parametrize("suffix", ["log", "snapshot", "log.swap"])
def test_a_segment_that_appears_within_another_ones_offsets_shows_that_it_ended_earlier(
    logs: WrittenLogDir, suffix: str
) -> None:
    directory = LogDirectory(logs.path)
    first = directory.log(ORDERS, directory.checkpoints()).rolled[0]
    logs.file(ORDERS, 5, suffix).touch()
    with pytest.raises(SegmentReplaced), opened(directory.folder(ORDERS), first):
        pass


def test_a_segment_that_was_merged_with_the_next_one_is_not_taken(logs: WrittenLogDir) -> None:
    directory = LogDirectory(logs.path)
    first = directory.log(ORDERS, directory.checkpoints()).rolled[0]
    logs.file(ORDERS, 10, "log").unlink()
    with pytest.raises(SegmentReplaced), opened(directory.folder(ORDERS), first):
        pass


def test_a_segment_of_another_size_is_not_taken(logs: WrittenLogDir) -> None:
    directory = LogDirectory(logs.path)
    first = directory.log(ORDERS, directory.checkpoints()).rolled[0]
    other = replace(first, size_bytes=first.size_bytes - 1)
    with pytest.raises(SegmentReplaced), opened(directory.folder(ORDERS), other):
        pass


def test_what_is_open_stays_readable(logs: WrittenLogDir) -> None:
    directory = LogDirectory(logs.path)
    first = directory.log(ORDERS, directory.checkpoints()).rolled[0]
    before = logs.file(ORDERS, 0, "log").read_bytes()
    with opened(directory.folder(ORDERS), first) as files:
        logs.file(ORDERS, 0, "log").unlink()
        assert b"".join(piece.tobytes() for piece in files.stored().ranges()) == before


def test_a_checkpoint_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert read_offset_checkpoint(tmp_path / "none") == {}
    (tmp_path / "empty").touch()
    assert read_offset_checkpoint(tmp_path / "empty") == {}
