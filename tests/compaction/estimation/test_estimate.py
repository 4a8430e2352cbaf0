"""The estimate: exact where all is read, an interval that holds where a sample is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
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


def test_what_goes_whatever_its_key_is_counted_once() -> None:
    goes = np.arange(100) < 30
    keys = np.repeat(np.uint64(7), 100)
    found = of_one_window(goes=goes, may_compete=~goes, key_hash=keys)
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


def test_windows_that_share_offsets_are_refused() -> None:
    one = a_window(0, np.arange(10))
    with pytest.raises(ValueError, match="share offsets"):
        Sample((one, one), 0)
