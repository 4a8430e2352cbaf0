"""A producer's state at the end of a segment, as the producer snapshot stores it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_DATA_OFFSET: Final = -1
"""In `ProducerEntry.last_data_offset`: no data batch of this producer is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerEntry:
    """One entry of a `.snapshot` (Kafka `ProducerStateEntry`)."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_data_offset: int
    """The last offset of its newest data batch, `NO_DATA_OFFSET` if it has none."""
    last_offset_delta: int
    """That batch's last offset minus its base offset."""
    last_timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int | None
    """The first offset of its open transaction; None: none is open."""
