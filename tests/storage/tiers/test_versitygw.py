"""`BucketStore` keeps the contract on versitygw, whose multipart checksums are right."""

from __future__ import annotations

import pytest

from tests.storage.emulators import new_bucket, versitygw
from tests.storage.object_store_contract import MIB, RealStoreContract
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.store_options import StoreOptions

PART = 5 * MIB


@pytest.mark.usefixtures("identity")
class TestVersitygw(RealStoreContract):
    unfinished_bytes = PART

    @pytest.fixture(autouse=True)
    def _on_s3(self) -> None:
        endpoint = versitygw()
        options = StoreOptions(endpoint=endpoint, part_bytes=PART, retries=2)
        self.store = BucketStore("s3", new_bucket(endpoint), "a/prefix", options)

    def test_only_a_checksum_that_was_never_sent_counts(self) -> None:
        self.store.create("f/small", b"x")
        assert self.store.stored_checksum("f/small") is None
        self.store.create("f/large", bytes(2 * PART))
        assert self.store.stored_checksum("f/large") is not None
