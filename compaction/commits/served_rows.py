"""What must also hold between rows, for brokers that serve the partition, or may come to.

A retired segment of a served row is known to brokers: they must have dropped it before its objects
go, and they must know that it is gone before the row forgets it (docs/decisions/0013).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

from tierfold.compaction.commits.commit import CommitProposal, FinishDeletion, StartDeletion
from tierfold.compaction.commits.invariants import Invariant, with_ids
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import ConsentKind


def the_cluster_stays(before: PartitionState, after: PartitionState) -> str:
    """A row names at most one cluster, and keeps it: its brokers know the row's segments.

    Only its place or its metadata topic may change, in a commit that notes a person's consent.
    """
    if len(after.served_by) > 1:
        return f"{len(after.served_by)} clusters"
    expected = before.served_by
    given = {consent.kind for consent in after.consents[len(before.consents) :]}
    now = after.cluster
    if now is not None and ConsentKind.MOVED in given:
        expected = tuple(replace(cluster, place=now.place) for cluster in expected)
    if now is not None and ConsentKind.REBUILT in given:
        expected = tuple(
            replace(now, cluster_id=cluster.cluster_id, place=cluster.place)
            for cluster in expected
        )
    if before.served_by and after.served_by != expected:
        return f"{before.served_by} became {after.served_by}"
    return ""


def retired_of_served_rows_never_return(before: PartitionState, after: PartitionState) -> str:
    """On a served row no retired id is ever live again, not even by a restore.

    Its deletion is in the metadata of brokers, or will be: they never take such an id back. Of a
    row that becomes a served one only now, this catalog has sent nothing; one that is served no
    longer has no brokers.
    """
    is_served = before.is_served and after.is_served
    return with_ids("live again", before.retired_ids & after.live_ids if is_served else ())


def what_was_dropped_stays_noted(before: PartitionState, after: PartitionState) -> str:
    """That a tombstone or marker was removed is never forgotten, nor is a consent."""
    if before.has_dropped and not after.has_dropped:
        return "has_dropped became false"
    is_kept = after.consents[: len(before.consents)] == before.consents
    return "" if is_kept else "a consent is lost"


def passes_are_in_order(before: PartitionState, after: PartitionState) -> str:
    """Passes are noted once each, by their epochs, and none of an epoch that is yet to come."""
    epochs = [noted.epoch for noted in after.passes]
    is_rising = all(left < right for left, right in pairwise(epochs))
    return "" if is_rising and max(epochs, default=0) <= after.epoch else f"epochs {epochs}"


def published_passes_stay(before: PartitionState, after: PartitionState) -> str:
    """No horizon counts from an earlier time than before.

    A pass that is noted stays as it is or counts for fewer horizons; until it is published it may
    still grow. Only a restore and `forget` take passes away, so that all horizons begin again.
    """
    known = {noted.epoch: noted for noted in before.passes}
    for noted in after.passes:
        earlier = known.get(noted.epoch)
        if earlier is None or noted.published_at_ms is None:
            continue
        was_open = earlier.published_at_ms is None
        if not was_open and noted.published_at_ms != earlier.published_at_ms:
            return f"epoch {noted.epoch} was published at {earlier.published_at_ms}"
        if earlier.has_spared and not noted.has_spared:
            return f"epoch {noted.epoch} had spared records"
    return ""


def local_ranges_are_in_order(before: PartitionState, after: PartitionState) -> str:
    """Local copies are noted in offset order, go from the head on, and end within the log."""
    for left, right in pairwise(after.local_ranges):
        if left.end_offset >= right.end_offset or left.until_ms > right.until_ms:
            return f"{left} before {right}"
    last = after.local_ranges[-1].end_offset if after.local_ranges else -1
    return "" if last < after.next_offset else f"offset {last} of {after.next_offset}"


SERVED_INVARIANTS: Final[tuple[Invariant, ...]] = (
    the_cluster_stays,
    retired_of_served_rows_never_return,
    what_was_dropped_stays_noted,
    passes_are_in_order,
    published_passes_stay,
    local_ranges_are_in_order,
)
"""They hold after every change of a row."""


def deletion_invariants(proposal: CommitProposal) -> tuple[Invariant, ...]:
    """What the proposal may mark and forget on a served row, by what it says of brokers."""
    dropped: set[str] = set()
    done: set[str] = set()
    for update in proposal.updates:
        if isinstance(update, StartDeletion):
            dropped |= update.listed | update.never_named
        elif isinstance(update, FinishDeletion):
            done |= update.gone | update.never_named

    def brokers_dropped_what_is_marked(before: PartitionState, after: PartitionState) -> str:
        marked = after.marked_ids - before.marked_ids if after.is_served else frozenset()
        return with_ids("brokers may serve", marked - dropped)

    def brokers_know_what_is_gone(before: PartitionState, after: PartitionState) -> str:
        left = before.retired_ids - after.named_ids if after.is_served else frozenset()
        return with_ids("brokers may name", left - done)

    return brokers_dropped_what_is_marked, brokers_know_what_is_gone
