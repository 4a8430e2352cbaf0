"""How keys come back, as probabilities of what a sample shows and of what a whole log holds.

A *habit* describes what follows a record: further records of its key arrive at some rate for some
time, or exactly one does, or none. The time is exponential, so what follows does not depend on what
came before. A log is a mixture of habits, and both are linear in it: what a sample shows of a
record, its *cell*, and whether the whole log supersedes it.

    rate λ, ending 1/L    records arrive at λ per offset until the habit ends, after L on average
    once, ending 1/L      one record arrives, after L offsets on average
    never                 rate 0

The cells of a record are: no later record of its key is in the sample; or the next one is, so far
away, and a further one follows it or not.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.estimation.sample import Returns, Sample

Floats = NDArray[np.float64]

NEAR: Final = 6
"""Classes of distance within the window; each is twice as far as the one before."""
FAR: Final = 8
"""Classes of distance to another window, from a window's length to the log's, evenly by factor."""
CELLS: Final = 2 * (NEAR + FAR) + 1
_NODES: Final = (np.arange(8) + 0.5) / 8
"""Places within a window that stand for its records."""


class Habits(NamedTuple):
    """Habits; arrays have shape (habits,)."""

    rate: Floats
    """Records per offset."""
    ending: Floats
    """1 / how many offsets it lasts on average; 0: to the end of the log."""
    is_once: NDArray[np.bool_]


def habits_for(log_offsets: float, window_offsets: float) -> Habits:
    """Habits of all scales from a part of a window to the whole log."""
    lengths, length = [np.inf], log_offsets / 4
    while length > window_offsets / 8:
        lengths.append(length)
        length /= 4
    rows = [(0.0, 0.0, False)]
    for length in lengths:
        rows.append((0.0, 1 / length, True))
        rate = 0.5 / min(length, log_offsets)
        while rate < 0.7:
            rows.append((rate, 1 / length, False))
            rate *= 2
    rate_, ending, is_once = zip(*rows, strict=True)
    return Habits(np.array(rate_), np.array(ending), np.array(is_once))


class Windows(NamedTuple):
    """Where the windows of a sample lie, as distances; arrays have shape (windows,)."""

    start: Floats
    end: Floats
    competes: NDArray[np.bool_]
    """At least one does."""
    log_end: float
    competes_from: float

    @property
    def middle(self) -> Floats:
        """The middle of each, which stands for its records at a distance."""
        return (self.start + self.end) / 2

    @property
    def length(self) -> float:
        """Offsets of a window whose records may supersede others, on average."""
        return float(np.mean((self.end - self.start)[self.competes]))


def windows_of(sample: Sample, log_start: int, log_end: int) -> Windows:
    """Where the windows lie; offsets count from `log_start` on."""
    spans = (sample.spans - log_start).astype(np.float64)
    return Windows(
        start=spans[:, 0],
        end=spans[:, 1],
        competes=sample.competes,
        log_end=float(log_end - log_start),
        competes_from=float(max(0, sample.competes_from - log_start)),
    )


class Chances(NamedTuple):
    """Probabilities of a record of each window, by habit."""

    cells: Floats
    """Shape (windows, CELLS, habits): of what the sample shows; the last cell is "nothing"."""
    superseded: Floats
    """Shape (windows, habits): that the whole log supersedes it."""

    @property
    def hit(self) -> Floats:
        """Shape (windows, habits): that the sample supersedes it."""
        found: Floats = 1 - self.cells[:, -1]
        return found


def chances(windows: Windows, habits: Habits) -> Chances:
    """What the habits make probable in these windows."""
    count, kinds = len(windows.start), len(habits.rate)
    cells = np.zeros((count, CELLS, kinds))
    superseded = np.zeros((count, kinds))
    near_edges, far_edges = _near_edges(windows), _far_edges(windows)
    for number in range(count - 1, -1, -1):
        near = _near(windows, habits, number, near_edges)
        later, far = _far(windows, habits, number)
        total = near.sum(0) + far.sum(0)
        scale = 1 / np.maximum(total, 1)  # The middle of a window stands for all of it.
        never = np.maximum(0.0, 1 - total)
        cells[number, -1] = never
        _put(cells[number], np.arange(NEAR), near * scale, habits, never)
        distance = windows.middle[later] - windows.middle[number]
        classes = NEAR + _class_of(far_edges, distance, FAR)
        _put(cells[number], classes, far * scale, habits, cells[later, -1])
        superseded[number] = _superseded(windows, habits, number)
    return Chances(cells, superseded)


def cells_of(sample: Sample, returns: Returns, windows: Windows) -> NDArray[np.int64]:
    """Shape (records,): the cell of each record."""
    offset, window = sample.joined("offset"), sample.window
    after = np.maximum(returns.next_record, 0)
    is_near = window[after] == window
    near = _class_of(_near_edges(windows), offset[after] - offset, NEAR)
    distance = windows.middle[window[after]] - windows.middle[window]
    far = NEAR + _class_of(_far_edges(windows), distance, FAR)
    found = 2 * np.where(is_near, near, far) + returns.comes_again
    return np.where(returns.is_hit, found, CELLS - 1).astype(np.int64)


def _put(
    cells: Floats, classes: NDArray[np.int64], next_in: Floats, habits: Habits, never: Floats
) -> None:
    """Add the chance of the next record to the cells, split by whether a further one follows.

    `never`: that none follows, by habit, or by window and habit.
    """
    again = next_in * np.where(habits.is_once, 0.0, 1 - never)
    np.add.at(cells, 2 * classes + 1, again)
    np.add.at(cells, 2 * classes, next_in - again)


def _near_edges(windows: Windows) -> Floats:
    lengths = windows.length * 2.0 ** -np.arange(NEAR - 1, -1, -1)
    lengths[-1] = float(np.max((windows.end - windows.start)[windows.competes]))
    return np.concatenate([[0.0], lengths])


def _far_edges(windows: Windows) -> Floats:
    first = max(1.0, windows.length)
    return np.geomspace(first, max(2 * first, windows.log_end), FAR + 1)


def _class_of(edges: Floats, distance: NDArray[np.generic], classes: int) -> NDArray[np.int64]:
    found = np.searchsorted(edges, distance, side="right") - 1
    return np.clip(found, 0, classes - 1).astype(np.int64)


def _near(windows: Windows, habits: Habits, number: int, edges: Floats) -> Floats:
    """Shape (NEAR, habits): the chance that the next record is in the same window."""
    if not windows.competes[number]:
        return np.zeros((NEAR, len(habits.rate)))
    length = windows.end[number] - windows.start[number]
    left = (1 - _NODES[:, None]) * length
    starts, ends = np.minimum(edges[:-1], left), np.minimum(edges[1:], left)
    to_end = windows.log_end - windows.start[number] - _NODES[:, None] * length
    found = _next_within(habits, starts, starts, ends, np.broadcast_to(to_end, starts.shape))
    mean: Floats = found.mean(axis=0)
    return mean


def _far(windows: Windows, habits: Habits, number: int) -> tuple[NDArray[np.int64], Floats]:
    """The later windows, and the chance that the next record of the sample is in each of them."""
    later = number + 1 + np.flatnonzero(windows.competes[number + 1 :])
    middle = windows.middle[number]
    starts, ends = windows.start[later] - middle, windows.end[later] - middle
    own = (windows.end[number] - middle) * windows.competes[number]
    before = own + np.cumsum(ends - starts) - (ends - starts)
    to_end = np.full(len(later), windows.log_end - middle)
    return later, _next_within(habits, before, starts, ends, to_end)


def _next_within(
    habits: Habits, seen: Floats, start: Floats, end: Floats, to_end: Floats
) -> Floats:
    """Shape (…, habits): the chance that the next record of the sample lies in `[start, end)`.

    All of that is in the sample, and so are `seen` offsets before it. `to_end`: how far the log
    goes on. All have shape (…).
    """
    seen, start, end, to_end = (x[..., None] for x in (seen, start, end, to_end))
    rate, ending = habits.rate, habits.ending
    both = np.where(rate + ending > 0, rate + ending, 1.0)
    arriving = rate / both * np.exp(-rate * seen - ending * start)
    arriving = arriving * -np.expm1(-both * (end - start))
    return np.where(habits.is_once, _once(ending, start, end, to_end), arriving)


def _once(ending: Floats, start: Floats, end: Floats, to_end: Floats) -> Floats:
    """The chance that the one record, which arrives within the log, lies in `[start, end)`."""
    reach = np.maximum(to_end, 1.0)
    by_length = (np.exp(-ending * start) - np.exp(-ending * end)) / np.where(
        ending > 0, -np.expm1(-ending * reach), 1.0
    )
    return np.where(ending > 0, by_length, (end - start) / reach)


def _superseded(windows: Windows, habits: Habits, number: int) -> Floats:
    """Shape (habits,): the chance that a record at the window's middle is superseded."""
    middle = windows.middle[number]
    apart = max(0.0, windows.competes_from - middle)
    to_end = windows.log_end - middle
    rate, ending = habits.rate, habits.ending
    both = np.where(rate + ending > 0, rate + ending, 1.0)
    arriving = rate / both * np.exp(-ending * apart) * -np.expm1(-both * (to_end - apart))
    ends = (np.asarray(x) for x in (apart, to_end, to_end))
    return np.where(habits.is_once, _once(ending, *ends), arriving)
