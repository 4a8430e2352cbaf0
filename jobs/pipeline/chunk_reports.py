"""The reports of a partition's chunks as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tierfold.compaction.cleaning.counts import Counts, total
from tierfold.compaction.commits.receipts import VerifiedParts
from tierfold.compaction.skipping.probe_counts import NO_PROBES
from tierfold.jobs.pipeline.partition_report import COMPACTED, PartitionReport


def whole_report(chunks: Sequence[PartitionReport], *, left: str = "") -> PartitionReport:
    """Merge the reports of a partition's chunks, at least one, in their order.

    Each chunk reads the output of the previous one again; that output counts once. `left`: why the
    run ended before the last chunk.
    """
    done = [report for report in chunks if report.outcome == COMPACTED]
    last = chunks[-1]
    if left:
        last = replace(last, reason=f"the rest is left for the next run: {left}")
    last = replace(
        last,
        segments_read_once=sum(report.segments_read_once for report in chunks),
        segments_skipped=sum(report.segments_skipped for report in chunks),
        key_indexes=sum((report.key_indexes for report in chunks), NO_PROBES),
        index_bytes_written=sum(report.index_bytes_written for report in chunks),
        bytes_read=sum(report.bytes_read for report in chunks),
        bytes_written=sum(report.bytes_written for report in chunks),
        task_ms=sum(report.task_ms for report in chunks),
        events_sent=sum(report.events_sent for report in chunks),
    )
    if not done or len(chunks) == 1:
        return last
    so_far = f"in {len(done)} chunks"
    if len(done) < len(chunks):
        reached = (done[-1].next_offset or 0) - 1
        so_far = f"before that, chunks were committed up to offset {reached}"
    return replace(
        last,
        first_dirty=done[0].first_dirty,
        segments_in=_summed(done, "segments_in", "segments_out"),
        segments_out=done[-1].segments_out,
        bytes_in=_summed(done, "bytes_in", "bytes_out"),
        bytes_out=done[-1].bytes_out,
        early_deletion_usd=sum(report.early_deletion_usd for report in done),
        objects_written=sum(report.objects_written for report in done),
        parts_verified=sum((report.parts_verified for report in done), VerifiedParts()),
        counts=sum(
            (_handed_on(report.counts) for report in done[:-1]), total(e.counts for e in done)
        ),
        notes=tuple(dict.fromkeys((so_far, *(note for report in chunks for note in report.notes)))),
    )


def _summed(done: Sequence[PartitionReport], taken: str, left: str) -> int:
    """The sum of `taken` over all chunks, minus what each chunk left to the next."""
    came_in = sum(getattr(report, taken) for report in done)
    return int(came_in - sum(getattr(report, left) for report in done[:-1]))


def _handed_on(counts: Counts) -> Counts:
    """Negative counts of the records that the next chunk reads again."""
    return Counts(
        records_in=-counts.kept,
        kept=-counts.kept,
        kept_markers=-counts.kept_markers,
        record_bytes_in=-counts.kept_bytes,
        kept_bytes=-counts.kept_bytes,
    )
