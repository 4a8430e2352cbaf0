"""`LocalTieredStorage` keeps the contract of a layout in a folder, in memory and on S3."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.storage.emulators import new_bucket, new_name
from tests.storage.tiers.remote_tier_contract import KEY, RemoteTierContract
from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, LocalTieredStorage
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER, PARTS, RemoteTier
from tierfold.storage.tiers.store_options import StoreOptions
from tierfold.storage.tiers.tier_uris import open_tier


class LocalLayout(RemoteTierContract):
    objects = len(PARTS)
    first_read = "log"
    no_tier_says = TIER_FOLDER


class TestInAFolder(LocalLayout):
    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        (tmp_path / "tier" / TIER_FOLDER).mkdir(parents=True)
        self.tier = open_tier(str(tmp_path / "tier"))

    def create_catalog(self) -> None:
        (self.folder / "tier" / CATALOG_FOLDER).mkdir()

    def no_tier(self) -> RemoteTier:
        (self.folder / "other" / "things").mkdir(parents=True)
        return LocalTieredStorage(LocalStore(self.folder / "other"))


class InABucket(LocalLayout):
    store: BucketStore

    def create_catalog(self) -> None:
        self.store.create(f"{CATALOG_FOLDER}/partitions/_delta_log/0.json", b"{}")

    def no_tier(self) -> RemoteTier:
        other = replace(self.store, path="other")
        other.create("things/x", b"x")
        return LocalTieredStorage(other)

    def test_without_segment_and_catalog_it_is_no_tier(self) -> None:
        with pytest.raises(BadSettings, match="in it, nor any other folder") as caught:
            self.tier.check()
        assert caught.value.where == self.store.uri("")
        assert "create an empty object kafka-tiered-storage/ in it" in caught.value.remedy
        self.store.create(f"{TIER_FOLDER}/notes.txt", b"x")
        self.tier.check()
        assert self.tier.partitions() == ()

    def test_other_objects_are_no_segments(self) -> None:
        self.write(KEY, 0)
        for key in ("other/x", f"{TIER_FOLDER}/orders-7-no-id/x", f"{TIER_FOLDER}/x", "x"):
            self.store.create(key, b"x")
        assert self.tier.partitions() == (KEY,)
        assert len(self.tier.listing(KEY)) == 1


class TestInMemory(InABucket):
    @pytest.fixture(autouse=True)
    def _in_memory(self) -> None:
        self.store = BucketStore("memory", new_name(), "a/tier", StoreOptions())
        self.tier = LocalTieredStorage(self.store)


class TestOnS3(InABucket):
    @pytest.fixture(autouse=True)
    def _on_s3(self, s3_endpoint: str) -> None:
        bucket, options = new_bucket(s3_endpoint), StoreOptions(endpoint=s3_endpoint, retries=1)
        self.store = BucketStore("s3", bucket, "a/tier", options)
        self.tier = open_tier(f"s3://{bucket}/a/tier", options)

    def test_the_marker_of_a_console_makes_an_empty_tier(self) -> None:
        client = self.store._clients.s3.client
        client.put_object(Bucket=self.store.bucket, Key=f"a/tier/{TIER_FOLDER}/", Body=b"")
        self.tier.check()
        assert self.tier.partitions() == ()

    def test_a_missing_bucket_is_not_an_empty_tier(self) -> None:
        gone = LocalTieredStorage(replace(self.store, bucket=new_name()))
        for use in (gone.check, gone.partitions, lambda: gone.listing(KEY)):
            with pytest.raises(UnreadableObject, match="the bucket does not exist"):
                use()
