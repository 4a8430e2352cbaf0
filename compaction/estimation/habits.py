"""How keys come back, as probabilities of what a sample shows and of what a whole log holds.

A *habit* describes what follows a record: further records of its key arrive at some rate, which may
fade with the distance, or exactly one arrives, or none. A log is a mixture of habits, and both are
linear in it: what a sample shows of a record, its *cell*, and whether the whole log supersedes it.

    rate λ, fading 1/L    records arrive at λ exp(−x/L) per offset at distance x (Poisson)
    once, fading 1/L      one record arrives, after L offsets on average
    never                 rate 0

A mixture over rates makes numbers of records that vary more than by chance; `once` is for those
that vary less.

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
    fading: Floats
    """1 / the distance at which the rate is a third; 0: it does not fade."""
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
    rate_, fading, is_once = zip(*rows, strict=True)
    return Habits(np.array(rate_), np.array(fading), np.array(is_once))


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
    for number in range(count):
        later, far, far_again = _far(windows, habits, number)
        near, near_again = _near(windows, habits, number, near_edges)
        total = near.sum(0) + far.sum(0)
        scale = 1 / np.maximum(total, 1)  # The middle of a window stands for all of it.
        cells[number, -1] = np.maximum(0.0, 1 - total)
        distance = windows.middle[later] - windows.middle[number]
        classes = NEAR + _class_of(far_edges, distance, FAR)
        _put(cells[number], np.arange(NEAR), near * scale, near_again)
        _put(cells[number], classes, far * scale, far_again)
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


def _put(cells: Floats, classes: NDArray[np.int64], next_in: Floats, again: Floats) -> None:
    """Add the chance of the next record to the cells, split by whether a further one follows.

    `again`: the chance of that, if the next record is there.
    """
    np.add.at(cells, 2 * classes + 1, next_in * again)
    np.add.at(cells, 2 * classes, next_in * (1 - again))


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


def _near(
    windows: Windows, habits: Habits, number: int, edges: Floats
) -> tuple[Floats, Floats]:
    """Shape (NEAR, habits): the chance that the next record is in the same window; and of another.

    The other one is in the sample, too.
    """
    if not windows.competes[number]:
        none = np.zeros((NEAR, len(habits.rate)))
        return none, none
    length = windows.end[number] - windows.start[number]
    left = (1 - _NODES[:, None]) * length
    starts, ends = np.minimum(edges[:-1], left), np.minimum(edges[1:], left)
    before = _faded(habits, starts)
    here = _faded(habits, ends) - before
    to_end = windows.log_end - windows.start[number] - _NODES[:, None] * length
    once = _once(habits.fading, *(x[..., None] for x in (starts, ends, to_end)))
    found = np.where(habits.is_once, once, _arriving(habits, before, here))
    later = _lengths(windows, habits, number)[1].sum(0)
    rest = _faded(habits, left) - before - here + later
    again = np.where(habits.is_once, 0.0, -np.expm1(-habits.rate * rest))
    chance = found.mean(axis=0)
    return chance, (found * again).mean(axis=0) / np.maximum(chance, 1e-300)


def _far(
    windows: Windows, habits: Habits, number: int
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """The later windows, and as `_near` the chances of each of them, shape (later, habits)."""
    later, lengths = _lengths(windows, habits, number)
    middle = windows.middle[number]
    own = (windows.end[number] - middle) * windows.competes[number]
    through = _faded(habits, np.asarray(own)) + np.cumsum(lengths, axis=0)
    starts, ends = windows.start[later] - middle, windows.end[later] - middle
    to_end = np.full(len(later), windows.log_end - middle)
    once = _once(habits.fading, *(x[:, None] for x in (starts, ends, to_end)))
    found = np.where(habits.is_once, once, _arriving(habits, through - lengths, lengths))
    rest = through[-1:] - through
    return later, found, np.where(habits.is_once, 0.0, -np.expm1(-habits.rate * rest))


def _lengths(
    windows: Windows, habits: Habits, number: int
) -> tuple[NDArray[np.int64], Floats]:
    """The later windows that compete, and their faded lengths, shape (later, habits)."""
    later = number + 1 + np.flatnonzero(windows.competes[number + 1 :])
    middle = windows.middle[number]
    ends = _faded(habits, windows.end[later] - middle)
    return later, ends - _faded(habits, windows.start[later] - middle)


def _faded(habits: Habits, distance: Floats) -> Floats:
    """Shape (…, habits): up to a distance of shape (…), the length without fading that counts."""
    fading = np.where(habits.fading > 0, habits.fading, 1.0)
    reached = distance[..., None]
    return np.where(habits.fading > 0, -np.expm1(-fading * reached) / fading, reached)


def _arriving(habits: Habits, before: Floats, length: Floats) -> Floats:
    """The chance that the next record arrives within a faded length, and not before."""
    found: Floats = np.exp(-habits.rate * before) * -np.expm1(-habits.rate * length)
    return found


def _once(fading: Floats, start: Floats, end: Floats, to_end: Floats) -> Floats:
    """The chance that the one record, which arrives within the log, lies in `[start, end)`."""
    reach = np.maximum(to_end, 1.0)
    by_length = (np.exp(-fading * start) - np.exp(-fading * end)) / np.where(
        fading > 0, -np.expm1(-fading * reach), 1.0
    )
    return np.where(fading > 0, by_length, (end - start) / reach)


def _superseded(windows: Windows, habits: Habits, number: int) -> Floats:
    """Shape (habits,): the chance that a record at the window's middle is superseded."""
    middle = windows.middle[number]
    apart = np.asarray(max(0.0, windows.competes_from - middle))
    to_end = np.asarray(windows.log_end - middle)
    length = _faded(habits, to_end) - _faded(habits, apart)
    once = _once(habits.fading, apart, to_end, to_end)
    return np.where(habits.is_once, once, -np.expm1(-habits.rate * length))
