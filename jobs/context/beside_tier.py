"""The partitions of a tier, as a look at brokers needs them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tierfold.compaction.brokers.broker_view import BrokerView
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideTier:
    """The partitions of a tier that a look compares with what brokers have."""

    listed: Mapping[PartitionKey, Collection[str]]
    """The ids in row and listing of each."""
    asked_by: int | None
    """See `BrokerPartition`."""
    list_again: Callable[[Mapping[PartitionKey, BrokerView]], None]
    """Lists what the first listing lacked of what brokers have; called before they are asked for
    offsets: what they delete after the replay is then below their log start."""
    others: Scope | None = None
    """Also what brokers have of partitions in this scope that the tier lacks; None: not wanted."""
