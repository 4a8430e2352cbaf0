"""Partitions that another run holds, and what a run at work on them leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.jobs.claims import ORDERS, catalog_of, row_of
from tests.jobs.commands import ALWAYS, Ran, tierfold
from tests.jobs.tiers import (
    key_of,
    put_updates,
)
from tests.jobs.vacuum_tiers import compacted
from tierfold.compaction.commits.commit import ReleaseClaim, proposed
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.verbs import waiting
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import RunRow

PAYMENTS = key_of("payments")
ALIVE = ("run holder of `compact` on node-7 (process 31) is at work on it", "its last sign of life")


def two_held(folder: Path) -> Path:
    """A tier of two partitions; both were compacted and have more to do, and "holder" has both."""
    tier = compacted(folder, ORDERS, PAYMENTS, segments=2)
    for key in (ORDERS, PAYMENTS):
        put_updates(tier, key, 2)
        held(tier, key)
    return tier


def held(tier: Path, key: PartitionKey, run: str = "holder") -> None:
    """Claim the partition for a run."""
    catalog_of(tier).claim([row_of(tier, key)], run, at_ms=1)


def freed(tier: Path, key: PartitionKey) -> None:
    """Release the partition."""
    row = row_of(tier, key)
    release = proposed(row, ReleaseClaim(run=row.owner_run), commit_id=new_commit_id(), at_ms=2)
    catalog_of(tier).commit([release])


def compact(tier: Path, *arguments: str) -> Ran:
    """Run `compact` with a JSON document."""
    return tierfold("compact", tier, *ALWAYS, "--json", *arguments)


def both(outcome: str) -> dict[tuple[str, int], str]:
    """The outcomes of a run in which both partitions end alike."""
    return {("orders", 0): outcome, ("payments", 0): outcome}


def rows_of(tier: Path, ran: Ran) -> list[RunRow]:
    """What the run has recorded."""
    run = ran.document["run"]
    return [row for row in RunsTable(str(tier / "_tierfold")).read() if row.run == run]


@contextmanager
def soon(act: Callable[[], object], after_s: float = 0.3) -> Iterator[None]:
    """Do it while the block runs."""
    timer = threading.Timer(after_s, act)
    timer.start()
    yield
    timer.join()


def poll_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs that wait look every tenth of a second."""
    monkeypatch.setattr(waiting, "POLL_MS", 100)
    monkeypatch.setattr(waiting, "_STEP_MS", 50)
