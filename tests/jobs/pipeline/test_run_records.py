"""A run records a row for every partition, even if it tried nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.jobs.commands import COMPACT, tierfold
from tests.jobs.tiers import files_below, key_of, made_tier, put_updates
from tests.storage.catalog_contract import fresh
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import RunRow
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

IDLE = (*COMPACT, "--set", "min.cleanable.dirty.ratio=1")
"""No partition is dirtier than that."""


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """A partition with nothing to do, and one that is refused; no Spark is needed."""
    tier = made_tier(tmp_path / "tier")
    put_updates(tier, key_of("orders"), 0)
    for number in (0, 2):
        put_updates(tier, key_of("gap"), number)
    return tier


def rows(tier: Path) -> list[RunRow]:
    return list(RunsTable(str(tier / CATALOG_FOLDER)).read())


@pytest.mark.parametrize("verb", ["compact", "vacuum"])
def test_an_idle_or_refused_partition_gets_a_row(verb: str, tier: Path) -> None:
    Catalog(str(tier / CATALOG_FOLDER)).claim([fresh()], "another", at_ms=1)
    ran = tierfold(verb, tier, *IDLE, "--json")
    assert (ran.code, ran.stderr) == (3, "")
    assert ran.outcomes == {("orders", 0): "nothing_to_do", ("gap", 0): "refused"}
    found = {(row.topic, row.partition): row for row in rows(tier)}
    assert len(rows(tier)) == len(found) == 2
    for place, entry in ran.partitions.items():
        row = found[place]
        assert (row.outcome, row.reason) == (entry["outcome"], entry["reason"])
        assert (row.command, row.chunk) == (verb, 0)
        assert row.run == json.loads(ran.stdout)["run"]


def test_a_partition_that_the_budget_leaves_gets_a_row(tier: Path) -> None:
    Catalog(str(tier / CATALOG_FOLDER)).claim([fresh()], "another", at_ms=1)
    budget = ("--max-duration", "0s", "--topic", "orders")
    assert tierfold("compact", tier, *COMPACT, *budget, "--engine", "local").code == 0
    assert [(row.topic, row.outcome) for row in rows(tier)] == [("orders", "left")]


@pytest.mark.parametrize("verb", ["compact", "vacuum"])
def test_a_run_that_begins_nothing_makes_no_catalog(verb: str, tier: Path) -> None:
    # A lost catalog is restored from a backup to this folder, which must not exist.
    before = files_below(tier)
    assert tierfold(verb, tier, *IDLE).code == 3
    assert files_below(tier) == before
    assert not (tier / CATALOG_FOLDER).exists()


def test_a_dry_run_leaves_no_row(tier: Path) -> None:
    Catalog(str(tier / CATALOG_FOLDER)).claim([fresh()], "another", at_ms=1)
    for verb in ("compact", "vacuum"):
        assert tierfold(verb, tier, *IDLE, "--dry-run").code == 3
    assert rows(tier) == []


def test_a_catalog_that_cannot_be_made_is_not_said_to_lack_a_record(tier: Path) -> None:
    (tier / CATALOG_FOLDER).write_bytes(b"no folder")
    ran = tierfold("compact", tier, *COMPACT, "--topic", "orders", "--engine", "local")
    assert ran.code == 3
    assert "could not be recorded" not in ran.stderr
