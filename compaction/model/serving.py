"""What a row says for the brokers that serve the partition (docs/decisions/0013).

What brokers *have* is never stored: the replay of their metadata says it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NO_TOPIC: Final = "A" * 22
"""As a metadata topic's id: none is noted yet. Kafka's `Uuid.ZERO_UUID`, which no topic has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCluster:
    """A cluster whose brokers serve the partition from its tier."""

    cluster_id: str
    metadata_topic_id: str
    """The id of its `__remote_log_metadata` topic, as Kafka prints a `Uuid`."""
    metadata_partitions: int
    """How many partitions that topic has: they decide in which one an event stands."""
    place: str
    """Where the tier was when the row noted the cluster: a folder, or the URI of a prefix."""
    metadata_start: int = 0
    """The first offset of the metadata partition that holds the partition's events: what stood
    before was lost, and `rebuild` has named again what is in the tier; 0: nothing was lost."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Pass:
    """The rounds that one run committed under one epoch, as consumers come to see them."""

    epoch: int
    """The compaction epoch."""
    horizon_ms: int | None
    """The latest delete horizon that counts from it, epoch milliseconds; None: all that no earlier
    pass has, because it is the newest (`model.passes`)."""
    published_at_ms: int | None
    """When the publication of its last round was read back, epoch milliseconds; None: not yet."""
    has_spared: bool
    """Whether it left a record that a tombstone or marker hides: no horizon counts from it."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LocalRange:
    """Until when a broker can have had local copies of a range of offsets."""

    end_offset: int
    """The range's last offset; it begins after the range before, or at the log start."""
    until_ms: int
    """Epoch milliseconds."""


class ConsentKind(StrEnum):
    """What a person agreed to."""

    DETACHED = "detached"
    """The cluster that the row names is no more: no broker serves the tier."""
    ADOPTED = "adopted"
    """The row takes over what brokers have: its catalog was lost, set back, or is another's."""
    DELETED_KEYS = "deleted keys"
    """Readers on their way may keep deleted keys when the row is first published: tombstones went
    before."""
    MOVED = "moved"
    """The tier stands elsewhere than the row noted: it moved, or is mounted elsewhere."""
    REBUILT = "rebuilt"
    """The cluster's metadata topic was lost: what is in the tier was named again."""
    LEFT_ALONE = "left alone"
    """Segments that brokers never had are no part of the log: never read, never deleted."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Consent:
    """A person's agreement to what tierfold refuses otherwise."""

    kind: str
    """A `ConsentKind`."""
    given_at_ms: int
    """Epoch milliseconds."""
    run: str
    """The run that took it."""
    segment_ids: tuple[str, ...] = ()
    """The segments that it is about, if it is `LEFT_ALONE`: those that were there then."""
