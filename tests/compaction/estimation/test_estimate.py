"""The estimate: exact where all is read, an interval that holds where a sample is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.compaction.estimation.samples import RECORD_BYTES, a_window, sampled_log, superseded
from tierfold.compaction.estimation.estimate import Estimate, estimated
from tierfold.compaction.estimation.sample import KEPT_SHARES, Sample, returns_of
from tierfold.compaction.estimation.windows import SampleBound

ALL = SampleBound(windows=100, window_bytes=2**20)
RECORDS = 40_000
PART = SampleBound(windows=64, window_bytes=RECORDS * RECORD_BYTES // 20 // 64)


@given(st.lists(st.integers(0, 30), min_size=10, max_size=200), st.integers(0, 250))
def test_what_is_read_whole_is_counted(numbers: list[int], competes_from: int) -> None:
    keys = np.array(numbers[: len(numbers) // 10 * 10])
    found = estimated(*sampled_log(keys, ALL, competes_from))
    gone = RECORD_BYTES * np.count_nonzero(superseded(keys, competes_from))
    assert found.is_whole
    assert found.low_bytes == found.likely_bytes == found.high_bytes == gone


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=60),
    st.integers(0, 60),
)
@example([(0, True), (0, True)], 0)
def test_the_next_records_of_a_key_are_found(
    drawn: list[tuple[int, bool]], competes_from: int
) -> None:
    keys, may = np.array([key for key, _ in drawn]), np.array([may for _, may in drawn])
    sample = Sample((a_window(0, keys, may_compete=may),), competes_from)
    returns = returns_of(sample)
    for place, key in enumerate(keys):
        after = [
            other
            for other in range(place + 1, len(keys))
            if keys[other] == key and may[other] and may[place] and other >= competes_from
        ]
        assert returns.next_record[place] == (after[0] if after else -1)
        assert returns.comes_again[place] == (len(after) > 1)


LOGS = {
    "ten of each key": lambda rng: rng.integers(0, RECORDS // 10, RECORDS),
    "two of each key": lambda rng: rng.permutation(np.repeat(np.arange(RECORDS // 2), 2)),
    "each key once": lambda _: np.arange(RECORDS),
    "one key": lambda _: np.zeros(RECORDS, np.int64),
    "loaded, then updated": lambda rng: np.concatenate(
        [np.arange(RECORDS // 2), rng.integers(0, RECORDS // 2, RECORDS // 2)]
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_the_interval_holds(name: str) -> None:
    keys = LOGS[name](np.random.default_rng(3))
    found = estimated(*sampled_log(keys, PART))
    gone = RECORD_BYTES * np.count_nonzero(superseded(keys))
    assert found.low_bytes <= gone <= found.high_bytes, (found, gone)
    assert found.high_bytes - found.low_bytes < 0.55 * found.bytes_in


@pytest.mark.parametrize("dirty", [0.02, 0.3])
def test_a_clean_part_is_superseded_by_the_dirty_one_only(dirty: float) -> None:
    clean = int(RECORDS * (1 - dirty)) // 4000 * 4000
    rng = np.random.default_rng(5)
    keys = np.concatenate([np.arange(clean), rng.integers(0, clean, RECORDS - clean)])
    found = estimated(*sampled_log(keys, PART, clean))
    gone = RECORD_BYTES * np.count_nonzero(superseded(keys, clean))
    assert found.low_bytes <= gone <= found.high_bytes, (found, gone)
    assert found.high_bytes - found.low_bytes < 0.4 * found.bytes_in


def of_one_window(**columns: object) -> Estimate:
    sample, planned, sources = sampled_log(np.arange(100), ALL, segments=1)
    window = replace(sample.windows[0], **columns)
    return estimated(Sample((window,), 0), planned, sources)


@pytest.mark.parametrize("has_key", [False, True])
def test_what_goes_whatever_its_key_is_counted_once(*, has_key: bool) -> None:
    goes = np.arange(100) < 30
    keys = np.repeat(np.uint64(7), 100)
    found = of_one_window(goes=goes, may_compete=~goes | has_key, key_hash=keys)
    assert found.likely_bytes == 99 * RECORD_BYTES


def test_batches_that_compress_worse_save_less() -> None:
    goes = np.arange(100) < 50
    curve = tuple(round(10_000 * (0.2 * (share > 0) + 0.8 * share)) for share in KEPT_SHARES)
    found = of_one_window(goes=goes, rewritten_bytes=curve)
    assert found.likely_bytes == found.low_bytes == 4000
    assert found.high_bytes == 5000  # If those that go are neighbours.


def test_a_round_for_horizons_compares_no_keys() -> None:
    sample, planned, sources = sampled_log(np.zeros(100, np.int64), ALL)
    assert estimated(sample, planned, replace(sources, compares_keys=False)).high_bytes == 0


def test_settings_may_leave_superseded_records_in_clean_segments() -> None:
    keys = np.concatenate([np.arange(90), np.arange(10)])
    sample, planned, sources = sampled_log(keys, ALL, 90)
    found = estimated(sample, planned, replace(sources, may_spare=True))
    assert (found.low_bytes, found.high_bytes) == (0, 10 * RECORD_BYTES)


def test_dirty_segments_may_spare_nothing() -> None:
    sample, planned, sources = sampled_log(np.zeros(100, np.int64), ALL, 50)
    found = estimated(sample, planned, replace(sources, may_spare=True))
    assert (found.low_bytes, found.high_bytes) == (49 * RECORD_BYTES, 99 * RECORD_BYTES)


def of_windows(sample: Sample, numbers: range, **columns: object) -> Sample:
    """Some windows of a sample, with other columns."""
    kept = tuple(replace(sample.windows[number], **columns) for number in numbers)
    return Sample(kept, sample.competes_from)


def test_windows_stand_for_the_part_of_which_none_was_read() -> None:
    sample, planned, sources = sampled_log(np.zeros(100, np.int64), ALL, 50)
    dirty = estimated(of_windows(sample, range(5, 10)), planned, sources)
    assert dirty.likely_bytes == 98 * RECORD_BYTES
    goes = np.arange(10) < 3
    clean = of_windows(sample, range(5), goes=goes)
    found = estimated(clean, replace(planned, has_all_dirty=False), sources)
    assert found.likely_bytes == 30 * RECORD_BYTES


def test_what_goes_is_exact_if_all_was_read_and_an_interval_else() -> None:
    sample, planned, sources = sampled_log(np.arange(100), ALL)
    windows = [
        replace(window, goes=np.repeat(number < 3, 10))
        for number, window in enumerate(sample.windows)
    ]
    whole = estimated(Sample(tuple(windows), 0), planned, sources)
    assert whole.low_bytes == whole.likely_bytes == whole.high_bytes == 30 * RECORD_BYTES
    part = estimated(Sample(tuple(windows[:8:2]), 0), planned, sources)
    assert part.low_bytes < part.likely_bytes < part.high_bytes


@pytest.mark.parametrize(
    ("bound", "has_all_dirty"), [(ALL, True), (PART, True), (PART, False)]
)
def test_a_log_without_keys_goes(bound: SampleBound, *, has_all_dirty: bool) -> None:
    """No record competes, so nothing is compared."""
    sample, planned, sources = sampled_log(np.arange(RECORDS), bound)
    planned = replace(planned, has_all_dirty=has_all_dirty)
    windows = tuple(
        replace(one, goes=np.ones_like(one.goes), may_compete=np.zeros_like(one.goes))
        for one in sample.windows
    )
    found = estimated(Sample(windows, 0), planned, sources)
    assert found.low_bytes == found.likely_bytes == found.high_bytes == found.bytes_in


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("has_all_dirty", [False, True])
def test_the_superseded_part_is_neither_negative_nor_more_than_may_go(
    *, comes_back: bool, has_all_dirty: bool
) -> None:
    """A quarter goes whatever its key, a quarter stays: markers."""
    keys = np.zeros(RECORDS, np.int64) if comes_back else np.arange(RECORDS)
    sample, planned, sources = sampled_log(keys, PART, RECORDS // 2)
    windows = []
    for window in sample.windows:
        number = np.arange(len(window.offset)) % 4
        windows.append(replace(window, goes=number == 0, may_compete=number > 1))
    read = replace(planned, has_all_dirty=has_all_dirty)
    found = estimated(Sample(tuple(windows), sample.competes_from), read, sources)
    certain = estimated(
        Sample(tuple(windows), sample.competes_from), read, replace(sources, compares_keys=False)
    )
    assert found.low_bytes >= certain.low_bytes
    assert found.high_bytes <= certain.high_bytes + found.bytes_in / 2
    assert found.low_bytes < found.high_bytes


def test_windows_that_differ_make_a_wider_interval() -> None:
    """In one log every other stretch comes back, in the other every second record does."""
    length = RECORDS // 64
    stretch = (np.arange(RECORDS) // length) % 2 == 0
    fresh = np.arange(RECORDS) + RECORDS
    mixed = np.where(np.arange(RECORDS) % 2 == 0, np.arange(RECORDS) // 20, fresh)
    apart = np.where(stretch, np.arange(RECORDS) // 20, fresh)
    widths = [
        found.high_bytes - found.low_bytes
        for found in (estimated(*sampled_log(keys, PART)) for keys in (mixed, apart))
    ]
    assert widths[1] > 1.5 * widths[0]


def test_windows_that_share_offsets_are_refused() -> None:
    one = a_window(0, np.arange(10))
    with pytest.raises(ValueError, match="share offsets"):
        Sample((one, one), 0)
