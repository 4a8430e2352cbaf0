"""An aborted transaction, as a segment's transaction index lists it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """One entry of a `.txnindex` (Kafka `AbortedTxn`)."""

    producer_id: int
    first_offset: int
    """The transaction's first data offset."""
    last_offset: int
    """The offset of its ABORT marker."""
    last_stable_offset: int
    """The last stable offset after the marker."""


def reaching(
    aborted: Iterable[AbortedTransaction], start_offset: int, end_offset: int
) -> tuple[AbortedTransaction, ...]:
    """The transactions with an offset in `[start_offset, end_offset]`."""
    return tuple(
        transaction
        for transaction in aborted
        if transaction.first_offset <= end_offset and transaction.last_offset >= start_offset
    )
