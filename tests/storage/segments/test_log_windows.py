"""A log read in windows equals the whole log, whatever the sizes of windows and ranges.

And a corrupt byte, a missing one and a surplus one are found, as in the whole log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compaction.hash_keys import HASH_KEY
from tests.storage.corrupted_bytes import patched
from tests.storage.legacy_messages import message, wrapper
from tests.storage.live_segments import KEY, a_group_task, a_tier, data, marker, put_segment
from tests.storage.stored_logs import mapped_log, small_windows, stored
from tierfold.compaction.cleaning.offset_map import SUPERSEDED
from tierfold.compaction.commits.receipts import GroupReceipt
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.segments import Segment
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.batch_headers import BatchHeads, joined_heads, read_heads
from tierfold.storage.kafka.compression import Codec, PlainLimits
from tierfold.storage.kafka.control_records import ControlType, control_types
from tierfold.storage.kafka.legacy_batches import DecodeLimits, decode_any, with_inner_heads
from tierfold.storage.kafka.records import Records, windows
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.segments.log_windows import (
    StoredObject,
    live_log,
    log_windows,
    reread,
    sized_windows,
)
from tierfold.storage.segments.segment_scan import ScanOrder, scan_segment
from tierfold.storage.segments.window import LogWindow, decoded_windows
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Part, address_of

WHERE = "a log"


class Content(NamedTuple):
    """What a reader takes from a log; two logs are compared by it."""

    heads: list[tuple[str, list[int]]]
    types: list[int]
    records: list[tuple[int, int, bytes | None, bytes | None]]


def content_of(
    heads: Sequence[BatchHeads], types: Sequence[np.ndarray], records: Sequence[Records]
) -> Content:
    every = joined_heads(heads)
    return Content(
        heads=[(field.name, getattr(every, field.name).tolist()) for field in fields(BatchHeads)],
        types=[int(kind) for found in types for kind in found],
        records=[row for found in records for row in _rows(found)],
    )


def _rows(records: Records) -> list[tuple[int, int, bytes | None, bytes | None]]:
    def field(at: int, size: int) -> bytes | None:
        return None if size < 0 else records.body[at : at + size].tobytes()

    return [
        (
            int(records.offset[i]),
            int(records.timestamp_ms[i]),
            field(records.key_at[i], records.key_bytes[i]),
            field(records.value_at[i], records.value_bytes[i]),
        )
        for i in range(len(records))
    ]


def whole(log: bytes) -> Content:
    """The content of a log that is read as a whole."""
    array = np.frombuffer(log, np.uint8)
    heads = read_heads(array, where=WHERE)
    heads = with_inner_heads(array, heads, limits=DecodeLimits(2**30), where=WHERE)
    parts = [heads.slice(*cut) for cut in windows(heads, window_bytes=2**30)]
    records = [decode_any(array, part, where=WHERE) for part in parts]
    types = [
        control_types(found, part, where=WHERE)
        for part, found in zip(parts, records, strict=True)
    ]
    return content_of(parts, types, records)


def in_windows(log: StoredObject) -> Content:
    """The content by windows; checks that they follow each other and hold what they may."""
    heads, types, records = [], [], []
    position = first_record = 0
    for window, decoded in decoded_windows(log_windows(log)):
        assert (window.position, window.first_record) == (position, first_record)
        assert len(window.heads) == 1 or window.size_bytes <= log.window_bytes
        assert len(window.data) <= 2 * log.window_bytes or len(window.data) == window.size_bytes
        assert len(set(window.heads.is_legacy.tolist())) == 1
        assert _rows(decoded) == _rows(window.records())
        position += window.size_bytes
        first_record += len(decoded)
        assert (len(window.stored), window.records_end) == (window.size_bytes, first_record)
        heads.append(window.heads)
        records.append(decoded)
        types.append(window.control_types(decoded))
    return content_of(heads, types, records)


def checked(log: StoredObject) -> list[LogWindow]:
    return [window.checked() for window in log_windows(log)]


def outcome(read: Callable[[], Content]) -> Content | str:
    try:
        return read()
    except CorruptLog as error:
        return error.where.partition(":")[0]


def _records(base: int, sizes: Sequence[int]) -> tuple[RecordDraft, ...]:
    return tuple(
        RecordDraft(
            offset=base + i, timestamp_ms=1000 + i, key=b"k%d" % (size % 3), value=b"v" * size
        )
        for i, size in enumerate(sizes)
    )


def _piece(kind: str, base: int, sizes: Sequence[int]) -> bytes:
    """A batch, a message or a wrapper from offset `base` on, one record per size."""
    last = base + len(sizes) - 1
    match kind:
        case "message":
            return b"".join(message(base + i, b"v" * size) for i, size in enumerate(sizes))
        case "wrapper":
            inner = (message(i, b"v" * size) for i, size in enumerate(sizes))
            return wrapper(last, b"".join(inner))
        case "wrapper of magic 0":
            inner = (message(base + i, b"v" * size, magic=0) for i, size in enumerate(sizes))
            return wrapper(last, b"".join(inner), magic=0)
        case "marker":
            return write_batch(marker(base, 7, ControlType.ABORT))
        case "empty":
            return write_batch(BatchDraft(base_offset=base, last_offset=last))
        case "transactional":
            return write_batch(data(base, *[(b"t", b"v" * size) for size in sizes], producer_id=7))
    codec = Codec.NONE if kind == "plain" else Codec.LZ4
    draft = BatchDraft(base_offset=base, records=_records(base, sizes), codec=codec)
    return write_batch(draft)


KINDS = (
    "plain",
    "plain",
    "compressed",
    "transactional",
    "marker",
    "empty",
    "message",
    "wrapper",
    "wrapper of magic 0",
)


@st.composite
def logs(draw: st.DrawFn, kinds: Sequence[str] = KINDS) -> bytes:
    """A sound log; some batches are larger than most windows."""
    pieces, base = [], draw(st.sampled_from([0, 5, 2**30]))
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=8)):
        sizes = draw(st.lists(st.sampled_from([0, 3, 300]), min_size=1, max_size=3))
        pieces.append(_piece(kind, base, sizes))
        base += len(sizes) + draw(st.sampled_from([0, 0, 2]))
    return b"".join(pieces)


SIZES = st.sampled_from([1, 7, 17, 61, 100, 250, 700, 2**20])


LIMITS = st.builds(PlainLimits, together_bytes=st.sampled_from([1, 100, 700, 2**20]))
"""Lower than the usual ones: decoded, a window then becomes several."""


@given(log=logs(), window_bytes=SIZES, range_bytes=SIZES, limits=LIMITS)
def test_windows_of_any_size_hold_what_the_whole_log_holds(
    log: bytes, window_bytes: int, range_bytes: int, limits: PlainLimits
) -> None:
    content = whole(log)
    sizes: dict[str, Any] = {"window_bytes": window_bytes, "limits": limits}
    assert in_windows(stored(log, range_bytes=range_bytes, **sizes)) == content
    mapped = mapped_log(log, **sizes)
    assert in_windows(mapped) == content


@pytest.mark.parametrize("kind", ["compressed", "wrapper", "wrapper of magic 0"])
def test_a_window_that_expands_to_too_much_is_decoded_in_several(kind: str) -> None:
    log = b"".join(_piece(kind, base, [300, 300]) for base in range(0, 12, 2))
    small = stored(log, limits=PlainLimits(together_bytes=1500))
    (window,) = log_windows(small)
    parts = list(window.decoded())
    assert [part.heads.base_offset.tolist() for part, _ in parts] == [[0, 2], [4, 6], [8, 10]]
    assert in_windows(small) == whole(log)


@given(log=logs(), data=st.data(), window_bytes=SIZES, range_bytes=SIZES)
def test_a_turned_bit_has_the_same_result_as_in_the_whole_log(
    log: bytes, data: st.DataObject, window_bytes: int, range_bytes: int
) -> None:
    sizes = {"window_bytes": window_bytes, "range_bytes": range_bytes}
    for at in data.draw(st.lists(st.integers(0, len(log) - 1), min_size=1, max_size=20)):
        bit = data.draw(st.sampled_from([1, 4, 128]))
        turned = log[:at] + bytes([log[at] ^ bit]) + log[at + 1 :]
        by_windows = outcome(lambda turned=turned: in_windows(stored(turned, **sizes)))
        assert by_windows == outcome(lambda turned=turned: whole(turned)), at


@settings(max_examples=settings().max_examples // 2)
@given(
    log=logs(kinds=("plain", "message", "wrapper")),
    first=st.integers(0, 8),
    window_bytes=SIZES,
    range_bytes=SIZES,
)
def test_no_byte_of_a_short_log_can_be_turned_unnoticed(
    log: bytes, first: int, window_bytes: int, range_bytes: int
) -> None:
    log = log[:400]
    sizes = {"window_bytes": window_bytes, "range_bytes": range_bytes}
    for at in range(first, len(log), 9):
        turned = log[:at] + bytes([log[at] ^ 16]) + log[at + 1 :]
        by_windows = outcome(lambda turned=turned: in_windows(stored(turned, **sizes)))
        assert by_windows == outcome(lambda turned=turned: whole(turned)), at


@given(log=logs(), cut=st.integers(1, 400), window_bytes=SIZES, range_bytes=SIZES)
def test_a_log_of_another_size_than_the_catalog_says_is_refused(
    log: bytes, cut: int, window_bytes: int, range_bytes: int
) -> None:
    sizes: dict[str, Any] = {"window_bytes": window_bytes, "range_bytes": range_bytes}
    for size_bytes in (max(0, len(log) - cut), len(log) + cut):
        with pytest.raises(CorruptLog, match=r"torn|where the catalog says|the log is empty"):
            list(sized_windows(stored(log, end=size_bytes, **sizes)))
        with pytest.raises(CorruptLog, match=r"torn|where the catalog says|the log is empty"):
            list(sized_windows(stored(log[:size_bytes] or b"", end=len(log) + 1, **sizes)))
    longer = stored(log, end=max(0, len(log) - cut), **sizes)
    assert in_windows(longer) == whole(log)  # `verify` reports the size, and reads the rest.


@given(parts=st.lists(logs(), min_size=2, max_size=3), window_bytes=SIZES, range_bytes=SIZES)
def test_offsets_ascend_from_one_window_to_the_next(
    parts: list[bytes], window_bytes: int, range_bytes: int
) -> None:
    log = b"".join(parts)  # Each part begins at one of three offsets: most are out of order.
    sizes = {"window_bytes": window_bytes, "range_bytes": range_bytes}
    assert outcome(lambda: in_windows(stored(log, **sizes))) == outcome(lambda: whole(log))


def test_positions_in_messages_count_from_the_logs_start() -> None:
    batches = [_piece("plain", base, [50]) for base in range(6)]
    at = sum(map(len, batches[:4]))
    log = patched(b"".join(batches), at + 21, "h", 8)
    for range_bytes in (1, 100, 2**20):
        with pytest.raises(CorruptLog, match=rf"the batch at byte {at} \(base offset 4\)"):
            checked(stored(log, window_bytes=1, range_bytes=range_bytes))
        skipped = len(batches[0])
        cut = stored(log, start=skipped, window_bytes=1, range_bytes=range_bytes)
        with pytest.raises(CorruptLog, match=f"the batch at byte {at - skipped} "):
            checked(cut)


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (2**30, "torn at byte {at}: a batch there needs"),
        (9001, "the batch at byte {behind} (has magic|claims)"),
    ],
)
def test_a_false_length_does_not_collect_the_rest_of_the_log(length: int, reason: str) -> None:
    batches = [_piece("plain", base, [300]) for base in range(50)]
    at = len(batches[0])
    log = patched(b"".join(batches), at + 8, "i", length)
    read_bytes = 0
    small = stored(log, range_bytes=500)

    def read(start: int, length: int) -> np.ndarray:
        nonlocal read_bytes
        found = small.read(start, length)
        read_bytes += len(found)
        return found

    with pytest.raises(CorruptLog, match=reason.format(at=at, behind=at + length + 12)):
        checked(replace(small, read=read))
    assert read_bytes <= 4 * 500


def test_the_next_range_is_fetched_meanwhile_and_no_more_than_two() -> None:
    log = b"".join(_piece("plain", base, [300]) for base in range(20))
    size_bytes = len(log) // 20
    lock, second = threading.Lock(), threading.Event()
    starts: list[int] = []
    small = stored(log, range_bytes=size_bytes)

    def read(start: int, length: int) -> np.ndarray:
        with lock:
            starts.append(start)
            if len(starts) > 1:
                second.set()
        return small.read(start, length)

    reader = log_windows(replace(small, read=read))
    for taken, _ in enumerate(reader, start=1):
        assert second.wait(20)
        assert len(starts) <= taken + 2
    assert sorted(starts) == list(range(0, len(log), size_bytes))


def test_batches_that_changed_are_not_read_again_as_if_they_had_not() -> None:
    log = b"".join(_piece("plain", base, [30]) for base in range(4))
    passed = checked(stored(log, window_bytes=1, range_bytes=1))
    again = reread(stored(log, range_bytes=50), passed)
    assert b"".join(found.tobytes() for found in again) == log
    # No checksum covers the leader epoch.
    for at, form, value in ((12, "i", 9), (0, "q", -1), (17, "I", 5)):
        with pytest.raises((UnreadableObject, CorruptLog)):
            list(reread(stored(patched(log, at, form, value)), passed))


def _rewritten(
    tier: LocalTieredStorage, segment: Segment, superseded: frozenset[int]
) -> tuple[GroupReceipt, bytes]:
    """The receipt without what differs from call to call, and the new log."""

    def bits(_: Segment) -> np.ndarray:
        return np.isin(np.arange(100), [*superseded]) * SUPERSEDED

    receipt = rewrite_group(tier, a_group_task([segment]), bits)
    new = receipt.segment
    if new is None:
        return receipt, b""
    content = tier.read_part(address_of(KEY, new), Part.LOG).tobytes()
    (written,) = receipt.written
    unnamed = replace(written, segment=replace(new, segment_id=""))
    return replace(receipt, written=(unnamed,)), content


@settings(max_examples=settings().max_examples // 2)
@given(
    log=logs(),
    superseded=st.frozensets(st.integers(0, 25), max_size=3),
    sizes=st.tuples(SIZES, SIZES, LIMITS),
)
def test_scan_and_rewrite_do_not_depend_on_windows_and_ranges(
    log: bytes,
    superseded: frozenset[int],
    sizes: tuple[int, int, PlainLimits],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    tier = a_tier(Path(tmp_path_factory.mktemp("tier")))
    content = whole(log)
    heads = dict(content.heads)
    offsets = (heads["base_offset"][0], heads["last_offset"][-1])
    segment = put_segment(tier, [log], offsets=offsets)
    superseded = frozenset(i for i in superseded if i < len(content.records))
    order = ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=2)
    scanned = scan_segment(live_log(tier, KEY, segment), (), order)
    receipt = _rewritten(tier, segment, superseded)
    with pytest.MonkeyPatch.context() as small:
        small_windows(small, *sizes)
        again = scan_segment(live_log(tier, KEY, segment), (), order)
        assert _rewritten(tier, segment, superseded) == receipt
    assert again.own_bits.tolist() == scanned.own_bits.tolist()
    assert (again.record_bytes, again.without_key) == (scanned.record_bytes, scanned.without_key)
    assert again.blocks == scanned.blocks
