"""Stage 3: claims the partitions of a wave's chunks, begins the rounds.

A partition is planned once per run. The claim is refused if its row has changed since then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.cleaning.transactions import transactions_end
from tierfold.compaction.commits.holders import ENDED_RUN, NotClaimed, Skip, Wait
from tierfold.compaction.discovery.view import state_with_new
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.outcomes import Fenced, LostRace
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.refusal_parts import part_of
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.claim_report import claim_report
from tierfold.jobs.pipeline.discovery import aborted_in
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.partition_report import planned_report
from tierfold.jobs.pipeline.partition_run import PartitionRun
from tierfold.jobs.pipeline.survey import READERS
from tierfold.storage.segments.segment_metadata import read_snapshot


def begun_rounds(
    held: HeldPartitions, runs: Sequence[PartitionRun], done: Iterable[PartitionKey] = ()
) -> tuple[list[PartitionRun], list[Round]]:
    """Claim the partitions whose chunks begin; return all runs, and a round for each open one.

    A chunk that cannot begin ends its run with a reason. The claims of `done` are given up by the
    same commit.
    """
    context = held.context
    with ThreadPoolExecutor(READERS) as pool:
        prepared = list(pool.map(lambda run: _prepared(context, run), runs))
    ends = {run.key: end for run, end in prepared}
    claimed = _claimed(held, [run for run, _ in prepared], done)
    ready = [(run, run.state) for run in claimed if run.is_open and run.state is not None]
    rounds = [
        Round(
            index=index,
            state=state,
            plan=run.begun,
            now_ms=context.now_ms,
            horizons_from_ms=context.dates_ms,
            hash_key=context.hash_key,
            fingerprint=context.catalog.fingerprint(),
            aborted=run.aborted,
            has_key_indexes=context.uses_key_indexes,
            transactions_end=ends[run.key],
        )
        for index, (run, state) in enumerate(ready)
    ]
    return claimed, rounds


def _prepared(context: RunContext, run: PartitionRun) -> tuple[PartitionRun, int | None]:
    """Read the chunk's transactions; return the run with them, and their `transactions_end`."""
    if not run.is_open:
        return run, None
    try:
        run = replace(run, aborted=_aborted(context, run))
        return run, _transactions_end(context, run.begun)
    except TierfoldError as error:
        return run.failing(part_of(error)), None


def _aborted(context: RunContext, run: PartitionRun) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions of every segment in view, also above the round, for their markers.

    The previous chunk has already read the segments beyond it. Raises TierfoldError, also if the
    metadata names an index that is missing.
    """
    first_dirty = run.plan.compact.first_dirty
    is_first = not run.chunks
    beyond = () if is_first else (t for t in run.aborted if t.last_offset >= first_dirty)
    below = [one for one in _segments(run.plan) if is_first or one.start_offset < first_dirty]
    return (*aborted_in(context, run.key, below), *beyond)


def _transactions_end(context: RunContext, chunk: PartitionPlan) -> int | None:
    """The offset below which the chunk's transactions end, from producer snapshots.

    Reading the transaction batches of the whole rest of the log for each chunk would be too slow.
    """
    if chunk.compact.is_last:
        return None
    next_offset = chunk.compact.next_offset

    def snapshots() -> Iterator[tuple[int, Sequence[ProducerEntry]]]:
        for segment in _segments(chunk):
            if segment.next_offset >= next_offset:
                yield segment.next_offset, read_snapshot(context.tier, chunk.key, segment)

    return transactions_end(next_offset, snapshots())


def _segments(plan: PartitionPlan) -> tuple[Segment, ...]:
    return () if plan.view is None else plan.view.segments


def _claimed(
    held: HeldPartitions, runs: Sequence[PartitionRun], done: Iterable[PartitionKey]
) -> list[PartitionRun]:
    """Open the next epoch of every unclaimed partition, in one commit."""
    views = [run.plan.view for run in runs if run.is_open and run.state is None]
    refused = held.claim([state_with_new(view) for view in views if view is not None], done)
    return [_with_claim(run, held, refused.get(run.key)) for run in runs]


def _with_claim(
    run: PartitionRun, held: HeldPartitions, why_not: NotClaimed | None
) -> PartitionRun:
    match why_not:
        case None:
            now = held.by_key.get(run.key)
            return run if now is None else replace(run, state=now.row)
        case Skip(holder=holder) | Wait(holder=holder):
            return run.left_to(holder)
        case LostRace() | Fenced():
            return run.left_to(ENDED_RUN)
        case _:
            return run.ending(claim_report(planned_report(run.begun), why_not))
