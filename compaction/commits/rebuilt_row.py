"""The row of a partition whose lost metadata is named again: it notes the topic as it is now.

Rule: PUBLISHING 2.1, 2.2, 6.6.
"""

from __future__ import annotations

from dataclasses import replace

from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import Consent, ConsentKind, ServingCluster


def with_metadata_of(row: PartitionState | None, found: ServingCluster) -> PartitionState | None:
    """The row as if it had noted the metadata topic that its cluster has now.

    So that whatever else it notes is compared all the same. A row of another cluster stays as it
    is. `found.metadata_start`: where the metadata partition with its events begins.
    """
    if row is None or row.cluster is None or row.cluster.cluster_id != found.cluster_id:
        return row
    return replace(row, served_by=(replace(found, place=row.cluster.place),))


def rebuilt_row(
    row: PartitionState,
    before: PartitionState | None,
    found: ServingCluster,
    *,
    at_ms: int,
    run: str,
) -> PartitionState:
    """The row, of a served partition, as the claim writes it: with the topic, and since when.

    `before`: the row as it was read; `found`: as of `with_metadata_of`.
    """
    after = with_metadata_of(row, found) or row
    if before is None or with_metadata_of(before, found) == before:
        return after
    consent = Consent(kind=ConsentKind.REBUILT, given_at_ms=at_ms, run=run)
    return replace(after, consents=(*after.consents, consent))
