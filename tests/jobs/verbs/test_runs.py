"""`runs` sums the rows of the table `runs` by run, and shows one run in full."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import tierfold as api
from tests.jobs.commands import ALWAYS, CLOCK, tierfold
from tests.jobs.tiers import flip_last_byte, folder_of, key_of, updated_tier
from tests.storage.catalog_contract import A_RUN
from tierfold.jobs.verbs.runs import COLUMNS, RunPartition, RunSummary, summaries
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import RUNS, RUNS_RENAMED, RunRow
from tierfold.storage.clock import now_ms
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

A_ROW: Final = replace(
    A_RUN,
    outcome="compacted",
    started_at_ms=1000,
    finished_at_ms=3000,
    bytes_in=3000,
    bytes_out=1000,
    task_ms=40,
)


def summed(*rows: RunRow) -> tuple[RunSummary, ...]:
    columns = {
        field.name: pa.array(
            [getattr(row, RUNS_RENAMED.get(field.name, field.name)) for row in rows], field.type
        )
        for field in RUNS
        if field.name in COLUMNS
    }
    return summaries(pa.table(columns))


def named(row: RunRow) -> RunPartition:
    return RunPartition(
        topic=row.topic,
        partition=row.partition,
        outcome=row.outcome,
        reason=row.reason,
        task_ms=row.task_ms or 0,
    )


def test_no_rows_are_no_runs() -> None:
    assert summed() == ()


def test_runs_of_one_second_are_in_the_order_of_their_time() -> None:
    first, second = (
        replace(A_ROW, run=f"20261129T065300-{name}", started_at_ms=at_ms)
        for name, at_ms in (("b", 1000), ("a", 1400))
    )
    assert [one.run for one in summed(first, second)] == [second.run, first.run]


def test_a_run_has_the_sums_of_its_partitions() -> None:
    failed = replace(A_ROW, partition=4, outcome="failed", reason="it is corrupt", bytes_out=0)
    idle = replace(A_ROW, partition=5, outcome="nothing_to_do", bytes_in=0, bytes_out=0)
    slow = replace(A_ROW, topic="bills", finished_at_ms=9000, task_ms=900, cost_usd=2.5)
    idle = replace(idle, task_ms=None, bytes_read=None, bytes_written=None, cost_usd=None)
    (found,) = summed(A_ROW, failed, slow, idle)
    assert found == RunSummary(
        run=A_ROW.run,
        command="compact",
        started_at_ms=1000,
        finished_at_ms=9000,
        partitions={"compacted": 2, "failed": 1, "nothing_to_do": 1},
        bytes_in=6000,
        bytes_out=2000,
        bytes_read=18_000,
        bytes_written=3600,
        cost_usd=2.5,
        tierfold_version="0.1.0",
        failed=(named(failed),),
        slowest=(named(slow), named(A_ROW), named(failed)),
    )
    assert (found.duration_ms, found.saved_bytes) == (8000, 4000)


def test_each_chunk_replaces_what_the_one_before_it_wrote() -> None:
    first = replace(A_ROW, outcome="compacted", bytes_in=3000, bytes_out=1000)
    second = replace(first, chunk=1, bytes_in=1500, bytes_out=1200, finished_at_ms=4000)
    last = replace(second, chunk=2, outcome="failed", reason="odd", bytes_in=7, bytes_out=0)
    for rows in ((first, second, last), (last, second, first)):
        (found,) = summed(*rows)
        assert (found.bytes_in, found.bytes_out, found.saved_bytes) == (3500, 1200, 2300)
        assert found.partitions == {"failed": 1}
        assert [one.reason for one in found.failed] == ["odd"]
        assert [one.task_ms for one in found.slowest] == [120]


def test_runs_come_newest_first_and_name_five_slow_partitions() -> None:
    rows = [replace(A_ROW, partition=n, task_ms=n) for n in range(8)]
    late = replace(A_ROW, run="20260102T000000-0", command="vacuum", outcome="vacuumed")
    newest, oldest = summed(*rows, late)
    assert (newest.run, newest.command) == (late.run, "vacuum")
    assert [one.partition for one in oldest.slowest] == [7, 6, 5, 4, 3]


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tier after a night in which one of its partitions failed, and one that did nothing."""
    tier = updated_tier(
        tmp_path_factory.mktemp("nights") / "tier", [key_of("orders"), key_of("bills")], 2
    )
    flip_last_byte(next(iter(sorted(folder_of(tier, key_of("bills")).glob("*.log")))))
    assert tierfold("compact", tier, *ALWAYS, "--json").code == 3
    # Their names have seconds, and `--limit` takes the last names.
    later = (CLOCK, str(now_ms() + 2000))
    assert tierfold("compact", tier, *ALWAYS, "--topic", "orders", "--json", *later).code == 0
    return tier


def test_the_table_shows_what_failed_and_what_was_slow(nights: Path) -> None:
    ran = tierfold("runs", nights)
    assert ran.code == 0
    first, second = [run.run for run in api.runs(nights).runs]
    assert ran.stdout.index(first) < ran.stdout.index(second)
    # A newer run of the verb followed, so the reason is left to `--run`.
    assert "bills-0 failed" in ran.stdout
    assert "bills-0 failed: " not in ran.stdout
    reason = tierfold("runs", nights, "--run", second).stdout
    assert "bad CRC" in " ".join(reason.split())
    last = tierfold("runs", nights, "--limit", "1", "-o", "wide")
    assert "bills" not in last.stdout
    assert second not in last.stdout


def test_the_document_has_the_runs_and_of_one_run_its_partitions(nights: Path) -> None:
    document = tierfold("runs", nights, "--json").document
    newest, oldest = document["runs"]
    assert (newest["outcome"], oldest["outcome"]) == ("nothing_to_do", "failed")
    assert oldest["partitions"]["compacted"] == oldest["partitions"]["failed"] == 1
    assert oldest["saved_bytes"] == oldest["bytes_in"] - oldest["bytes_out"] > 0
    assert [one["topic"] for one in oldest["failed"]] == ["bills"]
    assert "bills" in oldest["reason"]
    one = tierfold("runs", nights, "--run", oldest["run"], "--json").document
    assert one["runs"] == [oldest]
    rows = {row.topic: row for row in RunsTable(str(nights / CATALOG_FOLDER)).read()[:2]}
    assert {entry["topic"]: entry["counts"] for entry in one["partitions"]} == {
        topic: row.counts for topic, row in rows.items()
    }
    assert one["stage_seconds"].keys() >= {"survey", "scan"}


def test_only_and_sort_choose_as_in_other_verbs(nights: Path) -> None:
    failed = tierfold("runs", nights, "--only", "failed", "--sort", "took", "--json").document
    assert [run["outcome"] for run in failed["runs"]] == ["failed"]
    run = failed["runs"][0]["run"]
    shown = tierfold("runs", nights, "--run", run, "--only", "failed", "-o", "csv")
    (entry,) = csv.DictReader(io.StringIO(shown.stdout))
    assert (entry["topic"], entry["outcome"]) == ("bills", "failed")
    listed = [*csv.DictReader(io.StringIO(tierfold("runs", nights, "-o", "csv").stdout))]
    assert [entry["verb"] for entry in listed] == ["compact", "compact"]
    wrong = tierfold("runs", nights, "--run", run, "--sort", "cost", "--json")
    assert wrong.document["outcome"] == "bad_settings"
    assert tierfold("runs", nights, "--run", run, "--sort", "took").code == 0


def test_a_name_must_be_of_one_run(nights: Path) -> None:
    unknown = tierfold("runs", nights, "--run", "1999").stderr
    assert "no run '1999' is recorded" in unknown
    assert "the beginning of 2 runs" in tierfold("runs", nights, "--run", "2").stderr
    # What the remedy says.
    assert "`tierfold runs TIER` lists the last runs" in unknown
    name = api.runs(nights).runs[0].run
    assert tierfold("runs", nights, "--run", name).code == 0


def test_without_a_catalog_there_are_no_runs_and_none_is_made(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [key_of("orders")], 1)
    assert "No run is recorded" in tierfold("runs", tier).stdout
    found: Any = api.runs(tier)
    assert len(found.to_pandas()) == 0
    assert not (tier / CATALOG_FOLDER).exists()
