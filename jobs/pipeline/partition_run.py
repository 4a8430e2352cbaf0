"""One partition during a run of `compact`: its plan, its claim, and the chunks so far."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tierfold.compaction.commits.holders import Holder
from tierfold.compaction.deletion.superseded import superseded_bytes
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.outcomes import Unknown
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.compaction.model.spared_bytes import spared_sum
from tierfold.compaction.planning.chunks import rest_of_plan
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.jobs.pipeline.chunk_reports import whole_report
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    PartitionReport,
    failure_report,
    left_report,
    planned_report,
    result_report,
)
from tierfold.jobs.pipeline.publication import Publication, with_publication
from tierfold.jobs.pipeline.round_execution import RoundResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRun:
    """How far one partition got; each step returns the next one."""

    plan: PartitionPlan
    """The remaining work, on the current view."""
    chunk: PartitionPlan | None = None
    """The part of `plan` that began last; None: nothing has begun."""
    state: PartitionState | None = None
    """The row under this run's epoch; None before the claim."""
    aborted: tuple[AbortedTransaction, ...] = ()
    """The aborted transactions known to the last chunk."""
    chunks: tuple[PartitionReport, ...] = ()
    """One report per tried chunk."""
    is_open: bool = True
    """There is more to do."""
    left: str = ""
    """Why the run ended before the partition was done."""
    held_by: Holder | None = None
    """The other run that kept this one from its first chunk."""
    began_at_ms: int = 0
    """When the wave of its last chunk began."""
    unanswered: RoundResult | None = None
    """The result of its last chunk, as long as the outcome of the commit is unknown."""
    publication: Publication | None = None
    """What became of its publication; None: it was not tried."""

    @property
    def key(self) -> PartitionKey:
        """The partition's key."""
        return self.plan.key

    @property
    def begun(self) -> PartitionPlan:
        """The chunk that began last; raises LookupError before the first."""
        if self.chunk is None:
            raise LookupError(f"{self.key}: no chunk has begun")
        return self.chunk

    @property
    def is_to_publish(self) -> bool:
        """Whether the run has committed to it what it commits, and brokers are yet to learn it."""
        is_ended = not self.is_open and self.unanswered is None and self.publication is None
        return is_ended and any(chunk.outcome == COMPACTED for chunk in self.chunks)

    @property
    def report(self) -> PartitionReport:
        """The partition's outcome."""
        report = self._of_chunks
        return report if self.publication is None else with_publication(report, self.publication)

    @property
    def _of_chunks(self) -> PartitionReport:
        if self.chunks:
            report = whole_report(self.chunks, left=self.left)
        else:
            report = left_report(planned_report(self.plan), self.left)
            if self.held_by is not None:  # The plan's note on the claim would say it again.
                report = replace(report, held_by=self.held_by, notes=())
        if self.state is None:
            return report
        dropped = None if self.publication is None else self.publication.dropped
        superseded = superseded_bytes(
            self.state.retired, self.plan.rules, self.plan.binding, dropped
        )
        epoch = report.epoch if self.chunks else self.state.epoch
        spared_bytes = spared_sum(self.state.spared)
        return replace(report, epoch=epoch, superseded=superseded, spared_bytes=spared_bytes)

    def beginning(self, chunk: PartitionPlan, at_ms: int) -> PartitionRun:
        """Return the run with a chunk that begins."""
        return replace(self, chunk=chunk, began_at_ms=at_ms)

    def leaving(self, why: str) -> PartitionRun:
        """Return the run, ended before its next chunk."""
        return replace(self, left=why, is_open=False)

    def publishing(self, publication: Publication) -> PartitionRun:
        """Return the run with what became of its publication."""
        return replace(self, publication=publication, state=publication.row or self.state)

    def left_to(self, holder: Holder) -> PartitionRun:
        """Return the run, ended because another run has the partition."""
        return replace(self.leaving(holder.why_left), held_by=holder)

    def ending(self, report: PartitionReport) -> PartitionRun:
        """Return the run, ended by a chunk that did not succeed."""
        return replace(self, chunks=(*self.chunks, report), is_open=False)

    def failing(self, why: RefusalPart) -> PartitionRun:
        """Return the run, ended because its chunk could not begin."""
        return self.ending(failure_report(planned_report(self.begun), why.sentence, (why,)))

    def taking(self, result: RoundResult) -> PartitionRun:
        """Return the run with the result of its chunk; plan the rest from the row that it wrote.

        A second result of a chunk whose commit got no answer replaces the first one's report.
        """
        chunk = self.begun
        report = result_report(planned_report(chunk), result)
        before = self.chunks if self.unanswered is None else self.chunks[:-1]
        is_open = result.state is not None and not chunk.compact.is_last
        taken = replace(
            self,
            chunks=(*before, report),
            unanswered=result if isinstance(result.outcome, Unknown) else None,
            is_open=is_open,
            state=result.state or self.state,
        )
        if result.state is None or not is_open:
            return taken
        return replace(
            taken,
            aborted=result.round.aborted,
            plan=rest_of_plan(self.plan, chunk.compact.next_offset, result.state),
        )
