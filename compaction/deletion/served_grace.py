"""Whether a grace period is long enough for a partition that brokers serve (PUBLISHING 3.6).

A run that was suspended may send an event late, and brokers would then name again what was deleted
since. So they must refuse such an event well before the grace period is over.
"""

from __future__ import annotations

from typing import Final

from tierfold.compaction.brokers.cluster_facts import ClusterSetup
from tierfold.compaction.brokers.preconditions import late_sends
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.wording import duration
from tierfold.compaction.publishing.look import PUBLISHING_GRACE_MS

_MINUTE_MS: Final = 60_000
TIMEOUTS_IN_GRACE: Final = 60
"""How many times `message.timeout.ms` the grace period of a served tier is, at least."""


def least_grace_ms(message_timeout_ms: int) -> int:
    """The least grace period where brokers serve a partition; both are milliseconds."""
    return max(PUBLISHING_GRACE_MS, TIMEOUTS_IN_GRACE * message_timeout_ms)


def grace_refusal(
    setup: ClusterSetup, row: PartitionState, grace_ms: int, least_ms: int
) -> Refusal | None:
    """Why nothing is deleted after so short a grace period; None: it will do, or is not needed.

    `setup`: of the cluster that serves the partition; `grace_ms`: the period, `least_ms`: of
    `least_grace_ms`.
    """
    if not row.is_served:
        return None
    if grace_ms < least_ms:
        return Refusal(
            reason=RefusalReason.GRACE_TOO_SHORT,
            detail=f"the grace period is {duration(grace_ms)}, and brokers serve the partition: a"
            " suspended run may send an event later than that",
            remedy=f"Set --grace-period {-(-least_ms // _MINUTE_MS)}m, or more.",
        )
    late = late_sends(setup, grace_ms)
    if late is None:
        return None
    return Refusal(
        reason=RefusalReason.PRECONDITION,
        detail=f"the grace period is {duration(grace_ms)}, and {late.detail} [{late.code}]",
        remedy=f"{late.remedy} A longer --grace-period will do, too, at least twice that value.",
    )
