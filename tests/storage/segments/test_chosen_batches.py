"""Only chosen batches of a log are read, checked, and compared with what the scan found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.hash_keys import HASH_KEY
from tests.storage.corrupted_bytes import patched
from tests.storage.live_segments import data
from tests.storage.stored_logs import mapped_log, only_used, stored
from tierfold.compaction.cleaning.batch_outline import BatchOutline
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.storage.kafka.batch_draft import write_batch
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.segments import chosen_batches
from tierfold.storage.segments.chosen_batches import SPAN_MAX, chosen_stretches, is_choosable
from tierfold.storage.segments.log_windows import StoredObject
from tierfold.storage.segments.segment_scan import ScanOrder, scan_segment
from tierfold.storage.segments.window import LogWindow
from tierfold.storage.tiers.object_store import Spans
from tierfold.storage.tiers.remote_tier import Access

BATCHES = [write_batch(data(2 * i, (b"k%d" % i, b"v" * 9 * i), (b"l", b"w"))) for i in range(12)]


def outline_of(batches: list[bytes]) -> BatchOutline:
    order = ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=1)
    return scan_segment(stored(b"".join(batches)), (), order).outline


def chosen_windows(
    log: StoredObject, outline: BatchOutline, chosen: np.ndarray
) -> list[LogWindow]:
    found = chosen_stretches(log, outline, chosen)
    return [window.checked() for stretch in found for window in stretch.windows()]


def only(numbers: set[int], batches: int) -> np.ndarray:
    return np.isin(np.arange(batches), [*numbers])


def recorded(read: Callable[..., np.ndarray], reads: list[tuple[int, int]]) -> Any:
    """As `read`; appends the start and the length of each call to `reads`."""

    def recording(start: int, length: int, *more: Spans) -> np.ndarray:
        reads.append((start, length))
        return read(start, length, *more)

    return recording


@given(
    numbers=st.sets(st.integers(0, len(BATCHES) - 1)),
    window_bytes=st.integers(1, 2000),
    range_bytes=st.integers(1, 2000),
    gap_bytes=st.integers(0, 400),
    skipped=st.integers(0, 2),
    is_mapped=st.booleans(),
)
def test_the_windows_hold_the_chosen_batches_and_nothing_else_is_read(
    numbers: set[int],
    window_bytes: int,
    range_bytes: int,
    gap_bytes: int,
    skipped: int,
    is_mapped: bool,
) -> None:
    content = b"x" * skipped + b"".join(BATCHES)
    reads: list[tuple[int, int]] = []
    log = stored(content, start=skipped, window_bytes=window_bytes, range_bytes=range_bytes)
    read = recorded(log.read, reads)
    access = Access(map_range=recorded(only_used(content), reads) if is_mapped else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chosen_batches, "GAP_BYTES", gap_bytes)
        chosen = only(numbers, len(BATCHES))
        found = chosen_windows(
            replace(log, read=read, access=lambda: access), outline_of(BATCHES), chosen
        )
    seen: list[bytes] = []
    for window in found:
        assert window.first_record == 2 * len(seen)
        assert len(window.heads) == 1 or window.size_bytes <= window_bytes
        ends = window.heads.position + window.heads.size_bytes
        seen += [
            window.data[start:end].tobytes()
            for start, end in zip(window.heads.position, ends, strict=True)
        ]
        assert window.position == content.index(seen[-len(window.heads)]) - skipped
        if not window.has_gaps:
            assert window.stored.tobytes() == b"".join(seen[-len(window.heads) :])
        assert window.records_end - window.first_record == len(window.records())
    assert seen == [BATCHES[i] for i in sorted(numbers)]
    limit_bytes = window_bytes if is_mapped else range_bytes
    starts = np.cumsum([skipped, *map(len, BATCHES)])
    wanted = [(int(starts[i]), int(starts[i + 1])) for i in sorted(numbers)]
    for start, length in reads:
        inside = [span for span in wanted if start <= span[0] and span[1] <= start + length]
        assert (inside[0][0], inside[-1][1]) == (start, start + length)
        if len(inside) == 1:
            continue
        assert sum(end - begin for begin, end in inside) <= limit_bytes
        assert length <= limit_bytes * (SPAN_MAX if is_mapped else 1)
        gaps = [after[0] - before[1] for before, after in pairwise(inside)]
        assert is_mapped or max(gaps) <= gap_bytes


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("window_bytes", [1, 1500, 5000, 2**20])
def test_a_stretch_of_a_mapped_log_is_one_window(codec: Codec, window_bytes: int) -> None:
    drafts = [data(2 * i, (b"k", b"v" * 99), (b"l", b"v" * 99)) for i in range(12)]
    batches = [write_batch(replace(draft, codec=codec)) for draft in drafts]
    log = mapped_log(b"".join(batches), window_bytes=window_bytes)
    found = list(chosen_stretches(log, outline_of(batches), only({0, 1, 2, 5, 7, 8, 9}, 12)))
    assert [len(list(stretch.windows())) for stretch in found] == [1] * len(found)
    assert sum(len(stretch.start) for stretch in found) == 7
    assert (len(found) == 1) is (window_bytes > 10_000)


@pytest.mark.parametrize(("span_max", "stretches"), [(8, 1), (1, 2)])
def test_only_the_span_of_a_mapped_stretch_is_limited(
    span_max: int, stretches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen_batches, "SPAN_MAX", span_max)
    monkeypatch.setattr(chosen_batches, "GAP_BYTES", 1)
    batches = [write_batch(data(i, (b"k", b"v" * 1000))) for i in range(12)]
    log = mapped_log(b"".join(batches), window_bytes=12_000)
    found = list(chosen_stretches(log, outline_of(batches), only({0, 11}, 12)))
    assert len(found) == stretches
    assert sum(stretch.size_bytes for stretch in found) > (stretches == 1) * 12_000


def test_a_range_takes_as_much_as_it_may() -> None:
    reads: list[int] = []
    log = stored(b"".join(BATCHES))

    def read(start: int, length: int) -> np.ndarray:
        reads.append(length)
        return log.read(start, length)

    ends = only({0, 5, 11}, len(BATCHES))
    chosen_windows(replace(log, read=read), outline_of(BATCHES), ends)
    assert reads == [len(b"".join(BATCHES))]


@pytest.mark.parametrize(
    ("at", "form", "value", "what"),
    [
        (8, "i", 60, "changed while"),
        (16, "b", 9, "changed while"),
        (0, "q", 5, "changed while"),
        (23, "i", 5, "bad CRC"),
        (61, "b", 9, "bad CRC"),
    ],
    ids=["length", "magic", "offset", "last offset", "payload"],
)
def test_other_bytes_than_were_scanned_are_refused(
    at: int, form: str, value: int, what: str
) -> None:
    outline, first = outline_of(BATCHES), len(BATCHES[0])
    log = b"".join(BATCHES)
    broken = stored(patched(log, first + at, form, value))
    with pytest.raises((CorruptLog, UnreadableObject), match=what):
        chosen_windows(broken, outline, only({1}, len(BATCHES)))
    # What is not chosen is neither read nor checked.
    assert len(chosen_windows(broken, outline, only({0, 2}, len(BATCHES)))) == 1


def test_another_number_of_records_is_refused() -> None:
    outline = outline_of(BATCHES)
    sized = replace(outline, records=outline.records + np.int32(1))
    with pytest.raises(UnreadableObject, match="bytes from 0 on changed"):
        chosen_windows(stored(b"".join(BATCHES)), sized, only({0}, len(BATCHES)))


@pytest.mark.parametrize("kept_bytes", [0, 5, 60])
def test_a_log_that_became_shorter_is_refused(kept_bytes: int) -> None:
    log = b"".join(BATCHES[:1]) + BATCHES[1][:kept_bytes]
    with pytest.raises(UnreadableObject, match=f"bytes from {len(BATCHES[0])} on changed"):
        chosen_windows(stored(log), outline_of(BATCHES), only({1}, len(BATCHES)))


def test_a_log_that_is_decoded_in_chunks_or_in_order_is_read_whole() -> None:
    assert is_choosable(Access())
    assert is_choosable(Access(map_range=only_used(b"")))
    assert not is_choosable(Access(unit_bytes=2))
    assert not is_choosable(Access(is_in_order=True))
