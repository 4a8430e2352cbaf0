"""Stage 6 of a merge: rewrites its group in this process, without a scan.

A merge keeps every record, so no keys are compared. What is rewritten is checked and committed as
any round is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.merges import merge_task
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.planning.merges import too_large
from tierfold.jobs.engines.rows import cause_of
from tierfold.jobs.engines.scan import summed
from tierfold.jobs.pipeline.round_execution import RoundResult
from tierfold.storage.segments.group_output import TooLarge
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.segments.log_windows import unasked
from tierfold.storage.tiers.remote_tier import RemoteTier

NOTHING_SUPERSEDED: Final[NDArray[np.uint8]] = np.empty(0, np.uint8)
"""The bits of a segment all of whose records stay."""


def merged(
    tier: RemoteTier, work: Round, proceed: Callable[[], None] = unasked
) -> RoundResult:
    """Rewrite the group of a claimed merge; an error becomes the result's failure.

    `proceed` is called before each window, and may raise what is no Exception.
    """
    result = RoundResult(round=work)
    try:
        receipt = rewrite_group(
            tier, merge_task(work), lambda _: NOTHING_SUPERSEDED, proceed=proceed
        )
    except TooLarge:
        return replace(result, failure=f"{work.key}: {too_large(work.groups[0])}")
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        return result.stopped(cause_of(error, str(work.key)))
    counts = receipt.counts
    return replace(
        result,
        # What must come out: nothing else was read that the receipt could be compared with.
        scan=replace(summed(()), records=counts.kept, record_bytes=counts.kept_bytes),
        receipts=(receipt,),
        bytes_read=receipt.bytes_read,
        bytes_written=sum(size for one in receipt.written for _, size in one.stored),
    )
