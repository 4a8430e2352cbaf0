"""Stages 4 to 6 of claimed rounds: scan, reduce and rewrite, on any engine.

Nothing is visible before the commit: a killed run leaves only orphans. A failure stops its own
partition; the others go on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tierfold.compaction.cleaning.rounds import (
    GroupTask,
    Round,
    group_tasks,
    round_rules,
    too_many_keyless,
)
from tierfold.compaction.cleaning.transactions import (
    TransactionStatus,
    transaction_status,
    unexplained_transaction,
    with_unindexed,
)
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.outcomes import Outcome
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.planning.grouping import SegmentGroup, merge_empty
from tierfold.compaction.skipping.skip_decision import RoundFacts, kept_apart, may_change
from tierfold.jobs.context.stage_seconds import StageSeconds, TimedStage
from tierfold.jobs.engines.rows import cause_of
from tierfold.jobs.engines.scan import ScanSummary, summed
from tierfold.jobs.engines.stage_executor import StageExecutor

_NOT_SCANNED = summed(())
NO_TRANSACTIONS = TransactionStatus(discardable=np.empty(0, np.int64), listed=(), unindexed=())


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """How far one round got; each stage returns the next one."""

    round: Round
    scan: ScanSummary = field(default=_NOT_SCANNED, repr=False)
    """The summary of its segments."""
    transactions: TransactionStatus = field(default=NO_TRANSACTIONS, repr=False)
    unindexed: int = 0
    """Aborted transactions that have a marker but no index entry."""
    receipts: tuple[GroupReceipt, ...] = ()
    """One per group, in their order."""
    bytes_read: int = 0
    """Bytes of `.log`s that its finished tasks read, each time they did."""
    bytes_written: int = 0
    """Bytes of all objects that they wrote, also of segments that were then written again."""
    task_ms: int = field(default=0, compare=False)
    """How long they took, in milliseconds, one after the other."""
    failure: str | None = None
    """Why it stopped before the commit."""
    refusals: tuple[RefusalPart, ...] = ()
    """The same in its parts, where it has some."""
    outcome: Outcome | None = None
    """The outcome of the commit; None if the round failed before."""
    state: PartitionState | None = None
    """The row that the commit wrote; None if there was no commit."""

    def stopped(self, why: RefusalPart) -> RoundResult:
        """Return it as stopped before the commit."""
        return replace(self, failure=why.sentence, refusals=(why,))


def executed(
    executor: StageExecutor[Any], rounds: Sequence[Round], seconds: StageSeconds
) -> list[RoundResult]:
    """Scan, reduce and rewrite; return one result per round, in their order.

    `seconds` measures both stages. Raises WorkersDied, and Stopped after a signal.
    """
    try:
        with seconds.timed(TimedStage.SCAN):
            results = _scanned(executor, rounds)
            results = _scanned_again(executor, results)
        results = [_within_keyless_max(result) for result in results]
        with seconds.timed(TimedStage.REWRITE):
            return _rewritten(executor, results)
    finally:
        executor.release()


def _scanned(executor: StageExecutor[Any], rounds: Sequence[Round]) -> list[RoundResult]:
    """Stages 4 and 5."""
    found = executor.scan(rounds)
    return [_learned(work, found[work.index]) for work in rounds]


def _learned(work: Round, found: ScanSummary | RefusalPart) -> RoundResult:
    result = RoundResult(round=work)
    if isinstance(found, RefusalPart):
        return result.stopped(found)
    try:
        return _with_transactions(result, found)
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        return result.stopped(cause_of(error, str(work.key)))


def _with_transactions(result: RoundResult, found: ScanSummary) -> RoundResult:
    work = result.round
    status = transaction_status(found.txn_batches, work.aborted)
    why = unexplained_transaction(status, work.plan.producers, work.compact.next_offset)
    return replace(
        result,
        scan=found,
        bytes_read=found.log_bytes,
        task_ms=found.task_ms,
        transactions=status,
        unindexed=len(status.unindexed),
        failure=f"{work.key}: {why}" if why else None,
    )


def _scanned_again(
    executor: StageExecutor[Any], results: Sequence[RoundResult]
) -> list[RoundResult]:
    """Scan rounds with unindexed aborts again, now with these aborts known."""
    doubtful = {one.round.index: one for one in results if one.failure is None and one.unindexed}
    if not doubtful:
        return [*results]
    rounds = [
        replace(one.round, aborted=with_unindexed(one.round.aborted, one.transactions))
        for one in doubtful.values()
    ]
    again = {one.round.index: one for one in _scanned(executor, rounds)}
    return [
        _after_both(one, again[one.round.index]) if one.round.index in again else one
        for one in results
    ]


def _after_both(first: RoundResult, second: RoundResult) -> RoundResult:
    """The result of the second scan, with what only the first one knows."""
    return replace(
        second,
        unindexed=first.unindexed,
        bytes_read=first.bytes_read + second.bytes_read,
        task_ms=first.task_ms + second.task_ms,
    )


def _within_keyless_max(result: RoundResult) -> RoundResult:
    """Stop a round that exceeds `compact.keyless.max`, before anything of it is written.

    Aborted records are known by now. They do not count, because they are dropped anyway.
    """
    if result.failure is not None:
        return result
    scan, work = result.scan, result.round
    why = too_many_keyless(scan.without_key, scan.records, work.rules)
    return replace(result, failure=f"{work.key}: {why}") if why else result


def _rewritten(executor: StageExecutor[Any], results: Sequence[RoundResult]) -> list[RoundResult]:
    """Stage 6; empty groups are rewritten again, with a neighbour or as one empty batch."""
    results = [_without_unchanged(one) for one in results]
    wanted = {
        one.round.index: list(
            group_tasks(
                one.round,
                one.transactions,
                wanted=_not_skipped(one),
                plain=dict(one.scan.plain),
                unscanned=_unscanned(one),
            )
        )
        for one in results
        if one.failure is None
    }
    joined = [_joined(one) for one in _with_receipts(executor, results, wanted)]
    again = {one.round.index: tasks for one, tasks in joined}
    return _with_receipts(executor, [one for one, _ in joined], again)


def _unscanned(result: RoundResult) -> dict[int, int]:
    """How many records the segments have whose keys were not read, by the segments' index."""
    return {i: facts.records for i, facts in result.scan.unread}


def _not_skipped(result: RoundResult) -> dict[int, SegmentGroup]:
    """The groups without a receipt, by their number."""
    skipped = {receipt.group_index for receipt in result.receipts}
    return {i: group for i, group in enumerate(result.round.groups) if i not in skipped}


def _without_unchanged(result: RoundResult) -> RoundResult:
    """The result with a receipt for each segment that stays as its key index describes it."""
    work, live = result.round, result.round.state.segments
    if result.failure is not None or not result.scan.unread:
        return result
    of_round = RoundFacts(
        rules=round_rules(work),
        aborted=work.aborted,
        discardable=result.transactions.discardable,
        listed=result.transactions.listed,
    )
    stays = {
        facts.segment_id: facts
        for i, facts in result.scan.unread
        if not may_change(facts, live[i], of_round)
    }
    work = work.with_groups(kept_apart(work.groups, stays))
    receipts = tuple(
        GroupReceipt(
            group_index=number,
            result=GroupResult.SKIPPED,
            counts=stays[group.segments[0].segment_id].counts,
            bytes_read=0,
            bytes_written=0,
        )
        for number, group in enumerate(work.groups)
        if len(group.segments) == 1 and group.segments[0].segment_id in stays
    )
    return replace(result, round=work, receipts=receipts)


def _with_receipts(
    executor: StageExecutor[Any],
    results: Sequence[RoundResult],
    wanted: Mapping[int, Sequence[GroupTask]],
) -> list[RoundResult]:
    """Rewrite the wanted groups, and add their receipts to those of their rounds."""
    receipts: dict[int, list[GroupReceipt]] = defaultdict(list)
    failures: dict[int, RefusalPart] = {}
    for index, found in executor.rewrite([task for tasks in wanted.values() for task in tasks]):
        if isinstance(found, RefusalPart):
            failures.setdefault(index, found)
        else:
            receipts[index].append(found)
    done = [
        replace(
            one,
            receipts=_in_order((*one.receipts, *receipts[one.round.index])),
            bytes_read=one.bytes_read + sum(new.bytes_read for new in receipts[one.round.index]),
            bytes_written=one.bytes_written + _stored_bytes(receipts[one.round.index]),
            task_ms=one.task_ms + sum(new.task_ms for new in receipts[one.round.index]),
        )
        for one in results
    ]
    return [
        one.stopped(failures[one.round.index]) if one.round.index in failures else one
        for one in done
    ]


def _stored_bytes(receipts: Sequence[GroupReceipt]) -> int:
    written = (one for receipt in receipts for one in receipt.written)
    return sum(size_bytes for one in written for _, size_bytes in one.stored)


def _in_order(receipts: Sequence[GroupReceipt]) -> tuple[GroupReceipt, ...]:
    return tuple(sorted(receipts, key=lambda receipt: receipt.group_index))


def _joined(result: RoundResult) -> tuple[RoundResult, list[GroupTask]]:
    """Merge empty groups with their neighbours; return the result, and the groups to rewrite again.

    Groups that have changed or are still empty are rewritten; the others keep their receipts.
    """
    if result.failure is not None:
        return result, []
    try:
        return _with_merged_groups(result)
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        return result.stopped(cause_of(error, str(result.round.key))), []


def _with_merged_groups(result: RoundResult) -> tuple[RoundResult, list[GroupTask]]:
    work = result.round
    is_empty = [receipt.result is GroupResult.EMPTY for receipt in result.receipts]
    if not any(is_empty):
        return result, []
    merged = merge_empty(work.groups, is_empty)
    by_group = dict(zip(work.groups, result.receipts, strict=True))
    kept = {
        number: by_group[group]
        for number, group in enumerate(merged.groups)
        if group in by_group and number not in merged.empty
    }
    work = work.with_groups(merged.groups)
    wanted = {number: group for number, group in enumerate(merged.groups) if number not in kept}
    receipts = tuple(replace(receipt, group_index=i) for i, receipt in kept.items())
    tasks = group_tasks(
        work,
        result.transactions,
        wanted=wanted,
        plain={},
        unscanned=_unscanned(result),
        empty=merged.empty,
    )
    return replace(result, round=work, receipts=receipts), list(tasks)
