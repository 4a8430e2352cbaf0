"""A partition in scope, before it is inspected, and errors as its refusal."""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.discovery.identity import OfCluster
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    MissingRight,
    TierfoldError,
    unexpected,
)
from tierfold.compaction.model.kept_sums import KeptSums
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.engines.rows import REPORT_BUG
from tierfold.storage.tiers.remote_tier import Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPartition:
    """A partition in scope, before it is inspected."""

    key: PartitionKey
    state: PartitionState | None
    """The catalog's row; None: no row."""
    refusal: Refusal | None
    """Why it must not be inspected."""
    listed: Listing
    """Its listing, newer than the row; empty if that failed, which is the refusal."""
    brokers: BrokerPartition | None = None
    """What brokers have of it, looked at after the listing; None: none were asked."""
    kept: KeptSums | None = None
    """The sums that the catalog keeps of the row's segments; None: it was not read with them."""
    whose: OfCluster = OfCluster.ITS_OWN
    """Whether it is one of the cluster that was asked."""

    @property
    def is_left_alone(self) -> bool:
        """Whether the cluster does not have its topic: nothing of it is read or changed."""
        return self.whose is not OfCluster.ITS_OWN


def left_alone(known: KnownPartition) -> str:
    """Return why nothing of a partition that `is_left_alone` is read or changed, a clause."""
    return f"left alone: {why_absent(known)}"


def why_absent(known: KnownPartition) -> str:
    """Return why the cluster does not have a partition's topic, a clause; empty: it has it."""
    if known.whose is OfCluster.DELETED:
        what_goes = "`tierfold vacuum --publish` deletes what tierfold wrote of it"
        return f"{why_deleted(known)}; {what_goes}"
    return _why_unknown(known)


def why_deleted(known: KnownPartition) -> str:
    """Return that a partition's topic was deleted, and what the cluster says, a clause."""
    return f"the topic with this id was deleted ({_why_unknown(known)})"


def _why_unknown(known: KnownPartition) -> str:
    why = "" if known.brokers is None else known.brokers.why_unknown.removesuffix(".")
    return why[:1].lower() + why[1:]


def refusal_of(error: Exception, where: str) -> Refusal:
    """Turn an error in reading or decoding into the partition's refusal.

    `where`: the place, for errors that do not name it.
    """
    if isinstance(error, TierfoldError):
        return Refusal(
            reason=_reason_of(error),
            detail=f"{error.where}: {error.what}",
            remedy=error.remedy,
        )
    return Refusal(
        reason=RefusalReason.UNREADABLE,
        detail=f"{where}: {unexpected(error)}",
        remedy=REPORT_BUG,
    )


def _reason_of(error: TierfoldError) -> RefusalReason:
    match error:
        case CorruptLog():
            return RefusalReason.CORRUPT
        case MissingRight():
            return RefusalReason.RIGHT_MISSING
        case BadSettings():
            return RefusalReason.BAD_SETTINGS
        case _:
            return RefusalReason.UNREADABLE
