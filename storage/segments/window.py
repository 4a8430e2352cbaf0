"""Batches of a log that are decoded together, before and after their checksums are compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tierfold.storage.kafka.batch_headers import BatchHeads, compare_checksums
from tierfold.storage.kafka.compression import USUAL_LIMITS, PlainLimits
from tierfold.storage.kafka.control_records import control_types
from tierfold.storage.kafka.legacy_batches import decode_any, decoded_runs
from tierfold.storage.kafka.record_sizes import refuse_large
from tierfold.storage.kafka.records import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWindow:
    """Batches of a log, in order, all legacy or all magic 2; others may lie between them.

    Their checksums were compared.
    """

    data: NDArray[np.uint8]
    """Bytes of the log that hold the batches, and may hold others, too."""
    heads: BatchHeads
    """Of the batches, with positions in `data`, and what is inside each wrapper."""
    origin: int
    """Position of `data` in the log."""
    first_record: int
    """How many records of the log precede the window, not counting batches that are left out."""
    where: str
    limits: PlainLimits = USUAL_LIMITS

    @property
    def position(self) -> int:
        """Position in the log of the first batch."""
        return self.origin + int(self.heads.position[0])

    @property
    def size_bytes(self) -> int:
        """Stored bytes of the batches."""
        return int(self.heads.size_bytes.sum())

    @property
    def has_gaps(self) -> bool:
        """Whether other batches lie between these."""
        end = self.heads.position[-1] + self.heads.size_bytes[-1]
        return bool(end - self.heads.position[0] != self.size_bytes)

    @property
    def stored(self) -> NDArray[np.uint8]:
        """The batches' bytes, if there are no gaps."""
        start = int(self.heads.position[0])
        return self.data[start : start + self.size_bytes]

    @property
    def records_end(self) -> int:
        """How many records lie before the window's end, counted as in `first_record`."""
        return self.first_record + int(self.heads.count.sum(dtype=np.int64))

    def records(self) -> Records:
        """The records of batches of which `decoded` returned a whole; raises CorruptLog."""
        return decode_any(
            self.data, self.heads, where=self.where, origin=self.origin, limits=self.limits
        )

    def decoded(self, *, check_crc: bool = False) -> Iterator[tuple[LogWindow, Records]]:
        """The window and its records: in several, if they expand to too much for one.

        `check_crc`: see `decode_any`. Raises CorruptLog.
        """
        for first, last, records in decoded_runs(
            self.data,
            self.heads,
            where=self.where,
            origin=self.origin,
            check_crc=check_crc,
            limits=self.limits,
        ):
            is_whole = last - first == len(self.heads)
            yield self if is_whole else self.between(first, last), records

    def control_types(self, records: Records) -> NDArray[np.int16]:
        """See `control_records.control_types`; `records` are the window's."""
        return control_types(records, self.heads, where=self.where, origin=self.origin)

    def refuse_large(
        self, records: Records, is_read: NDArray[np.bool_], most_bytes: int
    ) -> None:
        """See `record_sizes.refuse_large`; `records` are the window's. Raises CorruptLog."""
        refuse_large(
            self.heads, records, is_read, most_bytes, where=self.where, origin=self.origin
        )

    def between(self, first: int, last: int) -> LogWindow:
        """The window of the batches `[first, last)` of this one."""
        before = int(self.heads.count[:first].sum(dtype=np.int64))
        return replace(
            self, heads=self.heads.slice(first, last), first_record=self.first_record + before
        )


@dataclass(frozen=True, slots=True)
class UncheckedWindow:
    """A window of a log before its checksums are compared: nothing is to be concluded from it."""

    _window: LogWindow

    @property
    def heads(self) -> BatchHeads:
        """What the headers claim: enough to find the next batch."""
        return self._window.heads

    @property
    def size_bytes(self) -> int:
        """Stored bytes of the batches."""
        return self._window.size_bytes

    def before(self, batches: int) -> UncheckedWindow:
        """Its first batches, so many, at least one."""
        return UncheckedWindow(self._window.between(0, batches))

    def checked(self) -> LogWindow:
        """The window, once its checksums are compared; raises CorruptLog."""
        window = self._window
        if not window.heads.is_legacy[0]:  # `unchecked_heads` has compared theirs.
            compare_checksums(window.data, window.heads, where=window.where, origin=window.origin)
        return window

    def decoded(self) -> Iterator[tuple[LogWindow, Records]]:
        """As `LogWindow.decoded`, each batch decoded right after its checksum was compared."""
        # Those of legacy batches were compared by `unchecked_heads`.
        return self._window.decoded(check_crc=True)


def decoded_windows(
    windows: Iterable[UncheckedWindow],
) -> Iterator[tuple[LogWindow, Records]]:
    """The windows and their records, see `UncheckedWindow.decoded`; raises CorruptLog."""
    for window in windows:
        yield from window.decoded()
