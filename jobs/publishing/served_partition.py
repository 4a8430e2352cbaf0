"""A claimed partition that brokers serve, and one look at it."""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.publishing.look import Look
from tierfold.jobs.pipeline.known_partition import KnownPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPartition:
    """A claimed partition; all of it is of one look."""

    known: KnownPartition
    """Its row, its listing, and what brokers have of it."""
    look: Look
    """The same, as decisions take it; its row is the claimed one."""
    rules: Rules

    @property
    def key(self) -> PartitionKey:
        """The partition's key."""
        return self.known.key
