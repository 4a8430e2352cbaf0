"""Aiven's layout keeps the contract of a layout: plain, zstd, encrypted and both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.storage.emulators import new_bucket, new_name
from tests.storage.new_ids import own_id
from tests.storage.tiers.aiven.rsa_keys import key_file
from tests.storage.tiers.remote_tier_contract import KEY, RemoteTierContract
from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.storage.tiers.aiven.aiven_tier import AivenTier
from tierfold.storage.tiers.aiven.object_names import Suffix
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.layout_options import Layout, LayoutOptions
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER, Part, RemoteTier, SegmentAddress
from tierfold.storage.tiers.store_options import StoreOptions
from tierfold.storage.tiers.tier_uris import open_tier

CHUNK_BYTES = 5
"""Less than any part, so that there are several chunks."""


class AivenLayout(RemoteTierContract):
    objects = len(Suffix)
    first_read = Suffix.MANIFEST
    no_tier_says = "no topic of Aiven's tiered storage plugin"
    prefix = ""
    is_compressed = False
    is_encrypted = False

    @pytest.fixture(autouse=True)
    def _layout(self, tmp_path: Path) -> None:
        self.layout = LayoutOptions(
            layout=Layout.AIVEN,
            key_prefix=self.prefix,
            key_files=(key_file(tmp_path / "keys"),) if self.is_encrypted else (),
            chunk_bytes=CHUNK_BYTES,
            is_compressed=self.is_compressed,
            is_encrypted=self.is_encrypted,
        )


class InAFolder(AivenLayout):
    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path, _layout: None) -> None:
        self.folder = tmp_path
        (tmp_path / "tier").mkdir()
        self.tier = open_tier(str(tmp_path / "tier"), layout_options=self.layout)

    def create_catalog(self) -> None:
        (self.folder / "tier" / f"{self.prefix}{CATALOG_FOLDER}").mkdir(parents=True, exist_ok=True)

    def no_tier(self) -> RemoteTier:
        (self.folder / "other" / self.prefix.rpartition("/")[0] / "things").mkdir(parents=True)
        return AivenTier(LocalStore(self.folder / "other"), self.layout)


class TestPlainInAFolder(InAFolder):
    def test_a_hidden_file_is_an_unfinished_write_of_its_segment(self) -> None:
        self.write(KEY, 0)
        (log,) = (self.folder / "tier").glob("*/7/*.log")
        left = log.with_name(f".{log.name}.0123.staged")
        left.write_bytes(b"half")
        (found,) = self.tier.incomplete_uploads([KEY])[KEY]
        assert (found.segment_id, found.size_bytes) == (log.name[21:43], 4)
        self.tier.delete(found.object_key)
        assert not left.exists()

    def test_a_plain_log_is_stored_as_it_is(self) -> None:
        address = self.write(KEY, 0)
        (path,) = (self.folder / "tier").glob("*/7/*.log")
        assert path.read_bytes() == self.tier.read_part(address, Part.LOG).tobytes()


class TestZstdInAFolder(InAFolder):
    is_compressed = True
    prefix = "cluster-a/tiered/"


class TestEncryptedInAFolder(InAFolder):
    is_encrypted = True
    prefix = "cluster-a-"


class TestBothInAFolder(InAFolder):
    is_compressed = is_encrypted = True


class InABucket(AivenLayout):
    store: BucketStore

    def create_catalog(self) -> None:
        name = f"{self.prefix}{CATALOG_FOLDER}"
        self.store.create(f"{name}/partitions/_delta_log/0.json", b"{}")

    def no_tier(self) -> RemoteTier:
        other = replace(self.store, path="other")
        other.create(f"{self.prefix.rpartition('/')[0]}/things/x".lstrip("/"), b"x")
        return AivenTier(other, self.layout)

    def test_without_segment_and_catalog_it_is_no_tier(self) -> None:
        with pytest.raises(BadSettings, match="in it, nor any other folder") as caught:
            self.tier.check()
        assert "as TIER, and their key.prefix only with --key-prefix" in caught.value.remedy
        top = self.prefix.rpartition("/")[0]
        assert caught.value.where == self.store.uri(top)

    def test_a_prefix_without_its_slash_is_completed(self) -> None:
        self.store.create(f"{self.prefix}clusters/orders-{KEY.topic_id}/0/x", b"x")
        layout = replace(self.layout, key_prefix=f"{self.prefix}clusters")
        with pytest.raises(BadSettings, match="in it, but") as caught:
            AivenTier(self.store, layout).check()
        assert f"Write --key-prefix {self.prefix}clusters/, with its slash" in caught.value.remedy

    def test_other_objects_are_no_segments(self) -> None:
        self.write(KEY, 0)
        topic = f"{self.prefix}orders-{KEY.topic_id}"
        numbers = ("x", "07", "2147483648", "-1")
        names = ("y", f"{'9' * 20}-{KEY.topic_id}.log", f"{'0' * 20}-{KEY.topic_id}.txt")
        for key in (
            "x",
            f"{self.prefix}.-{KEY.topic_id}/0/y",
            *(f"{topic}/{number}/y" for number in numbers),
            *(f"{topic}/7/{name}" for name in names),
        ):
            self.store.create(key, b"x")
        assert self.tier.partitions() == (KEY,)
        assert len(self.tier.listing(KEY)) == 1


class InMemory(InABucket):
    @pytest.fixture(autouse=True)
    def _in_memory(self, _layout: None) -> None:
        self.store = BucketStore("memory", new_name(), "a/tier", StoreOptions())
        self.tier = AivenTier(self.store, self.layout)


class TestPlainInMemory(InMemory):
    prefix = "a/b"


class TestZstdInMemory(InMemory):
    is_compressed = True


class TestEncryptedInMemory(InMemory):
    is_encrypted = True


class TestBothInMemory(InMemory):
    is_compressed = is_encrypted = True
    prefix = "cluster-a/tiered/"


class TestBothOnS3(InABucket):
    is_compressed = is_encrypted = True

    @pytest.fixture(autouse=True)
    def _on_s3(self, s3_endpoint: str, _layout: None) -> None:
        bucket, options = new_bucket(s3_endpoint), StoreOptions(endpoint=s3_endpoint, retries=1)
        self.store = BucketStore("s3", bucket, "a/tier", options)
        self.tier = open_tier(f"s3://{bucket}/a/tier", options, self.layout)

    def test_unfinished_uploads_have_the_ids_of_their_segments(self) -> None:
        client = self.store._clients.s3.client
        ours, theirs = own_id(), "xkx6IDUAQ0iGr3JsI9k8Fw"
        for segment_id in (ours, theirs):
            for suffix in Suffix:
                address = SegmentAddress(KEY, segment_id, 0)
                key = f"a/tier/{self.tier.names.object_key(address, suffix)}"
                client.create_multipart_upload(Bucket=self.store.bucket, Key=key)
        found = self.tier.incomplete_uploads([KEY])[KEY]
        assert sorted(upload.segment_id for upload in found) == sorted([ours, theirs] * 3)
        assert all(upload.segment_id in upload.object_key for upload in found)
        for upload in found:
            self.tier.delete(upload.object_key)
        assert self.tier.incomplete_uploads([KEY])[KEY] == ()

    def test_a_missing_bucket_is_not_an_empty_tier(self) -> None:
        gone = AivenTier(replace(self.store, bucket=new_name()), self.layout)
        for use in (gone.check, gone.partitions, lambda: gone.listing(KEY)):
            with pytest.raises(UnreadableObject, match="the bucket does not exist"):
                use()
