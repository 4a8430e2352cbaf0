"""Places of tiers and catalogs: what is accepted, and what is refused without a secret."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tierfold.compaction.model.errors import BadSettings
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.locations import (
    Location,
    delta_options,
    location_of,
    open_store,
    s3a_options,
)
from tierfold.storage.tiers.store_options import StoreOptions

CANARY = "Kanarienvogel7Qz"


@pytest.mark.parametrize(
    ("text", "expected", "written"),
    [
        ("s3://bucket", Location("s3", "bucket", ""), "s3://bucket"),
        ("S3://my.bucket-1/", Location("s3", "my.bucket-1", ""), "s3://my.bucket-1"),
        (" s3://bucket/a/b=1/ ", Location("s3", "bucket", "a/b=1"), "s3://bucket/a/b=1"),
        ("az://container/a+b", Location("az", "container", "a+b"), "az://container/a+b"),
        ("gs://a_bucket.b/x@y", Location("gs", "a_bucket.b", "x@y"), "gs://a_bucket.b/x@y"),
        ("/a folder", Location("file", "", "/a folder"), "/a folder"),
        ("file:///a%20folder", Location("file", "", "/a folder"), "/a folder"),
        ("/a/s3:/b", Location("file", "", "/a/s3:/b"), "/a/s3:/b"),
        ("/a b:c@d/e?f#g", Location("file", "", "/a b:c@d/e?f#g"), "/a b:c@d/e?f#g"),
        ("file:/a%3Fb%23c", Location("file", "", "/a?b#c"), "/a?b#c"),
        ("FILE://LocalHost/a", Location("file", "", "/a"), "/a"),
    ],
)
def test_a_location_is_named_by_a_path_or_a_uri(
    text: str, expected: Location, written: str
) -> None:
    found = location_of(text, of="tier")
    assert (found, str(found)) == (expected, written)
    assert location_of(str(found), of="tier") == found
    assert str(found.child("_tierfold")) == f"{written}/_tierfold"
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("here", "./a:b"):
        assert location_of(text, of="tier").folder == tmp_path / text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"s3://AKIA:{CANARY}@bucket/tier", "a user, a password or a port"),
        (f"s3://AKIA:{CANARY}/with/slashes@bucket/tier", "a user, a password or a port"),
        (f"s3://{CANARY}@bucket", "a user, a password or a port"),
        (f"s3://[{CANARY}@bucket", "a user, a password or a port"),
        ("s3://host:9000/bucket", "an endpoint from the settings"),
        (f"az://container/tier?sig={CANARY}", "a query or a fragment. Write az://container/"),
        (f"gs://bucket/tier#{CANARY}", "a query or a fragment"),
        ("s3://", "the URI names no bucket. Write s3://bucket/prefix."),
        ("az:///prefix", "the URI names no container"),
        ("s3://AKIAIOSFODNN7EXAMPLE/prefix", "this is not a valid bucket name"),
        (f"s3://{CANARY}+/prefix", "this is not a valid bucket name"),
        ("s3://ab", "'ab' is not a valid bucket name. It has 3 to 63 characters"),
        ("s3://Orders_Tier", "'Orders_Tier' is not a valid bucket name"),
        ("s3://a..b", "'a..b' is not a valid bucket name"),
        ("s3://192.168.0.1/x", "'192.168.0.1' is not a valid bucket name"),
        ("s3://bucket-/x", "'bucket-' is not a valid bucket name"),
        ("az://con--tainer", "'con--tainer' is not a valid container name"),
        ("az://con.tainer", "'con.tainer' is not a valid container name"),
        ("gs://Bucket", "It has 3 to 222 characters: lower-case letters, digits, hyphens, unders"),
        ("s3://bucket//x", "the prefix has an empty part"),
        ("s3://bucket/a/../b", "a character that is not allowed"),
        ("s3://bucket/a b", "a character that is not allowed"),
        (f"s3://bucket/%20{CANARY}", "Use letters, digits and"),
        ("s3:bucket", "scheme s3: is not supported"),
        ("s3a://bucket/x", "s3a:// is not supported. Write s3://bucket/prefix."),
        ("abfss://c@a.dfs.core.windows.net/x", "the account in AZURE_STORAGE_ACCOUNT_NAME"),
        ("hdfs://host/x", "hdfs:// is not supported. Write s3://bucket/prefix, az://"),
        ("memory:", "memory: is not supported"),
        ("http:", "http: is not supported"),
        ("a:b", "write a relative path with a colon as ./a:b."),
        (f"https://u:{CANARY}@s3.amazonaws.com/b", "AWS_ENDPOINT_URL or the settings"),
        ("", "tier: the path is empty: ''"),
        (" \t\n", "the path is empty: ' "),
        ("file://[host/x", "this is not a valid URI"),
        ("file://host/x", "absolute path on this machine. Write file:///path/to/tier."),
        ("file:x", "absolute path on this machine"),
        ("file:", "absolute path on this machine"),
        ("file:///x?a=b", "file:///x: a file URI has no query and no fragment"),
        ("file:/x#a", "file:/x: a file URI has no query and no fragment"),
        ("file:///x%00", "a path cannot hold a zero byte"),
    ],
)
def test_other_texts_are_refused_without_secrets(text: str, message: str) -> None:
    with pytest.raises(BadSettings) as caught:
        location_of(text, of="tier")
    assert message in str(caught.value)
    assert CANARY not in str(caught.value)
    assert caught.value.where.startswith(("tier", text.partition(":")[0]))


def test_opening_a_store_sends_no_request(tmp_path: Path) -> None:
    options = StoreOptions()
    folder = open_store(location_of(str(tmp_path), of="tier"), options)
    assert folder == LocalStore(tmp_path)
    bucket = open_store(location_of("s3://bucket/a", of="tier"), options)
    assert bucket == BucketStore("s3", "bucket", "a", options)
    assert bucket.uri("x/y") == "s3://bucket/a/x/y"
    assert (bucket.uri(""), bucket.free_bytes()) == ("s3://bucket/a", None)


def test_a_folder_needs_no_options_of_other_programs(tmp_path: Path) -> None:
    location = location_of(str(tmp_path), of="catalog")
    assert delta_options(location, StoreOptions()) == {}
    assert s3a_options(location, StoreOptions()) == {}


def test_a_bucket_is_no_folder() -> None:
    with pytest.raises(ValueError, match="s3://bucket is no folder"):
        location_of("s3://bucket", of="tier").folder  # noqa: B018
