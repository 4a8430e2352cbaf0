"""`BucketStore` keeps the contract on Azurite, Azure's emulator."""

from __future__ import annotations

import pytest

from tests.storage.emulators import AZURE_ACCOUNT, AZURE_KEY, azurite, new_container
from tests.storage.object_store_contract import MIB, RealStoreContract
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.store_options import StoreOptions


class TestAzurite(RealStoreContract):
    unfinished_bytes = 0

    @pytest.fixture(autouse=True)
    def _on_azure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
        endpoint = azurite()
        options = StoreOptions(
            endpoint=endpoint, account=AZURE_ACCOUNT, part_bytes=5 * MIB, retries=2
        )
        self.store = BucketStore("az", new_container(endpoint), "a/prefix", options)
