"""What a bucket's store writes and copies has the class that is named, and S3 lists it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.storage.emulators import (
    AZURE_ACCOUNT,
    AZURE_KEY,
    azurite,
    moto,
    new_bucket,
    new_container,
    s3_client,
    versitygw,
)
from tests.storage.gcs_proxy import SERVICE_ACCOUNT, google
from tests.storage.object_store_contract import MIB
from tests.storage.s3_proxy import RESET, error, proxied
from tests.storage.tiers.azure_tiers import azure_tiers
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.s3_pages import LISTINGS_LOOKED_AT
from tierfold.storage.tiers.storage_class_names import class_by_suffix
from tierfold.storage.tiers.store_options import StoreOptions

PART: Final = 5 * MIB
LARGE: Final = bytes(range(256)) * (6 * MIB // 256)
Classes = Callable[[BucketStore], dict[str, str]]


def s3_classes(store: BucketStore) -> dict[str, str]:
    """By name, the classes of all objects of an S3 emulator."""
    found = s3_client(moto()).list_objects_v2(Bucket=store.bucket)["Contents"]
    return {one["Key"].rpartition("/")[2]: one["StorageClass"] for one in found}


@pytest.fixture(params=["s3", "az", "gs"])
def place(
    request: pytest.FixtureRequest, identity: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[BucketStore, Classes, str, str]]:
    """A store, its classes, the usual class, and another one."""
    if request.param == "s3":
        options = StoreOptions(endpoint=moto(), part_bytes=PART, retries=1)
        store = BucketStore("s3", new_bucket(moto()), "p", options)
        yield store, s3_classes, "STANDARD", "STANDARD_IA"
    elif request.param == "az":
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
        options = StoreOptions(
            endpoint=azurite(), account=AZURE_ACCOUNT, part_bytes=PART, retries=1
        )
        yield BucketStore("az", new_container(azurite()), "p", options), azure_tiers, "Hot", "Cool"
    else:
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", SERVICE_ACCOUNT)
        with google(moto()) as endpoint:
            options = StoreOptions(endpoint=endpoint, part_bytes=PART, retries=1)
            store = BucketStore("gs", new_bucket(moto()), "p", options)
            # moto knows only the classes of S3.
            yield store, s3_classes, "STANDARD", "STANDARD_IA"


def test_new_objects_have_the_class_of_their_suffix(
    place: tuple[BucketStore, Classes, str, str],
) -> None:
    store, classes, usual, other = place
    store.create("f/before.log", b"x")
    named = store.in_classes((("log", other), ("index", other)))
    named.create("f/small.log", b"x")
    named.create("f/large.log", LARGE)
    with named.open_new("f/streamed.index") as writer:
        writer.write(LARGE)
    named.create("f/usual.timeindex", b"x")
    store.copy("f/before.log", "f/copy.log")
    named.copy("f/before.log", "f/copy-in-class.log")
    named.copy("f/large.log", "f/large-copy.index")
    assert store.read("f/large-copy.index").tobytes() == LARGE
    assert classes(store) == {
        "before.log": usual,
        "small.log": other,
        "large.log": other,
        "streamed.index": other,
        "usual.timeindex": usual,
        "copy.log": usual,
        "copy-in-class.log": other,
        "large-copy.index": other,
    }
    assert list(store.unfinished("f")) == []


def test_a_name_that_is_taken_is_refused_in_every_class(
    place: tuple[BucketStore, Classes, str, str],
) -> None:
    store, _, _, other = place
    named = store.in_classes((("log", other),))
    named.create("f/o.log", b"first")
    for data in (b"x", LARGE):
        with pytest.raises(UnreadableObject, match="the name is taken"):
            named.create("f/o.log", data)
    assert store.read("f/o.log").tobytes() == b"first"


def test_a_listing_of_s3_has_the_classes(identity: None) -> None:
    plain = BucketStore("s3", new_bucket(moto()), "p", StoreOptions(endpoint=moto()))
    store = plain.in_classes(())
    store.in_classes((("log", "GLACIER_IR"),)).create("f/a.log", b"x")
    store.create("f/b c&.log", b"xy")
    store.create("f/deep/c.log", b"x")
    (first, second) = store.list("f")
    assert (first.key, first.size_bytes, first.storage_class) == ("f/a.log", 1, "GLACIER_IR")
    assert (second.key, second.size_bytes, second.storage_class) == ("f/b c&.log", 2, "")
    assert 0 <= second.modified_ms - first.modified_ms < 60_000
    many = store.list_each([f"f{n}" for n in range(20)] + ["f"])
    assert many["f"] == (first, second)
    assert {entry.storage_class for entry in plain.list("f")} == {""}  # It is no tier's.


def test_a_long_listing_of_s3_has_all_pages(identity: None) -> None:
    options = StoreOptions(endpoint=moto())
    store = BucketStore("s3", new_bucket(moto()), "p", options).in_classes(())
    for number in range(1005):
        s3_client(moto()).put_object(Bucket=store.bucket, Key=f"p/f/{number:04}.log", Body=b"x")
    before = store.requests().lists
    assert [entry.key for entry in store.list("f")] == [f"f/{n:04}.log" for n in range(1005)]
    assert store.requests().lists - before == 2


@pytest.mark.parametrize("answer", [error(500, "InternalError"), RESET])
def test_an_upload_of_a_class_whose_answer_is_lost_is_a_success(
    monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", SERVICE_ACCOUNT)
    with proxied(moto()) as (proxy, endpoint), google(endpoint) as gcs:
        options = StoreOptions(endpoint=gcs, part_bytes=PART, retries=0)
        store = BucketStore("gs", new_bucket(moto()), "p", options)
        proxy.add("completes", answer=answer, is_forwarded=True)
        store.in_classes((("log", "STANDARD_IA"),)).create("f/o.log", LARGE)
        assert store.read("f/o.log").tobytes() == LARGE


def test_versitygw_takes_a_class_and_answers_the_usual_one(identity: None) -> None:
    endpoint = versitygw()
    store = BucketStore("s3", new_bucket(endpoint), "p", StoreOptions(endpoint=endpoint))
    store.in_classes((("log", "STANDARD_IA"),)).create("f/a.log", b"x")
    (entry,) = store.list("f")
    assert entry.storage_class == ""


def test_listings_that_begin_together_all_show_classes(identity: None) -> None:
    options = StoreOptions(endpoint=moto(), retries=1)
    usual = BucketStore("s3", new_bucket(moto()), "p", options).in_classes(())
    rare = usual.in_classes((("log", "STANDARD_IA"),))
    folders = [f"f{number}/0" for number in range(3 * LISTINGS_LOOKED_AT)]
    for folder in folders:
        rare.create(f"{folder}/1.log", b"x")
    shown = [entry.storage_class for found in usual.list_each(folders).values() for entry in found]
    assert shown == ["STANDARD_IA"] * len(folders)


def test_a_class_that_only_a_store_knows_is_not_written() -> None:
    classes = (("log", "WARM-TIER"), ("index", "STANDARD_IA"))
    assert class_by_suffix("s3", classes, "f/1.log") == ""
    assert class_by_suffix("s3", classes, "f/1.index") == "STANDARD_IA"
    assert class_by_suffix("az", classes, "f/1.log") == ""
    assert class_by_suffix("az", (("log", "Cool"),), "f/1.log") == "Cool"


@pytest.mark.parametrize("shows_one", [False, True])
def test_only_the_first_listings_look_for_classes(identity: None, *, shows_one: bool) -> None:
    options = StoreOptions(endpoint=moto(), retries=1)
    usual = BucketStore("s3", new_bucket(moto()), "p", options).in_classes(())
    rare = usual.in_classes((("log", "STANDARD_IA"),))
    if shows_one:
        rare.create("f/1.log", b"x")
    usual.create("f/2.log", b"x")
    for _ in range(LISTINGS_LOOKED_AT):
        assert len([*usual.list("f")]) == 1 + shows_one
    rare.create("f/3.log", b"x")
    shown = {entry.key: entry.storage_class for entry in usual.list("f")}
    assert shown["f/3.log"] == ("STANDARD_IA" if shows_one else "")
    assert shown["f/2.log"] == ""
