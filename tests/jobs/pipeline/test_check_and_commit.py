"""Stages 7 and 8 commit valid rounds; a changed object keeps its partition uncommitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.jobs.claimed_rounds import claimed_rounds, tasks_of
from tests.jobs.commands import told
from tests.jobs.tiers import files_below, folder_of, key_of, updated_tier
from tests.storage.call_scripts import Script, fails
from tests.storage.scripted_catalog import ScriptedCatalog
from tests.storage.scripted_store import CORRUPTIONS, ScriptedStore
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.receipts import GroupResult
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.outcomes import Committed, Unknown
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.engines.scan import summed
from tierfold.jobs.pipeline.check_and_commit import check_and_commit, with_outcome
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.round_execution import RoundResult
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Part

ORDERS, PAYMENTS = key_of("orders"), key_of("payments")
ALWAYS_THERE: Final = [part for part in Part if part is not Part.TRANSACTION_INDEX]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Claimed rounds whose groups are rewritten; nothing is committed yet."""

    held: HeldPartitions
    tier: Path
    rewritten: list[RoundResult]

    @property
    def context(self) -> RunContext:
        return self.held.context

    def held_with(self, **changes: Any) -> HeldPartitions:
        """The same partitions, held by a run with changes to its context."""
        return replace(self.held, context=replace(self.context, **changes))

    def check_and_commit(self) -> dict[str, RoundResult]:
        results = check_and_commit(self.held, self.rewritten)
        assert [result.round for result in results] == [kept.round for kept in self.rewritten]
        return {result.round.key.topic: result for result in results}

    def path_of(self, part: Part) -> Path:
        """The path of an object of the new segment of orders."""
        (segment,) = (r.segment for r in self.rewritten[0].receipts if r.segment is not None)
        (path,) = folder_of(self.tier, ORDERS).glob(f"*-{segment.segment_id}.{part}")
        return path


def rewritten_by(context: RunContext, work: Round) -> RoundResult:
    """Rewrite the round's groups; no record is superseded."""
    receipts = tuple(
        rewrite_group(context.tier, task, lambda _: np.zeros(1000, np.uint8))
        for task in tasks_of(work)
    )
    scan = replace(
        summed(()),
        records=sum(receipt.counts.records_in for receipt in receipts),
        record_bytes=sum(receipt.counts.record_bytes_in for receipt in receipts),
    )
    return RoundResult(round=work, scan=scan, receipts=receipts)


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    tier = updated_tier(tmp_path / "tier", (ORDERS, PAYMENTS), segments=2)
    held, rounds = claimed_rounds(tier, "index.interval.bytes=1")
    rewritten = [rewritten_by(held.context, work) for work in rounds]
    return Staged(held=held, tier=tier, rewritten=rewritten)


def test_valid_rounds_are_committed_and_the_results_have_the_rows(staged: Staged) -> None:
    results = staged.check_and_commit()
    assert all(isinstance(result.outcome, Committed) for result in results.values())
    states = {result.round.key: result.state for result in results.values()}
    assert states == staged.context.catalog.read()
    assert {result.failure for result in results.values()} == {None}


@pytest.mark.parametrize("part", ALWAYS_THERE)
@pytest.mark.parametrize("corrupt", ["gone", "shorter", "longer", "empty"])
def test_a_round_with_an_object_that_has_changed_is_not_committed(
    staged: Staged, part: Part, corrupt: str
) -> None:
    before = staged.context.catalog.read()[ORDERS]
    path = staged.path_of(part)
    CORRUPTIONS[corrupt](path)
    results = staged.check_and_commit()
    orders = results["orders"]
    assert (orders.outcome, orders.state) == (None, None)
    assert not told(orders.failure or "", "orders-0", path.name, "nothing was committed")
    assert staged.context.catalog.read()[ORDERS] == before
    assert isinstance(results["payments"].outcome, Committed)


def test_a_commit_has_the_time_of_its_write_not_of_the_runs_start(staged: Staged) -> None:
    # The grace period of retired segments starts then: a run may take longer than that.
    hours_later_ms = staged.context.now_ms + 30 * 3_600_000
    check_and_commit(staged.held_with(clock=lambda: hours_later_ms), staged.rewritten)
    for row in staged.context.catalog.read().values():
        assert row.committed_at_ms == hours_later_ms
        assert {entry.retired_at_ms for entry in row.retired} == {hours_later_ms}


def test_a_round_whose_folder_cannot_be_listed_is_not_committed(staged: Staged) -> None:
    error = UnreadableObject("no permission", where="the folder", remedy="Allow it.")
    tier = LocalTieredStorage(ScriptedStore(staged.tier, Script(fails("list", error))))
    before = staged.context.catalog.read()
    results = check_and_commit(staged.held_with(tier=tier), staged.rewritten)
    assert all("no permission" in (result.failure or "") for result in results)
    assert staged.context.catalog.read() == before


def test_if_nothing_was_written_nothing_is_listed(staged: Staged) -> None:
    def unchanged(rewritten: RoundResult) -> RoundResult:
        work, written = rewritten.round, rewritten.receipts[0]
        group = replace(work.groups[0], segments=work.groups[0].segments[:1])
        unstaged = replace(written, written=(), bytes_written=0)
        receipt = replace(unstaged, result=GroupResult.UNCHANGED)
        compact = replace(work.compact, groups=(group,), next_offset=group.end_offset + 1)
        one = replace(work, plan=replace(work.plan, choice=compact))
        return replace(rewritten, round=one, receipts=(receipt,))

    rounds = [unchanged(partition) for partition in staged.rewritten]
    store = ScriptedStore(staged.tier)
    tier = LocalTieredStorage(store)
    results = check_and_commit(staged.held_with(tier=tier), rounds)
    assert all(isinstance(result.outcome, Committed) for result in results)
    assert not store.script.of("list")


@pytest.mark.parametrize("what", ["records", "record_bytes"])
def test_a_round_whose_scan_counted_otherwise_is_not_committed(staged: Staged, what: str) -> None:
    first = staged.rewritten[0]
    scan = replace(first.scan, **{what: getattr(first.scan, what) + 1})
    staged.rewritten[0] = replace(first, scan=scan)
    results = staged.check_and_commit()
    assert not told(results["orders"].failure or "", "contradict each other", "the scan counted")
    assert results["orders"].outcome is None
    assert isinstance(results["payments"].outcome, Committed)


def test_failed_rounds_are_passed_on_without_the_catalog(staged: Staged) -> None:
    staged.rewritten[:] = [replace(partition, failure="it broke") for partition in staged.rewritten]
    before = files_below(staged.tier / "_tierfold")
    results = staged.check_and_commit()
    assert {result.failure for result in results.values()} == {"it broke"}
    assert {result.outcome for result in results.values()} == {None}
    assert files_below(staged.tier / "_tierfold") == before


def test_a_result_has_the_outcome_that_is_known_by_now(staged: Staged) -> None:
    script = Script(fails("commit", is_done=True))
    held = staged.held_with(catalog=ScriptedCatalog(staged.context.catalog_uri, script))
    staged.rewritten[1] = replace(staged.rewritten[1], failure="it broke")
    orders, payments = check_and_commit(held, staged.rewritten)
    assert isinstance(orders.outcome, Unknown)
    assert (orders.state, payments.outcome) == (None, None)
    held.settle()
    row = staged.context.catalog.read()[ORDERS]
    committed = Committed(epoch=1, commit_id=row.commit_id)
    assert with_outcome(orders, held) == replace(orders, outcome=committed, state=row)
