"""The row of a partition whose lost metadata is named again: which metadata topic it notes.

Until all is named again it notes the topic as it was, by which every other verb refuses it. So a
run that is killed leaves a row that only `rebuild` goes on with.

Rule: PUBLISHING 2.1, 2.2, 6.6.
"""

from __future__ import annotations

from dataclasses import replace

from tierfold.compaction.commits.commit import NoteRebuilt
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import NO_TOPIC, Consent, ConsentKind, ServingCluster


def with_metadata_of(row: PartitionState | None, found: ServingCluster) -> PartitionState | None:
    """The row as if it had noted the metadata topic of `found`, the same cluster.

    So that whatever else it notes is compared all the same. A row of another cluster stays as it
    is. `found.metadata_start`: where the metadata partition with its events begins.
    """
    if row is None or row.cluster is None or row.cluster.cluster_id != found.cluster_id:
        return row
    return replace(row, served_by=(replace(found, place=row.cluster.place),))


def row_to_claim(
    before: PartitionState | None, row: PartitionState, found: ServingCluster
) -> PartitionState:
    """The row as the claim writes it: with the metadata topic that it noted before.

    `before`: the row as it was read; one that noted no cluster notes none of its topics, which
    refuses it just the same. `row`: as it will be, with `found`.
    """
    noted = None if before is None else before.cluster
    unknown = replace(found, metadata_topic_id=NO_TOPIC, metadata_start=0)
    return with_metadata_of(row, noted or unknown) or row


def rebuilt(
    row: PartitionState, found: ServingCluster, *, at_ms: int, run: str
) -> NoteRebuilt | None:
    """The change of a served row once all is named again; None: it notes the topic as it is.

    `row`: as its claim wrote it; `found`: as of `with_metadata_of`; `at_ms`: epoch milliseconds.
    """
    after = with_metadata_of(row, found)
    if after is None or after.cluster is None or after == row:
        return None
    consent = Consent(kind=ConsentKind.REBUILT, given_at_ms=at_ms, run=run)
    return NoteRebuilt(cluster=after.cluster, consent=consent)
