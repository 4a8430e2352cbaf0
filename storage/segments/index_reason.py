"""Whether a segment that loses no record is rewritten for its indexes.

One that is wrong is built again. Its form shows that, or a batch that it does not lead to: the
batches are known from the rewrite, if it has read them, otherwise from the scan's outline. If that
was too large to be sent, the scan itself has checked the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.batch_outline import BatchOutline
from tierfold.compaction.cleaning.group_outcome import RewriteReason, reason_after_reading
from tierfold.compaction.cleaning.rounds import GroupTask
from tierfold.compaction.model.segments import Segment
from tierfold.storage.segments.segment_metadata import has_corrupt_index, read_aborted
from tierfold.storage.segments.window import LogWindow
from tierfold.storage.tiers.remote_tier import RemoteTier

Batches: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Position and last offset of all batches of a log, at least one; shape (batches,) each."""


def outlined_batches(segment: Segment, outline: BatchOutline | None) -> Batches | None:
    """The batches of a scanned segment; None: its outline was too large, or its log is cut."""
    if outline is None or segment.skipped_bytes:
        return None
    sizes = outline.size_bytes.astype(np.int64)
    return np.cumsum(sizes) - sizes, outline.last_offset


def passed_batches(segment: Segment, windows: Sequence[LogWindow]) -> Batches | None:
    """The batches of a log of which these are all windows; None: there is none, or it is cut."""
    if not windows or segment.skipped_bytes:
        return None
    position = [window.heads.position + window.origin for window in windows]
    last_offset = [window.heads.last_offset for window in windows]
    return np.concatenate(position), np.concatenate(last_offset)


def reason_in_indexes(
    tier: RemoteTier, task: GroupTask, due_ms: int | None, batches: Batches | None
) -> RewriteReason | None:
    """Why the group is rewritten for its only source's indexes; all its batches are copied.

    `due_ms`: the earliest delete horizon of a batch. Raises CorruptLog and UnreadableObject.
    """
    (segment,) = task.group.segments
    return reason_after_reading(
        segment,
        indexed=read_aborted(tier, task.key, segment),
        listed=task.listed,
        has_corrupt_index=has_corrupt_index(tier, task.key, segment, batches),
        due_ms=due_ms,
    )
