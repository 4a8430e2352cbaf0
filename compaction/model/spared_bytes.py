"""Superseded bytes that rounds left in live segments, because a rewrite would save too little.

`min.rewrite.gain` and `min.rewrite.bytes` let a round leave superseded records where they are. Such
a record lies below the cleaner offset, and so does the one that superseded it: no later round would
compare the two. So the row remembers, beside a segment, how much was left and since which offset.
What rounds leave adds up, and no more than the settings allow is ever left. Once half of that is
reached, the next round compares everything from that offset on, and removes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment, SparedBytes


def is_worth_rewriting(saved_bytes: float, size_bytes: int, rules: Rules) -> bool:
    """Whether a rewrite that saves so many bytes, of so many, saves what both settings demand."""
    share = rules.min_rewrite_gain * max(1, size_bytes)
    return saved_bytes >= share and saved_bytes >= rules.min_rewrite_bytes


def spared_of(entries: Iterable[SparedBytes], segment_id: str) -> SparedBytes | None:
    """What was spared in the segment; None: nothing."""
    return next((entry for entry in entries if entry.segment_id == segment_id), None)


def spared_sum(entries: Iterable[SparedBytes]) -> int:
    """An upper bound of the superseded bytes in all segments."""
    return sum(entry.superseded_bytes for entry in entries)


def compared_from(
    entries: Iterable[SparedBytes], segments: Iterable[Segment], rules: Rules
) -> int | None:
    """The offset from which a round must compare records to remove what was left; None: not yet.

    Half of the limit is enough: then a round that reads so much more removes as much, and rounds
    between two of them leave as much again.
    """
    sizes = {segment.segment_id: segment.size_bytes for segment in segments}
    return min(
        (
            entry.since_offset
            for entry in entries
            if entry.segment_id in sizes
            and is_worth_rewriting(2 * entry.superseded_bytes, sizes[entry.segment_id], rules)
        ),
        default=None,
    )
