"""The latest value of each key of one segment, collected window by window as it is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.hash_key import HashKey
from tierfold.compaction.verification.latest_values import (
    Keys,
    LatestValues,
    Values,
    in_buckets,
    latest_in_window,
    latest_of,
)
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.kafka.records import Records
from tierfold.storage.segments.segment_scan import is_aborted_in

LATEST_MAX: Final = 1_000_000
"""Latest values held at a time before they become blocks: 44 bytes each and the key, three times
while they are compared. A segment with more may emit a key several times."""


class LatestCollector:
    """Collects records with a key, without control records and without those in `aborted`.

    An undecided transaction counts as committed, on either side. At most `keys_max` keys, and those
    of one window, are held before they become blocks. `versions` decides between the records of a
    key; `hash_key` is the run's.
    """

    def __init__(
        self,
        aborted: Sequence[AbortedTransaction],
        buckets: int,
        versions: VersionSource,
        hash_key: HashKey,
        keys_max: int = LATEST_MAX,
    ) -> None:
        self._aborted = aborted
        self._buckets = buckets
        self._versions = versions
        self._hash_key = hash_key
        self._keys_max = keys_max
        self._pieces: list[LatestValues] = []
        self._blocks: list[tuple[int, LatestValues]] = []

    def add(self, heads: BatchHeads, records: Records, types: np.ndarray) -> None:
        """Add the decoded records of a window; `types` are its `control_types`."""
        is_aborted, _ = is_aborted_in(heads, types, self._aborted)
        chosen = (~heads.is_control & ~is_aborted)[records.batch] & (records.key_bytes >= 0)
        versions, _malformed = self._versions.versions_of(records, np.flatnonzero(chosen))
        self._pieces.append(
            latest_in_window(
                records.body,
                Keys(records.key_at, records.key_bytes, self._hash_key),
                Values(at=records.value_at, size_bytes=records.value_bytes),
                records.offset,
                chosen,
                versions,
            )
        )
        if sum(len(piece) for piece in self._pieces) >= self._keys_max:
            self._flush()

    def blocks(self) -> tuple[tuple[int, LatestValues], ...]:
        """(bucket, its keys' latest values); a very large segment may have a bucket twice."""
        self._flush()
        return tuple(self._blocks)

    def _flush(self) -> None:
        latest = latest_of(self._pieces)
        self._pieces.clear()
        self._blocks += in_buckets(latest, self._buckets)
