"""Reads only some batches of a log that a scan has read, in stretches.

    log        | batch | batch | batch | batch | batch | batch | batch |
    chosen         x       x               x                       x
    stretches  |          first stretch          |             |second |

What lies between the chosen batches of a stretch is neither checked nor decoded: it is fetched with
them, except for a large gap, or mapped and not loaded. Every chosen batch's header is compared with
what the scan found, and its checksum as its records are decoded. Stretches do not depend on each
other, so threads can share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.batch_outline import BatchOutline
from tierfold.storage.kafka.batch_headers import BatchHeads, compare_checksums, heads_at
from tierfold.storage.kafka.records import window_share, windows
from tierfold.storage.segments.log_windows import RANGE_BYTES, StoredObject, changed
from tierfold.storage.segments.window import LogWindow, UncheckedWindow
from tierfold.storage.tiers.object_store import MapRange, Spans
from tierfold.storage.tiers.remote_tier import Access

GAP_BYTES: Final = RANGE_BYTES // 2
"""A gap up to this is fetched with the batches around it: so there are at most twice as many
requests as for the whole log."""

SPAN_MAX: Final = 8
"""Of a mapped log, a stretch may span this many times the bytes of a window: gaps cost nothing
there, and each stretch takes a millisecond. Before Linux 5.14 all that it spans is copied."""


def is_choosable(access: Access) -> bool:
    """Whether leaving out batches saves anything: not where logs are decoded in chunks."""
    return access.unit_bytes == 1 and not access.is_in_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Chosen batches of a log; nothing is checked yet."""

    log: StoredObject
    origin: int
    """Position of the first batch in the log."""
    size_bytes: int
    """From the first batch to the end of the last one."""
    source: NDArray[np.uint8] | MapRange
    """These bytes, or what maps them when they are needed."""
    start: NDArray[np.int64]
    """Shape (batches,): where each begins, counted from `origin`."""
    batch_bytes: NDArray[np.int32]
    records: NDArray[np.int32]
    last_offset: NDArray[np.int64]
    """What the scan found of each."""
    first_record: int
    """How many records the chosen batches before have."""

    def windows(self) -> Iterator[UncheckedWindow]:
        """Compare the headers, and cut the batches into windows.

        Raises CorruptLog and UnreadableObject, also if these are not the batches of the scan.
        """
        log, data = self.log, self.source
        log.proceed()
        if not isinstance(data, np.ndarray):
            batches = Spans(self.start, self.start + self.batch_bytes)
            data = data(log.start + self.origin, self.size_bytes, batches)
        heads = heads_at(
            data, self.start, self.batch_bytes, where=log.where, origin=self.origin
        )
        if heads is None:
            raise changed(log.where, self.origin)
        if not self._are_these(heads):
            compare_checksums(data, heads, where=log.where, origin=self.origin)
            raise changed(log.where, self.origin)
        first_record = self.first_record
        for first, last in windows(
            heads, window_bytes=log.window_bytes, batch_bytes_max=log.limits.batch_bytes
        ):
            window = LogWindow(
                data=data,
                heads=heads.slice(first, last),
                origin=self.origin,
                first_record=first_record,
                where=log.where,
                limits=log.limits,
            )
            yield UncheckedWindow(window)
            first_record = window.records_end

    def _are_these(self, heads: BatchHeads) -> bool:
        return np.array_equal(heads.count, self.records) and np.array_equal(
            heads.last_offset, self.last_offset
        )


def chosen_stretches(
    log: StoredObject, outline: BatchOutline, chosen: NDArray[np.bool_]
) -> Iterator[Stretch]:
    """The stretches that hold the chosen batches, in order; none if none is chosen.

    `chosen` has shape (batches of the outline,), which are of magic 2. Records are numbered without
    those of other batches. Raises UnreadableObject and CorruptLog, as the log's reads do.
    """
    rows = np.flatnonzero(chosen)
    size_bytes, records = outline.size_bytes[rows], outline.records[rows]
    last_offset = outline.last_offset[rows]
    end = np.cumsum(outline.size_bytes, dtype=np.int64)[rows]
    start = end - size_bytes
    record_ends = np.cumsum(records, dtype=np.int64)
    map_range = log.access().map_range
    if map_range is not None:  # A stretch is about a window.
        is_plain = np.full(len(rows), outline.record_bytes <= outline.size_bytes.sum())
        shares = window_share(size_bytes.astype(np.int64), records, is_plain)
        span_bytes = SPAN_MAX * log.window_bytes
        cuts = _cuts(start, end, shares, _Limits(log.window_bytes, span_bytes, span_bytes))
    else:
        limits = _Limits(log.range_bytes, log.range_bytes, GAP_BYTES)
        cuts = _cuts(start, end, end - start, limits)
    spans = [(log.start + int(start[a]), int(end[b - 1] - start[a])) for a, b in cuts]
    sources: Iterable[NDArray[np.uint8] | MapRange]
    sources = log.fetched(spans) if map_range is None else repeat(map_range, len(cuts))
    for (a, b), (at, length), source in zip(cuts, spans, sources, strict=True):
        yield Stretch(
            log=log,
            origin=at - log.start,
            size_bytes=length,
            source=source,
            start=start[a:b] - start[a],
            batch_bytes=size_bytes[a:b],
            records=records[a:b],
            last_offset=last_offset[a:b],
            first_record=int(record_ends[a] - records[a]),
        )


class _Limits(NamedTuple):
    """How large a stretch may be, unless it is one batch."""

    share_bytes: int
    """The sum of its batches' shares."""
    span_bytes: int
    """From its first batch to the end of the last one."""
    gap_bytes: int
    """Between two of its batches."""


def _cuts(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    shares: NDArray[np.int64],
    limits: _Limits,
) -> list[tuple[int, int]]:
    """Ranges [first, last) of the chosen batches that form a stretch."""
    turns = np.append(np.flatnonzero(start[1:] - end[:-1] > limits.gap_bytes) + 1, len(start))
    reached = np.cumsum(shares)
    cuts = []
    first = 0
    while first < len(start):
        before = reached[first] - shares[first]
        last = min(
            int(np.searchsorted(reached, before + limits.share_bytes, side="right")),
            int(np.searchsorted(end, start[first] + limits.span_bytes, side="right")),
            int(turns[np.searchsorted(turns, first, side="right")]),
        )
        cuts.append((first, max(last, first + 1)))
        first = cuts[-1][1]
    return cuts
