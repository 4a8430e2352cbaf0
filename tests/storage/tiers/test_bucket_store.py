"""`BucketStore` keeps the contract of every object store: in memory, and on S3."""

from __future__ import annotations

import pytest

from tests.storage.emulators import IDENTITY, moto, new_bucket, new_name
from tests.storage.object_store_contract import MIB, RealStoreContract
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.store_options import StoreOptions

PART = 5 * MIB


class TestInMemory(RealStoreContract):
    unfinished_bytes = 0

    @pytest.fixture(autouse=True)
    def _in_memory(self) -> None:
        self.store = BucketStore("memory", new_name(), "a/prefix", StoreOptions(part_bytes=PART))


class TestMoto(RealStoreContract):
    unfinished_bytes = PART
    if_aborted = "the store reports an internal error"
    computes_checksums = False

    @pytest.fixture(autouse=True)
    def _on_s3(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in IDENTITY.items():
            monkeypatch.setenv(name, value)
        endpoint = moto()
        options = StoreOptions(endpoint=endpoint, part_bytes=PART, retries=2)
        self.store = BucketStore("s3", new_bucket(endpoint), "a/prefix", options)
