"""The bytes that a run would probably remove from a partition, with an interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.estimation.fit import Part, Shares, likeliest, shares_of
from tierfold.compaction.estimation.habits import (
    CELLS,
    Chances,
    cells_of,
    chances,
    habits_for,
    windows_of,
)
from tierfold.compaction.estimation.sample import (
    KEPT_SHARES,
    Returns,
    Sample,
    kept_curve,
    returns_of,
)
from tierfold.compaction.estimation.sources import Sources
from tierfold.compaction.estimation.windows import PlannedSample

Floats = NDArray[np.float64]

_PARTS: Final = 3
"""Into how many parts the log that competes is cut, each with a mixture of its own."""
_PART_WINDOWS_MIN: Final = 4
_MODEL_ERROR: Final = 0.1
"""What the habits may miss of a share p, as a part of p (1 - p): they describe no log exactly."""
_DEVIATIONS: Final = 2.0
"""Standard deviations to either side of what is counted in windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run would remove of one partition, in bytes of `.log`s, compressed as they are."""

    bytes_in: int
    """Bytes of the segments that it would rewrite."""
    low_bytes: int
    likely_bytes: int
    high_bytes: int
    is_whole: bool
    """Whether all of these segments were read."""
    read_bytes: int
    """How many bytes of `.log`s and key indexes were read."""
    ranges: int
    """By how many requests."""
    stored_per_byte: float
    """What a byte of a `.log` takes in the store: a layout may encode logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEstimated:
    """There is no estimate of the partition."""

    reason: str
    """Why, a clause."""


class _Stretch(NamedTuple):
    """Neighbouring windows that stand for bytes of the log."""

    rows: NDArray[np.int64]
    """Numbers of the windows."""
    size_bytes: float
    is_clean: bool


def estimated(sample: Sample, planned: PlannedSample, sources: Sources) -> Estimate:
    """Estimate what a run would remove, from what was read as `planned`."""
    stretches = _stretches(sample, sources)
    goes, sizes = sample.joined("goes"), sample.joined("record_bytes")
    returns = returns_of(sample)
    may = sample.joined("may_compete") & ~goes
    if not sources.compares_keys:
        shares = Shares(*(np.zeros(len(stretches)) for _ in Shares._fields))
    elif planned.has_all_dirty or not sample.competes.any():
        shares = _counted(sample, returns, stretches, may * sizes)
    else:
        shares = _fitted(sample, returns, stretches, may * sizes, sources)
    removed = np.zeros((3, len(stretches)))
    for number, stretch in enumerate(stretches):
        taken = sample.stored_bytes[stretch.rows].sum()
        certain = sample.per_window(goes * sizes)[stretch.rows] / taken
        share, error = certain.sum(), _error(certain, sample.stored_bytes[stretch.rows], stretch)
        superseded = sample.per_window(may * sizes)[stretch.rows].sum() / taken
        for end, which in enumerate(shares):
            bound = share + (end - 1) * error + superseded * which[number]
            removed[end, number] = min(max(bound, 0.0), 1.0)
        if sources.may_spare and stretch.is_clean:
            removed[0, number] = 0.0
    weights = np.array([stretch.size_bytes for stretch in stretches])
    low, likely, high = _stored(removed, kept_curve(sample.windows)) @ weights
    return Estimate(
        bytes_in=sources.size_bytes,
        low_bytes=round(low),
        likely_bytes=round(likely),
        high_bytes=round(high),
        is_whole=planned.has_all,
        read_bytes=sum(window.size_bytes for window in planned.windows),
        ranges=len(planned.windows),
        stored_per_byte=sources.stored_per_byte,
    )


def _stretches(sample: Sample, sources: Sources) -> list[_Stretch]:
    """The windows in stretches: those that do not compete, and parts of those that do."""
    clean, dirty = np.flatnonzero(~sample.competes), np.flatnonzero(sample.competes)
    clean_bytes = float(sum(segment.size_bytes for segment in sources.clean))
    dirty_bytes = sources.size_bytes - clean_bytes
    if not len(clean):
        dirty_bytes = float(sources.size_bytes)
    parts = max(1, min(_PARTS, len(dirty) // _PART_WINDOWS_MIN))
    cut = [rows for rows in np.array_split(dirty, parts) if len(rows)]
    found = [
        _Stretch(rows=rows, size_bytes=dirty_bytes * len(rows) / len(dirty), is_clean=False)
        for rows in cut
    ]
    if len(clean):
        size_bytes = clean_bytes if found else float(sources.size_bytes)
        found.insert(0, _Stretch(rows=clean, size_bytes=size_bytes, is_clean=True))
    return found


def _error(shares: Floats, stored: Floats, stretch: _Stretch) -> float:
    """How far the sum of shares, one per window, may be off; 0 if the windows are all of it."""
    taken = stored.sum()
    if taken >= stretch.size_bytes * 0.999:
        return 0.0
    expected = shares.sum() * stored / taken
    return float(_DEVIATIONS * np.sqrt(((shares - expected) ** 2).sum()))


def _counted(
    sample: Sample, returns: Returns, stretches: Sequence[_Stretch], weights: Floats
) -> Shares:
    """The superseded shares where every record that may supersede others was read."""
    hits, all_ = sample.per_window(weights * returns.is_hit), sample.per_window(weights)
    likely, errors = np.zeros(len(stretches)), np.zeros(len(stretches))
    for number, stretch in enumerate(stretches):
        taken = all_[stretch.rows].sum()
        if not taken:
            continue  # No record of it may be superseded.
        likely[number] = hits[stretch.rows].sum() / taken
        if sample.stored_bytes[stretch.rows].sum() < stretch.size_bytes * 0.999:
            of_windows = _error(hits[stretch.rows] / taken, all_[stretch.rows], stretch)
            records = sample.per_window(weights > 0)[stretch.rows].sum()
            errors[number] = max(of_windows, 3 / records)
    return Shares(np.maximum(likely - errors, 0), likely, np.minimum(likely + errors, 1))


def _fitted(
    sample: Sample,
    returns: Returns,
    stretches: Sequence[_Stretch],
    weights: Floats,
    sources: Sources,
) -> Shares:
    """The superseded shares by the mixtures of habits that the sample allows."""
    windows = windows_of(sample, sources.segments[0].start_offset, sources.next_offset)
    found = chances(windows, habits_for(windows.log_end, windows.length))
    records = np.count_nonzero(weights)
    counted = weights * records / max(weights.sum(), 1e-9)
    cells = cells_of(sample, returns, windows)
    per_cell = np.zeros((len(sample.windows), CELLS))
    np.add.at(per_cell, (sample.window, cells), counted)
    all_bytes = sum(stretch.size_bytes for stretch in stretches)
    parts = list(_parts(per_cell, found, stretches, records / all_bytes))
    mixtures = likeliest(parts)
    low, likely, high = shares_of(
        parts, mixtures, _overdispersion(per_cell, found, stretches, mixtures)
    )
    error = _MODEL_ERROR * likely * (1 - likely)
    return Shares(np.maximum(low - error, 0), likely, np.minimum(high + error, 1))


def _parts(
    per_cell: Floats, found: Chances, stretches: Sequence[_Stretch], records_per_byte: float
) -> Iterator[Part]:
    for stretch in stretches:
        weights = per_cell[stretch.rows].sum(1)
        weights = weights / max(weights.sum(), 1e-9)
        yield Part(
            cells=np.tensordot(weights, found.cells[stretch.rows], 1),
            counts=per_cell[stretch.rows].sum(0),
            superseded=weights @ found.superseded[stretch.rows],
            weight=stretch.size_bytes * records_per_byte,
        )


def _overdispersion(
    per_cell: Floats, found: Chances, stretches: Sequence[_Stretch], mixtures: Sequence[Floats]
) -> float:
    """How much more neighbouring windows differ than by chance, at least 1 (Pearson).

    What the fit leaves over is compared between neighbours: that a log changes slowly from one end
    to the other adds no error to its mean.
    """
    squares, pairs = 0.0, 0
    for stretch, mixture in zip(stretches, mixtures, strict=True):
        records = np.maximum(per_cell[stretch.rows].sum(1), 1e-9)
        expected = found.hit[stretch.rows] @ mixture
        left_over = 1 - per_cell[stretch.rows, -1] / records - expected
        variance = np.maximum(expected * (1 - expected), 1e-3) / records
        squares += float((np.diff(left_over) ** 2 / (variance[1:] + variance[:-1])).sum())
        pairs += len(stretch.rows) - 1
    return max(1.0, squares / max(1, pairs))


def _stored(removed: Floats, curve: Floats) -> Floats:
    """Shape as `removed`: from shares of what is in the batches to shares of stored bytes.

    Rows are low, likely and high. What is kept of a compressed batch compresses worse, unless
    whole batches go; `curve` is for records that go here and there.
    """
    spread = 1 - np.interp(1 - removed, KEPT_SHARES, curve)
    stored = spread.copy()
    stored[0], stored[2] = np.minimum(spread, removed)[0], np.maximum(spread, removed)[2]
    return stored
