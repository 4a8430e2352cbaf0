"""What `vacuum` deletes of a partition, with its objects in the listing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tierfold.compaction.deletion.deletion_plan import DeletionPlan
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.verbs.vacuum_outcome import DeletionCandidate, Kind


def candidates_of(
    context: RunContext, listed_segments: Iterable[ListedSegment], deletion: DeletionPlan
) -> Iterator[DeletionCandidate]:
    """Everything to delete; `listed_segments`: those of the row that the listing shows."""
    key, listed = deletion.key, {segment.segment_id: segment for segment in listed_segments}
    expired = {one.segment.segment_id: one.reason for one in deletion.expired}
    for gone in (*deletion.going, *deletion.starting):
        found = listed.get(gone.segment.segment_id)
        why = f"retired at {timestamp_text(gone.retired_at_ms)} by run {gone.retired_by_run}"
        if (reason := expired.get(gone.segment.segment_id)) is not None:
            why = f"live until now: {reason}"
        if gone.deletion_started_at_ms is not None:
            why += f", deletion started at {timestamp_text(gone.deletion_started_at_ms)}"
        yield DeletionCandidate(
            kind=Kind.RETIRED,
            why=why,
            segment_id=gone.segment.segment_id,
            objects=() if found is None else context.tier.objects_of(key, found),
        )
    for kind, unknown, is_what in (
        (Kind.ORPHAN, deletion.orphans, "in no row of the catalog"),
        (Kind.SET_APART, deletion.set_apart, "outside the leader epoch lineage"),
    ):
        for segment in unknown:
            is_cut = kind is Kind.ORPHAN and not segment.is_complete
            written = f"written at {timestamp_text(segment.modified_ms)}"
            yield DeletionCandidate(
                kind=kind,
                why=f"{is_what}, {written}{', incomplete' if is_cut else ''}",
                segment_id=segment.segment_id,
                objects=context.tier.objects_of(key, segment),
            )
    for left in deletion.incomplete_uploads:
        yield DeletionCandidate(
            kind=Kind.INCOMPLETE,
            why=f"upload never completed, last write at {timestamp_text(left.modified_ms)}",
            objects=((left.object_key, left.size_bytes),),
        )
