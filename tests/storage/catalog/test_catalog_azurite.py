"""The catalog keeps its contract on Azurite, Azure's emulator."""

from __future__ import annotations

import pytest

from tests.storage.catalog_contract import A_RUN, CatalogContract, claim, fresh
from tests.storage.emulators import AZURE_ACCOUNT, AZURE_KEY, azurite, new_container
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.delta_tables import CHECKPOINT_INTERVAL
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.tiers.store_options import StoreOptions


class TestCatalogOnAzure(CatalogContract):
    @pytest.fixture
    def options(self, monkeypatch: pytest.MonkeyPatch) -> StoreOptions:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
        return StoreOptions(endpoint=azurite(), account=AZURE_ACCOUNT)

    @pytest.fixture
    def uri(self) -> str:
        return f"az://{new_container(azurite())}/tier/_tierfold"

    @pytest.fixture
    def catalog(self, uri: str, options: StoreOptions) -> Catalog:
        return Catalog(uri, options)

    def test_checkpoints_and_runs(self, uri: str, catalog: Catalog, options: StoreOptions) -> None:
        state = fresh()
        for number in range(CHECKPOINT_INTERVAL + 2):
            state = claim(catalog, state, f"run-{number}").row
        assert catalog.read() == {state.key: state}
        assert len(list(catalog.history(state.key))) == CHECKPOINT_INTERVAL + 2
        assert catalog.clean_up() == 0
        RunsTable(uri, options).append([A_RUN])
        assert RunsTable(uri, options).read() == (A_RUN,)
