"""Which bytes of a partition are read for an estimate: a bounded number of windows.

    log       |-----------|-----------|-----------|-----------|     strata of equal bytes
    windows        [--]     [--]               [--]   [--]          one in each, anywhere in it

A window lies at a place that only its number decides, so a plan can be repeated. The places are
not evenly spaced: keys that come back at a fixed distance would always, or never, fall between
them. Of a partition that is clean in part, half of the windows are for the dirty part, whose
records supersede the others.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from tierfold.compaction.estimation.sources import Sources
from tierfold.compaction.model.segments import Segment

_BATCHES: Final = 6
"""How many batches a window should hold: those at its ends are cut off."""

_WINDOW_BYTES_MAX: Final = 4 * 2**20
_WINDOWS_MIN: Final = 8
_ENTRY_BYTES: Final = 8
"""Of an offset index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBound:
    """How much is read of one partition, at most."""

    windows: int = 128
    """Each is one request."""
    window_bytes: int = 64 * 2**10
    unit_bytes: int = 1
    """A window begins and ends where such a unit does, as each is read whole."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all windows."""
        return self.windows * self.window_bytes

    def for_batches(self, batch_bytes: int, unit_bytes: int) -> SampleBound:
        """The bound for a log with batches of such a size, stored in units of so many bytes.

        Windows become larger and fewer: together they have as many bytes, as long as eight of
        them fit.
        """
        wanted = max(self.window_bytes, unit_bytes, min(_BATCHES * batch_bytes, _WINDOW_BYTES_MAX))
        windows = max(min(_WINDOWS_MIN, self.windows), self.size_bytes // wanted)
        return SampleBound(windows=windows, window_bytes=wanted, unit_bytes=unit_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWindow:
    """Bytes of one segment's `.log`."""

    segment: Segment
    start: int
    size_bytes: int

    @property
    def is_at_batch(self) -> bool:
        """Whether a batch is known to begin at its start."""
        return self.start == self.segment.skipped_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSample:
    """What is read of a partition."""

    windows: tuple[PlannedWindow, ...]
    """In offset order."""
    has_all: bool
    """Whether that is all of it."""
    has_all_dirty: bool
    """Whether that is all of the part whose records supersede others."""


def planned_sample(
    sources: Sources,
    bound: SampleBound = SampleBound(),
    unit_bytes: int = 1,
    *,
    knows_clean: bool = False,
) -> PlannedSample:
    """What to read of a partition, within the bound.

    `unit_bytes`: in units of so many bytes logs are stored. `knows_clean`: key indexes stand for
    the clean part, and all windows are for the dirty one.
    """
    bound = bound.for_batches(_batch_bytes(sources.segments), unit_bytes)
    clean, dirty = sources.clean, sources.dirty
    if not clean or not dirty:
        windows, has_all = _windows(sources.segments, bound)
        return PlannedSample(windows=windows, has_all=has_all, has_all_dirty=has_all or not dirty)
    if knows_clean:
        windows, has_all = _windows(dirty, bound)
        return PlannedSample(windows=windows, has_all=False, has_all_dirty=has_all)
    half = replace(bound, windows=bound.windows // 2)
    of_dirty, all_dirty = _windows(dirty, half)
    of_clean, all_clean = _windows(clean, half)
    return PlannedSample(
        windows=(*of_clean, *of_dirty), has_all=all_dirty and all_clean, has_all_dirty=all_dirty
    )


def _batch_bytes(segments: Sequence[Segment]) -> int:
    """The bytes of a batch, about: an offset index has an entry per batch, or per 4 KB.

    0: unknown, as the indexes are empty.
    """
    entries = sum(segment.offset_index_bytes // _ENTRY_BYTES for segment in segments)
    return sum(segment.size_bytes for segment in segments) // entries if entries else 0


def _windows(
    segments: Sequence[Segment], bound: SampleBound
) -> tuple[tuple[PlannedWindow, ...], bool]:
    """The windows of a part of the log, and whether they are all of it."""
    total = sum(segment.size_bytes for segment in segments)
    if len(segments) <= bound.windows and total <= bound.size_bytes:
        whole = [
            PlannedWindow(segment=one, start=one.skipped_bytes, size_bytes=one.size_bytes)
            for one in segments
        ]
        return tuple(whole), True
    return tuple(_apart(segments, bound)), False


def _apart(segments: Sequence[Segment], bound: SampleBound) -> Iterator[PlannedWindow]:
    """One window in each stratum, none of which share bytes."""
    ends = list(accumulate(segment.size_bytes for segment in segments))
    stratum = ends[-1] / bound.windows
    room = max(0.0, stratum - bound.window_bytes)
    last: PlannedWindow | None = None
    for number in range(bound.windows):
        place = min(int(number * stratum + _fraction(number) * room), ends[-1] - 1)
        at = bisect_right(ends, place)
        segment = segments[at]
        # Towards the segment's end a window moves back, so that it is as long as the others.
        latest = max(0, segment.size_bytes - bound.window_bytes)
        within = min(place - (ends[at] - segment.size_bytes), latest)
        unit = (segment.skipped_bytes + within) // bound.unit_bytes * bound.unit_bytes
        start, end = max(segment.skipped_bytes, unit), unit + bound.window_bytes
        if last is not None and last.segment == segment:
            start = max(start, last.start + last.size_bytes)
        size_bytes = min(end, segment.log_bytes) - start
        if size_bytes > 0:
            last = PlannedWindow(segment=segment, start=start, size_bytes=size_bytes)
            yield last


def _fraction(number: int) -> float:
    """A number in [0, 1) that looks random, always the same for `number`."""
    digest = hashlib.blake2b(number.to_bytes(8, "big"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
