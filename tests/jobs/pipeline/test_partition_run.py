"""Each step of a partition's run returns the next one: how far it got, and what is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import a_chain, cleaned_to
from tests.compaction.claimed import THREE, a_claim, a_plan, a_round
from tests.storage.live_segments import an_abort
from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Outcome, Unknown
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    FENCED,
    LEFT,
    LOST_RACE,
    UNKNOWN,
    failure_report,
    planned_report,
)
from tierfold.jobs.pipeline.partition_run import PartitionRun
from tierfold.jobs.pipeline.round_execution import RoundResult

PLAN: Final = a_plan()
STATE: Final = a_claim()
ROW: Final = a_claim(cleaner_offsets=cleaned_to(22))
"""What the commit of the first chunk writes."""
COMMITTED: Final = Committed(epoch=1, commit_id="commit")
NO_ANSWER: Final = Unknown(commit_id="commit", cause="no answer")
TAKEN_OVER: Final = Fenced(epoch=1, by_epoch=2, by_run="rival")
OVERTAKEN: Final = LostRace(found_commit_id="other")
ABORTED: Final = (an_abort(1, 3, 25),)


def first_chunk() -> PartitionPlan:
    """The first of the two groups."""
    compact = replace(PLAN.compact, groups=PLAN.compact.groups[:1], next_offset=22, is_last=False)
    return replace(PLAN, choice=compact)


def claimed(chunk: PartitionPlan) -> PartitionRun:
    """A run that holds the claim and has begun a chunk."""
    return replace(PartitionRun(plan=PLAN).beginning(chunk, 7), state=STATE)


def a_result(
    chunk: PartitionPlan,
    outcome: Outcome | None,
    row: PartitionState | None = None,
    failure: str | None = None,
) -> RoundResult:
    work: Round = replace(a_round(chunk, STATE), aborted=ABORTED)
    receipts = tuple(
        GroupReceipt(
            group_index=number,
            result=GroupResult.UNCHANGED,
            counts=Counts(),
            bytes_read=1,
            bytes_written=0,
        )
        for number in range(len(work.groups))
    )
    return RoundResult(round=work, receipts=receipts, outcome=outcome, state=row, failure=failure)


def test_a_run_has_no_chunk_until_one_begins() -> None:
    run = PartitionRun(plan=PLAN)
    assert (run.is_open, run.key) == (True, PLAN.key)
    with pytest.raises(LookupError, match="no chunk has begun"):
        _ = run.begun
    run = run.beginning(first_chunk(), 7)
    assert (run.begun, run.plan, run.began_at_ms) == (first_chunk(), PLAN, 7)
    assert (run.is_open, run.chunks) == (True, ())


@pytest.mark.parametrize(
    ("run", "epoch"),
    [
        pytest.param(PartitionRun(plan=replace(PLAN, epoch=4)), 4, id="before its claim"),
        pytest.param(
            PartitionRun(plan=replace(PLAN, epoch=0), state=STATE), 1, id="after its claim"
        ),
    ],
)
def test_a_run_that_is_left_reports_the_epoch_of_the_row(
    run: PartitionRun, epoch: int
) -> None:
    left = run.leaving("time is up")
    assert not left.is_open
    assert (left.report.outcome, left.report.epoch) == (LEFT, epoch)
    assert left.report.reason == "left for the next run: time is up"


def test_a_chunk_that_cannot_begin_ends_the_run() -> None:
    why = RefusalPart(code="error", detail="no space", remedy="Make room.")
    report = failure_report(planned_report(PLAN), "no space. Make room.", (why,))
    run = PartitionRun(plan=PLAN).beginning(PLAN, 7)
    assert run.failing(why) == run.ending(report)
    ended = run.ending(report)
    assert (ended.is_open, ended.chunks, ended.report) == (False, (report,), report)


@pytest.mark.parametrize(
    ("outcome", "row", "failure", "expected"),
    [
        pytest.param(COMMITTED, ROW, None, COMPACTED, id="the commit was done"),
        pytest.param(TAKEN_OVER, None, None, FENCED, id="another run holds it"),
        pytest.param(OVERTAKEN, None, None, LOST_RACE, id="another run was faster"),
        pytest.param(NO_ANSWER, None, None, UNKNOWN, id="the catalog gave no answer"),
        pytest.param(None, None, "bad CRC", FAILED, id="the data are bad"),
        pytest.param(None, None, None, FAILED, id="no commit was tried"),
    ],
)
@pytest.mark.parametrize("is_last", [True, False], ids=["last chunk", "earlier chunk"])
def test_only_a_commit_of_an_earlier_chunk_leaves_the_run_open(
    outcome: Outcome | None,
    row: PartitionState | None,
    failure: str | None,
    expected: str,
    is_last: bool,
) -> None:
    chunk = PLAN if is_last else first_chunk()
    run = claimed(chunk).taking(a_result(chunk, outcome, row, failure))
    (report,) = run.chunks
    assert report.outcome == expected
    assert report.next_offset == chunk.compact.next_offset
    assert run.is_open == (row is not None and not is_last)
    assert run.state == (STATE if row is None else row)
    assert (run.unanswered is not None) == (outcome == NO_ANSWER)


@pytest.mark.parametrize("outcome", [TAKEN_OVER, NO_ANSWER])
def test_a_chunk_that_is_not_committed_is_reported_as_planned(outcome: Outcome) -> None:
    result = a_result(PLAN, outcome)
    merged = result.round.with_groups((SegmentGroup(segments=THREE),))
    result = replace(result, round=merged, receipts=result.receipts[:1])
    (report,) = claimed(PLAN).taking(result).chunks
    assert (report.segments_in, report.segments_out) == (3, 2)


def test_the_rest_begins_at_the_end_of_the_chunk_on_the_row_that_it_wrote() -> None:
    chunk = first_chunk()
    run = claimed(chunk).taking(a_result(chunk, COMMITTED, ROW))
    rest = run.plan.compact
    assert (rest.first_dirty, rest.next_offset, rest.chunks_done) == (22, 33, 1)
    assert rest.sources == THREE
    assert run.plan.view is not None
    assert run.plan.view.state == ROW
    assert run.aborted == ABORTED


def test_after_the_last_chunk_the_plan_is_unchanged() -> None:
    run = claimed(PLAN).taking(a_result(PLAN, COMMITTED, ROW))
    assert (run.plan, run.aborted) == (PLAN, ())


def test_chunks_are_reported_together() -> None:
    chunk = first_chunk()
    run = claimed(chunk).taking(a_result(chunk, COMMITTED, ROW))
    run = run.beginning(run.plan, 9)
    run = run.taking(a_result(run.begun, COMMITTED, ROW))
    assert (len(run.chunks), run.began_at_ms) == (2, 9)
    assert run.report.outcome == COMPACTED
    assert "in 2 chunks" in run.report.notes


def test_a_run_that_is_left_between_chunks_says_so() -> None:
    chunk = first_chunk()
    run = claimed(chunk).taking(a_result(chunk, COMMITTED, ROW)).leaving("time is up")
    assert run.report.outcome == COMPACTED
    assert run.report.reason == "the rest is left for the next run: time is up"


@pytest.mark.parametrize(
    ("answer", "row", "expected"),
    [
        pytest.param(COMMITTED, ROW, COMPACTED, id="the row shows the commit"),
        pytest.param(TAKEN_OVER, None, FENCED, id="another run holds the row"),
        pytest.param(NO_ANSWER, None, UNKNOWN, id="there is still no answer"),
    ],
)
def test_a_late_answer_replaces_the_unanswered_report(
    answer: Outcome, row: PartitionState | None, expected: str
) -> None:
    chunk = first_chunk()
    lost = claimed(chunk).taking(a_result(chunk, NO_ANSWER))
    assert (lost.is_open, lost.report.outcome) == (False, UNKNOWN)
    run = lost.taking(a_result(chunk, answer, row))
    (report,) = run.chunks
    assert report.outcome == expected
    assert (run.unanswered is None) == (answer != NO_ANSWER)
    assert run.is_open == (row is not None)


def test_a_late_answer_to_a_later_chunk_keeps_the_reports_before_it() -> None:
    chunk = first_chunk()
    run = claimed(chunk).taking(a_result(chunk, COMMITTED, ROW))
    run = run.beginning(run.plan, 9)
    before = run.chunks
    run = run.taking(a_result(run.begun, NO_ANSWER)).taking(a_result(run.begun, COMMITTED, ROW))
    assert run.chunks[:1] == before
    assert [report.outcome for report in run.chunks] == [COMPACTED, COMPACTED]


def test_segments_uploaded_since_the_plan_wait_for_the_next_run() -> None:
    chunk = first_chunk()
    row = replace(ROW, segments=a_chain(11, 11, 11, 11))
    run = claimed(chunk).taking(a_result(chunk, COMMITTED, row))
    assert run.plan.compact.next_offset == 33
