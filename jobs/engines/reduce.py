"""Stage 5: the distributed offset map, which finds the superseded records of each key bucket.

All records of a key are in one bucket, so buckets are independent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.key_blocks import head_of, joined_blocks, parts_per_bucket
from tierfold.compaction.cleaning.offset_map import superseded_in_bucket
from tierfold.jobs.engines.rows import Row, RowKind, Worker


class _Kinds(NamedTuple):
    """The two forms of the same content."""

    ordinals: RowKind
    bitmap: RowKind


_SUPERSEDED: Final = _Kinds(RowKind.SUPERSEDED_ORDINALS, RowKind.SUPERSEDED_BITMAP)
_SUPERSEDING: Final = _Kinds(RowKind.SUPERSEDING_ORDINALS, RowKind.SUPERSEDING_BITMAP)

_Blocks: TypeAlias = dict[tuple[int, int], list[tuple[int, bytes]]]
"""(partition index, bucket) → the segment index and the bytes of each block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceStage:
    """KEYS rows → SUPERSEDED_… and SUPERSEDING_… rows; other rows pass through.

    Each row goes to the task that rewrites its segment, or to task 0 if none does. COMPETING rows
    are dropped: the driver has already read them.
    """

    buckets: Mapping[int, int]
    """Number of buckets by partition index."""
    shuffle_partitions: int
    """How many there are; a row is in that of its `task`'s remainder."""
    task_of: Mapping[tuple[int, int], int]
    """(partition index, segment index) → the task of stage 6 that rewrites the segment."""

    def __call__(self, _: Worker, rows: Iterable[Row]) -> Iterator[Row]:
        """Reduce the buckets of one task, those of one shuffle partition at a time.

        Raises RuntimeError if the rows of a shuffle partition are not together.
        """
        blocks: _Blocks = defaultdict(list)
        begun: list[int] = []
        for row in rows:
            number = row.task % self.shuffle_partitions
            if number not in begun[-1:]:
                yield from self._reduced(blocks)
                if number in begun:
                    raise RuntimeError(f"rows of shuffle partition {number} are not together")
                begun.append(number)
            if row.kind is RowKind.KEYS:
                blocks[row.partition_index, row.bucket].append((row.segment_index, row.payload))
            elif row.kind is not RowKind.COMPETING:
                yield self._sent(row)
        yield from self._reduced(blocks)

    def _reduced(self, blocks: _Blocks) -> Iterator[Row]:
        """Reduce the blocks and free them; yield at most two rows per segment."""
        found: dict[tuple[int, int, _Kinds], list[NDArray[np.uint32]]] = defaultdict(list)
        for partition_index, bucket in [*blocks]:
            buckets = self.buckets[partition_index]
            of_bucket = sorted(
                blocks.pop((partition_index, bucket)),
                key=lambda entry: (entry[0], head_of(entry[1]).first_ordinal),
            )
            joined = joined_blocks([block for _, block in of_bucket])
            entries = superseded_in_bucket(joined, buckets, parts_per_bucket(buckets))
            for (segment_index, _), ordinals in zip(of_bucket, entries, strict=True):
                found[partition_index, segment_index, _SUPERSEDED].append(ordinals.superseded)
                found[partition_index, segment_index, _SUPERSEDING].append(ordinals.superseding)
        for (partition_index, segment_index, kinds), pieces in found.items():
            if any(map(len, pieces)):
                kind, payload = _packed(np.concatenate(pieces), kinds)
                yield self._sent(
                    Row(
                        task=0,
                        partition_index=partition_index,
                        segment_index=segment_index,
                        kind=kind,
                        payload=payload,
                    )
                )

    def _sent(self, row: Row) -> Row:
        return replace(row, task=self.task_of.get(row.place, 0))


def _packed(ordinals: NDArray[np.uint32], kinds: _Kinds) -> tuple[RowKind, bytes]:
    """The kind and the payload of the ordinals (at least one): a bitmap, if that is no larger."""
    end = int(ordinals.max()) + 1
    if end > 8 * ordinals.nbytes:
        return kinds.ordinals, ordinals.tobytes()
    bits = np.zeros(end, np.bool_)
    bits[ordinals] = True
    return kinds.bitmap, np.packbits(bits).tobytes()
