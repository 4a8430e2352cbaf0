"""Runs waves of chunks: claim, execute, commit, then plan the next wave.

A wave is one pass over the data for the chunks of many partitions; each chunk is committed on its
own. A partition is claimed with its first chunk and keeps that epoch until its last; the next chunk
is planned from the row that the previous commit wrote. A partition that fails leaves the loop. So
does one whose commit got no answer; its row is read back after all other work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from tierfold.compaction.discovery.view import state_with_new
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import CorruptLog, TierfoldError, UnreadableObject
from tierfold.compaction.model.outcomes import Committed, Unknown
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.planning.chunks import (
    Budget,
    Chunk,
    Due,
    RemainingBudget,
    Wave,
    next_wave,
    rest_of_plan,
)
from tierfold.compaction.planning.plan import Compact
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import Stopped, check, deferred
from tierfold.jobs.pipeline.check_and_commit import RoundResult, read_back
from tierfold.jobs.pipeline.commits import committed
from tierfold.jobs.pipeline.partition_report import (
    FAILED,
    PartitionReport,
    claim_report,
    failure_report,
    left_report,
    result_report,
    survey_report,
    whole_report,
)
from tierfold.jobs.pipeline.proposals import release_of
from tierfold.jobs.pipeline.spark_executor import Pipeline
from tierfold.jobs.pipeline.survey import READERS, Surveyed, plan_violations
from tierfold.jobs.pipeline.task_assignment import Round
from tierfold.jobs.spark.session import SPARK_FAILURES, cause_of
from tierfold.storage.catalog.catalog import Catalog, new_commit_id
from tierfold.storage.clock import now_ms
from tierfold.storage.segments.segment_metadata import read_aborted, read_snapshot

WAVE_BYTES: Final = 8 * 2**30
"""Maximum source bytes of a wave of several partitions if `--max-duration` bounds the run: some
tens of seconds of work, after which the clock is checked."""

_WORKER_DIED: Final = (
    "a Spark worker died over this partition, and so did those that tried again ({}). "
    "Its log says more; often it needs more memory. Nothing was committed."
)
_SPARK_DIED: Final = (
    "Spark's own process (java) has died ({}). The system's log may say why (dmesg; often memory "
    "ran out). Nothing of this chunk was committed; run again."
)

Record = Callable[[Sequence[tuple[int, PartitionReport]], int], None]
"""Records the outcomes of numbered chunks; also takes the wave's start, epoch milliseconds."""


@dataclass(slots=True, kw_only=True)
class PartitionRun:
    """The state of one partition during the run."""

    surveyed: Surveyed
    """Its view is the current one."""
    plan: Compact
    """The remaining work."""
    state: PartitionState | None = None
    """The row under this run's epoch; None before the claim."""
    aborted: tuple[AbortedTransaction, ...] = ()
    chunks: list[PartitionReport] = field(default_factory=list)
    """One report per tried chunk."""
    is_open: bool = True
    """There is more to do."""
    left: str = ""
    """Why the run ended before the partition was done."""
    began_at_ms: int = 0
    """When the wave of its last chunk began."""
    unanswered: tuple[Chunk, RoundResult] | None = None
    """Its last chunk, as long as the outcome of the commit is unknown."""

    @property
    def due(self) -> Due:
        """The remaining work, for the choice of the next wave."""
        return Due(plan=self.plan, rules=self.surveyed.rules, chunks_done=len(self.chunks))

    @property
    def report(self) -> PartitionReport:
        """The partition's outcome."""
        if self.chunks:
            return whole_report(self.chunks, left=self.left)
        report = left_report(survey_report(self.surveyed), self.left)
        return report if self.state is None else replace(report, epoch=self.state.epoch)

    @property
    def is_given_back(self) -> bool:
        """The run holds the claim but ends before the last chunk: a budget or bad data stops it."""
        has_failed = bool(self.chunks) and self.chunks[-1].outcome == FAILED
        return self.state is not None and (bool(self.left) or has_failed)

    def leave(self, why: str) -> None:
        """Record that the run ends before the next chunk."""
        self.left, self.is_open = why, False

    def end(self, report: PartitionReport) -> None:
        """Record a chunk that did not succeed."""
        self.chunks.append(report)
        self.is_open = False


@dataclass(slots=True, kw_only=True)
class Waves:
    """Compacts partitions on one Spark session, wave by wave, within a budget."""

    context: RunContext
    pipeline: Pipeline
    budget: Budget
    started_at_ms: int
    record: Record
    spent_bytes: int = 0

    def run(self, due: Sequence[Surveyed]) -> list[PartitionReport]:
        """Compact the partitions in the given order; return one report per partition.

        After a signal the current chunks are dropped, and the rest is left for the next run.
        """
        works = [
            PartitionRun(surveyed=partition, plan=partition.choice)
            for partition in due
            if isinstance(partition.choice, Compact)
        ]
        chosen = works[: self.budget.max_partitions]
        for work in works[len(chosen) :]:
            work.leave(f"--max-partitions is {self.budget.max_partitions}")
        with deferred():
            try:
                self._waves(chosen)
            except Stopped as stopped:
                for work in chosen:
                    if work.is_open:
                        work.leave(f"stopped by {stopped.by}")
            self._read_back([work for work in chosen if work.unanswered is not None])
            self._release([work for work in chosen if work.is_given_back])
        return [work.report for work in works]

    def _waves(self, chosen: Sequence[PartitionRun]) -> None:
        """Run waves until all is done, the budget is spent, or a signal raises Stopped."""
        pending = [*chosen]
        while pending:
            check()
            free = self.context.tier.store.free_bytes()
            wave = self._next(pending, free)
            if not wave.chunks:
                for partition in pending:
                    partition.leave(wave.stop)
                break
            begun = list(zip(pending, wave.chunks, strict=False))
            self._pass(begun, free)
            pending = [partition for partition in pending if partition.is_open]

    def _next(self, pending: Sequence[PartitionRun], free: int) -> Wave:
        bound_ms = self.budget.max_duration_ms
        if bound_ms is not None and now_ms() - self.started_at_ms >= bound_ms:
            return Wave(chunks=(), stop="--max-duration has passed")
        budget_left = RemainingBudget(
            budget_bytes=self.budget.max_bytes,
            spent_bytes=self.spent_bytes,
            free_bytes=free,
            wave_bytes=None if bound_ms is None else WAVE_BYTES,
        )
        return next_wave([partition.due for partition in pending], budget_left)

    def _pass(self, begun: Sequence[tuple[PartitionRun, Chunk]], free: int) -> None:
        """Run one wave: claim new partitions, run the rounds, process the results."""
        for work, chunk in begun:
            if chunk.plan.bytes_in > free:
                work.end(failure_report(_planned(work, chunk), _no_space(chunk, free)))
        began_at_ms = now_ms()
        for work, _ in begun:
            work.began_at_ms = began_at_ms
        self.spent_bytes += sum(chunk.plan.bytes_in for _, chunk in begun)
        by_key = {work.surveyed.key: (work, chunk) for work, chunk in begun}
        rounds = rounds_of(self.context, begun)
        untried = set(by_key) - {work.surveyed.key for work, _ in begun if not work.is_open}
        try:
            for result in results_of(self.pipeline, rounds, self.context.catalog):
                untried.remove(result.round.key)
                _take(*by_key[result.round.key], result)
        finally:
            # A signal may come when half of the rounds are committed.
            tried = [work for work, _ in begun if work.surveyed.key not in untried]
            self._record([work for work in tried if work.unanswered is None])

    def _read_back(self, works: Sequence[PartitionRun]) -> None:
        """Read the rows a few times to resolve the commits that got no answer."""
        lost = [(work, *work.unanswered) for work in works if work.unanswered is not None]
        found = read_back([result for _, _, result in lost], self.context.catalog)
        for (work, chunk, _), result in zip(lost, found, strict=True):
            work.chunks.pop()
            _take(work, chunk, result)
            if work.is_open:
                work.leave("the answer to its last commit came late")
        self._record(works)

    def _record(self, works: Sequence[PartitionRun]) -> None:
        """Record the last tried chunk of each partition, in one write per wave."""
        waves: dict[int, list[tuple[int, PartitionReport]]] = defaultdict(list)
        for work in works:
            waves[work.began_at_ms].append((len(work.chunks) - 1, work.chunks[-1]))
        for began_at_ms, tried in waves.items():
            self.record(tried, began_at_ms)

    def _release(self, works: Sequence[PartitionRun]) -> None:
        """Release unfinished claims, except those that another run has taken over."""
        states = [work.state for work in works if work.state is not None]
        proposals = [release_of(state, new_commit_id(), self.context.clock()) for state in states]
        if proposals:  # The outcome does not matter: the next run takes over a claim that stays.
            committed(self.context.catalog, proposals)


def rounds_of(context: RunContext, begun: Sequence[tuple[PartitionRun, Chunk]]) -> list[Round]:
    """Claim the partitions and return the rounds; a chunk that cannot begin ends with a reason."""
    hopeful = [pair for pair in begun if pair[0].is_open]
    with ThreadPoolExecutor(READERS) as pool:
        found = list(pool.map(lambda pair: _transactions_end(context, *pair), hopeful))
    rounds: list[tuple[PartitionRun, Chunk, int | None]] = []
    for (work, chunk), transactions_end in zip(hopeful, found, strict=True):
        if isinstance(transactions_end, str):
            work.end(failure_report(_planned(work, chunk), transactions_end))
        else:
            rounds.append((work, chunk, transactions_end))
    _claim(context, [(work, chunk) for work, chunk, _ in rounds if work.state is None])
    claimed = [a_round for a_round in rounds if a_round[0].is_open]
    return [
        replace(
            _round(context, work, chunk, work.state), index=index, transactions_end=transactions_end
        )
        for index, (work, chunk, transactions_end) in enumerate(claimed)
        if work.state is not None
    ]


def _claim(context: RunContext, begun: Sequence[tuple[PartitionRun, Chunk]]) -> None:
    """Stage 3: one commit opens the next epoch of every partition that is new."""
    views = [work.surveyed.view for work, _ in begun]
    rows = [state_with_new(view) for view in views if view is not None]
    try:
        claims = context.catalog.claim(rows, context.run, at_ms=context.clock()) if rows else {}
    except (CorruptLog, UnreadableObject) as error:
        # Do not raise: the commits of earlier waves must still be reported.
        for work, chunk in begun:
            work.end(failure_report(_planned(work, chunk), str(error)))
        return
    for work, chunk in begun:
        claim = claims[work.surveyed.key]
        if isinstance(claim.outcome, Committed):
            work.state = claim.state
        else:
            work.end(claim_report(_planned(work, chunk), claim.outcome))


def _planned(work: PartitionRun, chunk: Chunk) -> PartitionReport:
    return survey_report(replace(work.surveyed, choice=chunk.plan))


def _no_space(chunk: Chunk, free: int) -> str:
    return (
        f"{chunk.plan.key}: the next chunk may write {chunk.plan.bytes_in} bytes beside its"
        f" sources, and the tier has {free} bytes free. Make room there, then run again."
    )


def _transactions_end(context: RunContext, work: PartitionRun, chunk: Chunk) -> int | str | None:
    """Read the chunk's transactions; return `transactions_end`, or why the chunk cannot begin."""
    surveyed = replace(work.surveyed, choice=chunk.plan)
    violations = plan_violations(surveyed, context.now_ms)
    if violations:
        return f"the plan contradicts the view: {'; '.join(violations)}. Please report this bug."
    segments = surveyed.view.segments if surveyed.view is not None else ()
    try:
        work.aborted = _aborted(context, work, segments)
        return None if chunk.is_last else _decided_at(context, chunk.plan, segments)
    except TierfoldError as error:
        return str(error)


def _aborted(
    context: RunContext, work: PartitionRun, segments: Sequence[Segment]
) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions of every segment in view, also above the round.

    Markers may lie there. Segments beyond the previous chunk were already read for that one. Raises
    TierfoldError, also if an index that the metadata promises is missing.
    """
    first_dirty = work.plan.first_dirty
    is_first = not work.chunks
    beyond = () if is_first else (t for t in work.aborted if t.last_offset >= first_dirty)
    below = (
        transaction
        for segment in segments
        if is_first or segment.start_offset < first_dirty
        for transaction in read_aborted(context.tier, work.surveyed.key, segment)
    )
    return (*below, *beyond)


def _decided_at(context: RunContext, plan: Compact, segments: Sequence[Segment]) -> int:
    """The offset below which all transactions in the chunk are decided, by producer snapshots.

    Reading the transaction batches of the whole rest of the log would be too slow per chunk.
    """
    for segment in segments:
        if segment.next_offset < plan.next_offset:
            continue
        opened = (
            entry.current_txn_first_offset
            for entry in read_snapshot(context.tier, plan.key, segment)
        )
        if not any(first is not None and first < plan.next_offset for first in opened):
            return segment.next_offset
    return segments[-1].next_offset


def _round(context: RunContext, work: PartitionRun, chunk: Chunk, state: PartitionState) -> Round:
    return Round(
        index=0,
        state=state,
        first_dirty=chunk.plan.first_dirty,
        next_offset=chunk.plan.next_offset,
        groups=chunk.plan.groups,
        rules=work.surveyed.rules,
        aborted=work.aborted,
        producers=work.surveyed.producers,
        now_ms=context.now_ms,
        is_partial=chunk.plan.is_partial,
        is_last_chunk=chunk.is_last,
    )


def results_of(
    pipeline: Pipeline, rounds: Sequence[Round], catalog: Catalog
) -> Iterator[RoundResult]:
    """Run the rounds; if a Spark worker dies, run them in halves until the bad round is isolated.

    A worker that dies, for example out of memory, ends the job of all partitions; bad data must
    stop only their own partition. The results of one half are yielded before the next half begins,
    because a signal may end that one.
    """
    if not rounds:
        return
    try:
        yield from pipeline.run(rounds, catalog)
        return
    except SPARK_FAILURES as error:
        check()  # The signal that stops this run may have stopped Spark too.
        is_over = pipeline.has_died
        if is_over or len(rounds) == 1:
            why = (_SPARK_DIED if is_over else _WORKER_DIED).format(cause_of(error))
            for work in rounds:
                yield RoundResult(round=work, failure=f"{work.key}: {why}")
            return
    middle = len(rounds) // 2
    yield from results_of(pipeline, rounds[:middle], catalog)
    yield from results_of(pipeline, rounds[middle:], catalog)


def _take(work: PartitionRun, chunk: Chunk, result: RoundResult) -> None:
    """Add the chunk's report and plan the rest from the row that its commit wrote."""
    report = result_report(_planned(work, chunk), result)
    work.chunks.append(report)
    work.unanswered = (chunk, result) if isinstance(result.outcome, Unknown) else None
    work.is_open = result.state is not None and not chunk.is_last
    work.state = result.state or work.state
    if result.state is None or not work.is_open or work.surveyed.view is None:
        return
    work.aborted = result.round.aborted
    segments = result.state.segments
    work.surveyed = replace(
        work.surveyed,
        view=replace(work.surveyed.view, state=result.state, segments=segments),
    )
    work.plan = rest_of_plan(work.plan, chunk.plan.next_offset, segments, work.surveyed.rules)
