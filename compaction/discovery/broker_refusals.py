"""The refusal of a partition whose cluster is not set up for compaction."""

from __future__ import annotations

from collections.abc import Sequence

from tierfold.compaction.brokers.preconditions import SetupRefusal
from tierfold.compaction.discovery.view import Refusal, RefusalReason


def refusal_of_setup(found: Sequence[SetupRefusal]) -> Refusal | None:
    """One refusal for all of them; None: there are none.

    Each detail ends with its code in brackets; remedies that are the same are said once.
    """
    if not found:
        return None
    return Refusal(
        reason=RefusalReason.PRECONDITION,
        detail="; ".join(f"{one.detail} [{one.code}]" for one in found),
        remedy=" ".join(dict.fromkeys(one.remedy for one in found)),
    )
