"""The producers' state at any offset of a log, from a snapshot and the batches after it.

Rule: Kafka `ProducerAppendInfo` and `ProducerStateEntry`, by which a broker rebuilds its state from
a log. Only needed where one segment becomes several: a snapshot says which transactions are open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.transactions import is_marker
from tierfold.compaction.model.producers import NO_DATA_OFFSET, ProducerEntry
from tierfold.compaction.model.units import NO_PRODUCER_ID
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.batch_layout import NO_SEQUENCE
from tierfold.storage.kafka.control_records import coordinator_epoch
from tierfold.storage.kafka.records import Records

_SEQUENCES: Final = 2**31  # Sequence numbers wrap to 0 (Kafka `DefaultRecordBatch`).


EndMarkers: TypeAlias = Mapping[int, int | None]
"""By batch that ends a transaction: the epoch of its coordinator; None: it has none."""


def end_markers_of(records: Records, types: NDArray[np.int16]) -> EndMarkers:
    """The end markers of batches; `types` has shape (batches,), as `control_types` gives it."""
    ends = np.flatnonzero(is_marker(types)).tolist()
    return {batch: _coordinator(records, batch) for batch in ends}


def _coordinator(records: Records, batch: int) -> int | None:
    marker = int(records.first_record[batch])
    at, size_bytes = int(records.value_at[marker]), int(records.value_bytes[marker])
    value = None if size_bytes < 0 else records.body[at : at + size_bytes].tobytes()
    return coordinator_epoch(value)


class ProducerReplay:
    """The producers' state after the batches so far."""

    def __init__(self, entries: Iterable[ProducerEntry]) -> None:
        self.restart(entries)

    def restart(self, entries: Iterable[ProducerEntry]) -> None:
        """Go on from a snapshot: it also has producers whose batches an earlier round dropped."""
        self._entries = {entry.producer_id: entry for entry in entries}

    @property
    def entries(self) -> tuple[ProducerEntry, ...]:
        """All producers, by id."""
        return tuple(self._entries[producer_id] for producer_id in sorted(self._entries))

    def add(self, heads: BatchHeads, markers: EndMarkers) -> None:
        """Take the next batches, and the end markers among them.

        A loop over batches: it runs only over a log that becomes too large for one segment.
        """
        for batch in np.flatnonzero(heads.producer_id != NO_PRODUCER_ID).tolist():
            if not heads.is_control[batch]:
                self._add_data(heads, batch)
            elif batch in markers:
                self._add_marker(heads, batch, markers[batch])

    def _entry(self, heads: BatchHeads, batch: int) -> ProducerEntry:
        """The producer's entry under the batch's epoch; another epoch knows no data batch."""
        producer_id, epoch = int(heads.producer_id[batch]), int(heads.producer_epoch[batch])
        known = self._entries.get(producer_id)
        if known is not None and known.epoch == epoch:
            return known
        return ProducerEntry(
            producer_id=producer_id,
            epoch=epoch,
            last_sequence=NO_SEQUENCE,
            last_data_offset=NO_DATA_OFFSET,
            last_offset_delta=0,
            last_timestamp_ms=-1 if known is None else known.last_timestamp_ms,
            coordinator_epoch=-1 if known is None else known.coordinator_epoch,
            current_txn_first_offset=None if known is None else known.current_txn_first_offset,
        )

    def _add_data(self, heads: BatchHeads, batch: int) -> None:
        entry = self._entry(heads, batch)
        base_offset, last_offset = int(heads.base_offset[batch]), int(heads.last_offset[batch])
        first_offset = entry.current_txn_first_offset
        if first_offset is None and heads.is_transactional[batch]:
            first_offset = base_offset
        delta = last_offset - base_offset
        base_sequence = int(heads.base_sequence[batch])
        has_sequence = base_sequence != NO_SEQUENCE
        self._entries[entry.producer_id] = replace(
            entry,
            last_sequence=(base_sequence + delta) % _SEQUENCES if has_sequence else NO_SEQUENCE,
            last_data_offset=last_offset,
            last_offset_delta=delta,
            last_timestamp_ms=int(heads.max_timestamp_ms[batch]),
            current_txn_first_offset=first_offset,
        )

    def _add_marker(self, heads: BatchHeads, batch: int, coordinator: int | None) -> None:
        entry = self._entry(heads, batch)
        self._entries[entry.producer_id] = replace(
            entry,
            last_timestamp_ms=int(heads.max_timestamp_ms[batch]),
            coordinator_epoch=entry.coordinator_epoch if coordinator is None else coordinator,
            current_txn_first_offset=None,
        )
