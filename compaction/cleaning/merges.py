"""The rewrite of a merge: every record stays, and the transaction indexes are joined.

Aborted records stay, too: the new index lists what the sources' indexes listed, so that readers
leave out the same (SWAP.md 1).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tierfold.compaction.cleaning.rounds import GroupTask, Round, group_tasks
from tierfold.compaction.cleaning.transactions import TransactionStatus
from tierfold.compaction.model.segment_ids import is_restored_id
from tierfold.compaction.model.units import LOG_BYTES_MAX


def merge_task(work: Round) -> GroupTask:
    """The task of a merge's only group, which becomes one segment, however large, or fails.

    Cut in several, it could leave in each of them what shares offsets with the same upload, and be
    asked for again. `work.aborted`: of the indexes of its sources, each from its effective start on
    (`segment_metadata.read_aborted`). What a replacement left of a transaction that an upload over
    its offsets still lists may lack the marker: readers would leave out what the producer wrote
    after it.
    """
    joined = tuple(sorted(work.aborted, key=lambda transaction: transaction.last_offset))
    status = TransactionStatus(
        discardable=np.empty(0, np.int64), listed=joined, unindexed=()
    )
    (task,) = group_tasks(
        work, status, wanted=dict(enumerate(work.groups)), plain={}, unscanned={}
    )
    return replace(
        task,
        rules=replace(task.rules, keeps_all=True),
        fpp=None,
        output_bytes_max=LOG_BYTES_MAX,
        must_be_one=True,
        # It is published in the order of a restore, as its sources would be.
        is_restored=any(is_restored_id(one.segment_id) for one in task.group.segments),
    )
