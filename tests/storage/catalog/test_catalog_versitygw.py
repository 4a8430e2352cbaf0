"""The catalog keeps its contract on versitygw, which serves requests in parallel; moto does not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.storage.catalog.test_catalog_in_a_bucket import contention, merge_runs
from tests.storage.catalog_contract import A_RUN, CatalogContract
from tests.storage.emulators import new_bucket, s3_environment, versitygw
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.tiers.store_options import ENVIRONMENT


@pytest.fixture
def uri(monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3_environment(versitygw()).items():
        monkeypatch.setenv(name, value)
    return f"s3://{new_bucket(versitygw())}/tier/_tierfold"


class TestCatalogOnVersitygw(CatalogContract):
    @pytest.fixture
    def catalog(self, uri: str) -> Catalog:
        return Catalog(uri)


def test_contended_claims_and_commits_are_neither_lost_nor_doubled(uri: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        claims, _, lost = contention(uri, threads, "abcd", 20)
    assert claims >= 80
    assert lost > 0


def test_merged_files_of_runs_have_all_rows(uri: str) -> None:
    rows = [replace(A_RUN, run=f"2026010{day}T010000-x") for day in range(1, 5)]
    for row in rows:
        RunsTable(uri).append([row])
    merge_runs(uri, ENVIRONMENT)
    assert RunsTable(uri).read() == tuple(rows)
    last = RunsTable(uri).last(2, ["run"])
    assert set(last["run"].to_pylist()) == {row.run for row in rows[2:]}
