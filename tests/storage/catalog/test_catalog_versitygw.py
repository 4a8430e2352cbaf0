"""The catalog keeps its contract on versitygw, which serves requests in parallel; moto does not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.storage.catalog.test_catalog_in_a_bucket import contention
from tests.storage.catalog_contract import CatalogContract
from tests.storage.emulators import new_bucket, s3_environment, versitygw
from tierfold.storage.catalog.catalog import Catalog


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
