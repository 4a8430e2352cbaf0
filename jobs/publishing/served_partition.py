"""A claimed partition that brokers serve, as one look showed it."""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.publishing.look import Look
from tierfold.jobs.pipeline.known_partition import KnownPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPartition:
    """What a run knows of a partition when it decides what to do next for its brokers."""

    known: KnownPartition
    """Its row, its listing and what brokers have, of one reading."""
    look: Look
    """The same reading as the next step is derived from it; its row is the claimed one."""
    rules: Rules
    """The topic's settings."""
