"""What a metadata topic that has lost records no longer says of a partition.

    metadata_lost     whether it has lost records since the row noted it
    is_known_since    whether "never named" shows that brokers were never sent a segment
    perhaps_named     segments of runs that it may have named, where no row says what they are

Rule: PUBLISHING 2.2, 2.3, 2.8, 6.2.
"""

from __future__ import annotations

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.identity import LOST_METADATA
from tierfold.compaction.discovery.view import Refusal, RefusalReason, first_few
from tierfold.compaction.model.segments import PartitionState


def metadata_lost(row: PartitionState | None, brokers: BrokerPartition) -> bool:
    """Whether the metadata topic has lost events since the row named it, and none named them again.

    What it says is then not all that brokers have (PUBLISHING 2.2). Of a row that was never
    published, brokers have what they uploaded, and each object of that must be named.
    """
    cluster = None if row is None else row.cluster
    return cluster is not None and brokers.metadata_start > cluster.metadata_start


def lost_refusal(facts: PartitionFacts, brokers: BrokerPartition) -> Refusal | None:
    """The refusal if the metadata topic has lost records since; None: it has not."""
    if not metadata_lost(facts.state, brokers):
        return None
    return Refusal(
        reason=RefusalReason.METADATA_LOST,
        detail=f"{METADATA_TOPIC} begins at offset {brokers.metadata_start} where it should have"
        " what brokers said of this partition: earlier records are lost",
        remedy=LOST_METADATA,
    )


def is_known_since(row: PartitionState | None, metadata_start: int, made_ms: int) -> bool:
    """Whether the metadata topic says all that brokers were ever sent of what a run made then.

    `metadata_start`: where its partition begins. Above 0, or where the row was rebuilt, earlier
    records are lost, and a rebuild has not named again what no row names.
    """
    rebuilt_at_ms = -1 if row is None else row.rebuilt_at_ms
    is_whole = metadata_start == 0 and rebuilt_at_ms < 0
    return is_whole or 0 <= rebuilt_at_ms < made_ms


def perhaps_named(
    facts: PartitionFacts, brokers: BrokerPartition, row: PartitionState | None
) -> Refusal | None:
    """Whole segments of runs that a truncated metadata topic may have named: they may be live."""
    named = frozenset[str]() if row is None else row.named_ids
    found = [
        one.listed
        for one in facts.left_alone
        if one.is_ours
        and one.listed.is_complete
        and one.listed.segment_id not in named
        and not is_known_since(row, brokers.metadata_start, one.listed.modified_ms)
    ]
    if not found:
        return None
    return Refusal(
        reason=RefusalReason.METADATA_LOST,
        detail=f"{METADATA_TOPIC} has lost earlier records, and may have named"
        f" {first_few([str(one) for one in found])}, whole and written by runs of tierfold:"
        " nothing else may have their records",
        remedy="Bring back the catalog that names them; then `tierfold rebuild TIER`, with the same"
        " brokers. If you know that runs which died left them, move them out of the tier and keep"
        " them; then run this again.",
    )
