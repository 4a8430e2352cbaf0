"""Runs waves of chunks: claim, execute, commit, then plan the next wave.

A wave is one pass over the data for the chunks of some partitions, and one commit of their results.
It is small at first, then about as large as half a minute of work, so that a run that is stopped or
killed loses little. A partition is claimed with its first chunk; the same commit releases those
that earlier waves have finished. The next chunk is planned from the row that the previous commit
wrote. What a wave has committed of partitions that are done is then published to the brokers that
serve them, so a night that is cut off has published all but its last wave. Once nothing can be
published, no wave begins. A partition that fails leaves the loop. So does a partition whose commit
got no answer; its row is read back after all other work. Then one commit releases all claims that
are left.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.wording import counted, spaced
from tierfold.compaction.planning.chunks import UNBOUND, Budget, RemainingBudget, Wave, next_wave
from tierfold.compaction.planning.partition_plan import PartitionPlan, by_place
from tierfold.compaction.planning.waves import FIRST_WAVE_OF_BYTES
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import Stopped, check, deferred, finishing
from tierfold.jobs.engines.stage_executor import StageExecutor, WorkersDied
from tierfold.jobs.pipeline.check_and_commit import check_and_commit, with_outcome
from tierfold.jobs.pipeline.claiming import begun_rounds
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.pace import DURATION_PASSED, Pace
from tierfold.jobs.pipeline.partition_report import PartitionReport
from tierfold.jobs.pipeline.partition_run import PartitionRun
from tierfold.jobs.pipeline.publication import PublishesPartitions
from tierfold.jobs.pipeline.round_execution import RoundResult, executed
from tierfold.storage.catalog.schema import bucket_of
from tierfold.storage.clock import now_ms

_log: Final = logging.getLogger(__name__)

DROPS: Final = "the chunks of {} at work are dropped"
STAYS: Final = "what is committed stays, and the claims are released"

PASSES: Final = 2
"""How often a wave reads its logs, at most: to scan, and to rewrite."""

Record = Callable[[Sequence[tuple[int, PartitionReport]], int], None]
"""Records the outcomes of numbered chunks; also takes the wave's start, epoch milliseconds."""


@dataclass(slots=True, kw_only=True)
class Waves:
    """Compacts partitions on one engine, wave by wave, within a budget."""

    context: RunContext
    executor: StageExecutor[Any]
    budget: Budget
    started_at_ms: int
    record: Record
    publishing: PublishesPartitions | None = None
    """Lets brokers know what each wave has committed; None: nothing is published."""
    spent_bytes: int = 0
    runs: dict[PartitionKey, PartitionRun] = field(default_factory=dict)
    """How far each partition got, in the order of their work."""
    held: HeldPartitions = field(init=False)
    pace: Pace = field(init=False)

    def __post_init__(self) -> None:
        self.held = HeldPartitions(context=self.context, verb="compact")
        self.pace = Pace(
            limit=FIRST_WAVE_OF_BYTES,
            started_at_ms=self.started_at_ms,
            max_duration_ms=self.budget.max_duration_ms,
        )

    def run(self, due: Sequence[PartitionPlan]) -> list[PartitionReport]:
        """Compact the partitions in the given order; return one report per partition.

        A signal drops the current chunks and leaves the rest for the next run.
        """
        if self.budget == UNBOUND:
            due = by_place(due, lambda plan: bucket_of(plan.key.topic_id))
        self.runs = {plan.key: PartitionRun(plan=plan) for plan in due}
        chosen = [*self.runs][: self.budget.max_partitions]
        for key in [*self.runs][len(chosen) :]:
            self._leave((key,), f"--max-partitions is {self.budget.max_partitions}")
        total_bytes = sum(self.runs[key].plan.compact.bytes_in for key in chosen)
        if self.budget.max_bytes is not None:
            total_bytes = min(total_bytes, self.budget.max_bytes)
        self.context.progress.begin(len(chosen), total_bytes)
        with deferred(), finishing("the claims are released"), self.held:
            try:
                self._waves(chosen)
                self._publish()  # What the budget ended before its last chunk.
            except Stopped as stopped:
                self._leave_open(f"stopped by {stopped.by}")
            except BaseException:
                self._leave_open("an unexpected error ended the run")
                raise
            self._read_back([key for key in chosen if self.runs[key].unanswered is not None])
        return self.reports

    @property
    def reports(self) -> list[PartitionReport]:
        """One report per partition, in the order of their work."""
        return [run.report for run in self.runs.values()]

    def _waves(self, chosen: Sequence[PartitionKey]) -> None:
        """Run waves until all is done, the budget is spent, or a signal raises Stopped."""
        while pending := [key for key in chosen if self.runs[key].is_open]:
            check()
            if self.publishing is not None and (why := self.publishing.stopped_by):
                self._leave(pending, f"nothing more can be published: {why}")
                return
            free = self.context.tier.free_bytes()
            wave = self._next([self.runs[key].plan for key in pending], free)
            if not wave.chunks:
                self._leave(pending, wave.stop)
                return
            size_bytes = sum(chunk.compact.bytes_in for chunk in wave.chunks)
            progress = self.context.progress
            with (
                self.pace.timed(len(wave.chunks), size_bytes),
                progress.wave(size_bytes, PASSES),
                finishing(f"{DROPS.format(counted(len(wave.chunks), 'partition'))}; {STAYS}"),
            ):
                self._pass(wave.chunks, free)
                self._publish()
            progress.ended(sum(not self.runs[chunk.key].is_open for chunk in wave.chunks))

    def _next(self, pending: Sequence[PartitionPlan], free: int | None) -> Wave:
        if self.pace.is_over:
            return Wave(chunks=(), stop=DURATION_PASSED)
        budget_left = RemainingBudget(
            budget_bytes=self.budget.max_bytes,
            spent_bytes=self.spent_bytes,
            free_bytes=free,
            wave=self.pace.limit,
        )
        return next_wave(pending, budget_left)

    def _pass(self, chunks: Sequence[PartitionPlan], free: int | None) -> None:
        """Run one wave: claim new partitions, run the rounds, process the results."""
        began_at_ms = now_ms()
        runs = [self.runs[chunk.key].beginning(chunk, began_at_ms) for chunk in chunks]
        runs = [_with_space(run, free) for run in runs]
        with self.context.seconds.timed(TimedStage.CLAIM):
            done = [key for key in self.held.by_key if not self.runs[key].is_open]
            runs, rounds = begun_rounds(self.held, runs, done)
        for run in runs:
            _log.debug("%s: %s", run.key, _said_of(run))
        self._update(runs)
        left = [run.begun for run in runs if run.held_by is not None]
        left_bytes = sum(chunk.compact.bytes_in for chunk in left)
        self.pace.leave(len(left), left_bytes)
        self.spent_bytes += sum(chunk.compact.bytes_in for chunk in chunks) - left_bytes
        tried = [run.key for run in runs if not run.is_open and run.held_by is None]
        try:
            for result in results_of(self.executor, rounds, self.held):
                run = self.runs[result.round.key].taking(result)
                self._update((run,))
                _log.debug("%s: %s %s", run.key, run.chunks[-1].outcome, run.chunks[-1].reason)
                tried.append(result.round.key)
        finally:
            # A signal may arrive when half of the rounds are committed.
            self._record([key for key in tried if self.runs[key].unanswered is None])

    def _publish(self) -> None:
        """Publish what is committed of partitions that the run is done with."""
        to_publish = [run.plan for run in self.runs.values() if run.is_to_publish]
        if self.publishing is None or not to_publish:
            return
        publications = self.publishing.publish(self.held, to_publish)
        self._update(self.runs[key].publishing(one) for key, one in publications.items())

    def _read_back(self, keys: Sequence[PartitionKey]) -> None:
        """Read the rows a few times to resolve the commits that got no answer."""
        self.held.settle()
        lost = [run.unanswered for run in map(self.runs.__getitem__, keys) if run.unanswered]
        for result in lost:
            run = self.runs[result.round.key].taking(with_outcome(result, self.held))
            if run.is_open:
                run = run.leaving("the answer to its last commit came late")
            self._update((run,))
        self._record(keys)

    def _record(self, keys: Sequence[PartitionKey]) -> None:
        """Record the last tried chunk of each partition, in one write per wave."""
        waves: dict[int, list[tuple[int, PartitionReport]]] = defaultdict(list)
        for run in map(self.runs.__getitem__, keys):
            waves[run.began_at_ms].append((len(run.chunks) - 1, run.chunks[-1]))
        for began_at_ms, tried in waves.items():
            self.record(tried, began_at_ms)

    def _update(self, runs: Iterable[PartitionRun]) -> None:
        self.runs |= {run.key: run for run in runs}

    def _leave_open(self, why: str) -> None:
        self._leave([key for key, run in self.runs.items() if run.is_open], why)

    def _leave(self, keys: Iterable[PartitionKey], why: str) -> None:
        self._update(self.runs[key].leaving(why) for key in keys)


def _said_of(run: PartitionRun) -> str:
    if not run.is_open:
        return run.report.reason
    compact = run.begun.compact
    return f"compacts {len(compact.sources)} segments, {spaced(compact.bytes_in)} bytes"


def _with_space(run: PartitionRun, free: int | None) -> PartitionRun:
    """Return the run, ended if its chunk might not fit into the tier."""
    compact = run.begun.compact
    if free is None or compact.bytes_in <= free:
        return run
    return run.failing(
        RefusalPart(
            code=TierfoldError.CODE,
            detail=f"{run.key}: the next chunk may write {compact.bytes_in} bytes beside its"
            f" sources, but the tier has {free} bytes free",
            remedy="Make room there, then run again.",
        )
    )


def results_of(
    executor: StageExecutor[Any], rounds: Sequence[Round], held: HeldPartitions
) -> Iterator[RoundResult]:
    """Run the rounds; if a worker dies, run them in halves until the bad round is isolated.

    A worker that dies ends the job of all partitions, but bad data must stop only their own
    partition. The results of one half are yielded before the next half begins, because a signal may
    end that one.
    """
    if not rounds:
        return
    try:
        rewritten = executed(executor, rounds, held.context.seconds)
    except WorkersDied as died:
        check()  # The signal that stops this run may have stopped the workers too.
        if died.is_over or len(rounds) == 1:
            for work in rounds:
                why = RefusalPart(
                    code=TierfoldError.CODE,
                    detail=f"{work.key}: {died.what}",
                    remedy=f"{died.remedy} Nothing of this chunk was committed.",
                )
                yield RoundResult(round=work).stopped(why)
            return
    else:
        yield from check_and_commit(held, rewritten)
        return
    middle = len(rounds) // 2
    yield from results_of(executor, rounds[:middle], held)
    yield from results_of(executor, rounds[middle:], held)
