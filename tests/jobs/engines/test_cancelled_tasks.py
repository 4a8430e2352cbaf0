"""After a signal a task ends before its next window, not only with its segment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from tests.compaction.hash_keys import HASH_KEY
from tests.jobs.claimed_rounds import claimed_rounds, tasks_of
from tests.jobs.tiers import key_of, updated_tier
from tests.storage.live_segments import a_check_order
from tests.storage.stored_logs import small_windows
from tierfold.compaction.cleaning.rounds import Round
from tierfold.jobs.engines.check import CheckStage
from tierfold.jobs.engines.rewrite import RewriteStage
from tierfold.jobs.engines.rows import Row, RowKind, Stage, Worker, pickled
from tierfold.jobs.engines.scan import ScanStage
from tierfold.jobs.engines.task_assignment import scan_rows
from tierfold.storage.tiers.tier_uris import open_tier

ORDERS: Final = key_of("orders")
BATCHES: Final = 3
"""In a segment of updates; each is a window here."""


WorkOf: TypeAlias = "Callable[[Round, Path], tuple[Stage, list[Row]]]"


class Cancelled(BaseException):
    """What the local engine raises in a task after a signal."""


@dataclass(slots=True)
class Asked:
    """Counts how often a task asks whether to go on; the last time it may not."""

    last: int | None = None
    times: int = 0

    def advance(self, size_bytes: int) -> None:
        if size_bytes:
            return
        self.times += 1
        if self.times == self.last:
            raise Cancelled


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", (ORDERS,), segments=1)


@pytest.fixture(autouse=True)
def window_per_batch() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        small_windows(patch, 1)
        yield


def scan(work: Round, tier: Path) -> tuple[Stage, list[Row]]:
    return ScanStage(first_bucket_task={0: 0}), scan_rows([work], cores=2)[0]


def rewrite(work: Round, tier: Path) -> tuple[Stage, list[Row]]:
    (task,) = tasks_of(work)
    stage, rows = scan(work, tier)
    of_scan = [
        found
        for found in ran(tier, stage, rows, Asked())
        if found.kind is not RowKind.OUTLINE  # Without it every batch is read.
    ]
    order = Row(
        task=0, partition_index=0, segment_index=0, kind=RowKind.REWRITE, payload=pickled(task)
    )
    return RewriteStage(), [*of_scan, order]


def rewrite_by_outline(work: Round, tier: Path) -> tuple[Stage, list[Row]]:
    stage, rows = scan(work, tier)
    found = ran(tier, stage, rows, Asked())
    return RewriteStage(), [*found, rewrite(work, tier)[1][-1]]


def check(work: Round, tier: Path) -> tuple[Stage, list[Row]]:
    (segment,) = work.compact.sources
    order = a_check_order(segment, key=ORDERS, buckets=1, hash_key=HASH_KEY)
    row = Row(
        task=0, partition_index=0, segment_index=0, kind=RowKind.CHECK, payload=pickled(order)
    )
    return CheckStage(first_bucket_task={0: 0}), [row]


def ran(tier: Path, stage: Stage, rows: Sequence[Row], asked: Asked) -> list[Row]:
    worker = Worker(tier=open_tier(str(tier)), advance=asked.advance)
    return list(stage(worker, rows))


@pytest.mark.parametrize("work_of", [scan, rewrite, check], ids=lambda work: work.__name__)
def test_a_task_asks_before_each_window_and_ends_there(tier: Path, work_of: WorkOf) -> None:
    (work,) = claimed_rounds(tier)[1]
    stage, rows = work_of(work, tier)
    asked = Asked()
    assert ran(tier, stage, rows, asked)
    assert asked.times == BATCHES
    for last in range(1, BATCHES + 1):
        cancelled = Asked(last=last)
        with pytest.raises(Cancelled):
            ran(tier, stage, rows, cancelled)
        assert cancelled.times == last


def test_a_rewrite_that_reads_some_batches_asks_too(tier: Path) -> None:
    (work,) = claimed_rounds(tier)[1]
    stage, rows = rewrite_by_outline(work, tier)
    with pytest.raises(Cancelled):
        ran(tier, stage, rows, Asked(last=1))


def test_a_cancelled_rewrite_leaves_no_object_behind(tier: Path) -> None:
    (work,) = claimed_rounds(tier)[1]
    stage, rows = rewrite(work, tier)
    before = sorted(tier.rglob("*"))
    with pytest.raises(Cancelled):
        ran(tier, stage, rows, Asked(last=BATCHES))
    assert sorted(tier.rglob("*")) == before
