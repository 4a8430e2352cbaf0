"""The rewrite of a segment up to where an election cut the log off: all records up to there stay.

Rule: Kafka `RemoteLogManager.getLeaderEpochCheckpoint`, which cuts the checkpoint of an upload so.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tierfold.compaction.cleaning.record_retention import RoundRules, producer_pairs
from tierfold.compaction.cleaning.rounds import GroupTask
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.units import LOG_BYTES_MAX
from tierfold.compaction.planning.grouping import SegmentGroup


def cut_task(
    row: PartitionState,
    source: Segment,
    aborted: Iterable[AbortedTransaction],
    fingerprint: int,
) -> GroupTask:
    """The task that writes `source` up to its end offset, which lies before that of its log.

    `row`: claimed; it has the segment as live. `aborted`: what its transaction index lists, by
    marker offset; one whose marker was cut off is left out: the new leader decides it.
    """
    rules, index = Rules(), [one.segment_id for one in row.segments].index(source.segment_id)
    data, markers = producer_pairs((), now_ms=0, expiration_ms=0)
    return GroupTask(
        key=row.key,
        group_index=0,
        group=SegmentGroup(segments=(source,), is_for_brokers=True),
        rules=RoundRules(
            now_ms=0,
            delete_retention_ms=rules.delete_retention_ms,
            remote_end=row.next_offset,
            last_data_offsets=data,
            marker_epochs=markers,
            keeps_all=True,
        ),
        aborted=(),
        discardable=np.empty(0, np.int64),
        listed=tuple(aborted),
        ends_in_batch=True,
        run=row.owner_run,
        fingerprint=fingerprint,
        index_interval_bytes=rules.index_interval_bytes,
        record_bytes_max=rules.max_decompressed_message_bytes,
        is_restored=True,
        output_bytes_max=LOG_BYTES_MAX,
        must_be_one=True,
        is_cut=True,
        preceding=row.segments[index - 1] if index else None,
    )
