"""Where no listing shows the class of an object, a signed request does, if one can be signed."""

from __future__ import annotations

import pytest

from tests.storage.emulators import (
    AZURE_ACCOUNT,
    AZURE_KEY,
    azurite,
    moto,
    new_bucket,
    new_container,
)
from tests.storage.gcs_proxy import SERVICE_ACCOUNT, google, signing_account
from tests.storage.s3_proxy import RESET, error, proxied
from tests.storage.tiers.azure_tiers import set_tier, token_for
from tierfold.storage.tiers.asked_classes import AskedClasses
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.store_options import StoreOptions


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> BucketStore:
    """A prefix of a container of Azurite, with three blobs."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
    options = StoreOptions(endpoint=azurite(), account=AZURE_ACCOUNT, retries=1)
    store = BucketStore("az", new_container(azurite()), "p", options, classes=())
    store.create("f/usual.log", b"x")
    store.in_classes((("log", "Cool"),)).create("f/cool-_=+@,~.log", b"x")
    store.in_classes((("log", "Hot"),)).create("f/hot.log", b"x")
    return store


def test_azure_names_the_access_tier(azure: BucketStore) -> None:
    asked, before = AskedClasses(azure, azure.scheme), azure.requests().heads
    keys = ["f/usual.log", "f/cool-_=+@,~.log", "f/hot.log", "f/missing.log"]
    found = {"f/usual.log": "", "f/cool-_=+@,~.log": "Cool", "f/hot.log": "Hot"}
    assert asked.of(keys) == found
    assert asked.refusal == ""  # What is missing is found out when it is read.
    assert azure.requests().heads - before == 4
    assert asked.of(["f/usual.log", "f/hot.log"]) == {"f/usual.log": "", "f/hot.log": "Hot"}
    assert azure.requests().heads - before == 4
    set_tier(azure, "p/f/usual.log", "Archive")
    assert AskedClasses(azure, azure.scheme).of(["f/usual.log"]) == {"f/usual.log": "Archive"}


def test_without_a_key_nothing_is_signed_and_no_class_is_known(
    azure: BucketStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_KEY", token_for(azure.bucket))
    assert azure.read("f/usual.log").tobytes() == b"x"
    asked, before = AskedClasses(azure, azure.scheme), azure.requests().heads
    assert asked.of(["f/usual.log", "f/hot.log"]) == {}
    assert asked.refusal.startswith("the credentials cannot sign a request")
    assert azure.requests().heads == before


def test_google_names_the_storage_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", signing_account())
    with proxied(moto()) as (proxy, endpoint), google(endpoint) as gcs:
        store = BucketStore("gs", new_bucket(moto()), "p", StoreOptions(endpoint=gcs, retries=1))
        usual = store.in_classes(())
        usual.create("f/usual.log", b"x")
        usual.in_classes((("log", "STANDARD_IA"),)).create("f/rare.log", b"x")
        found = {"f/usual.log": "", "f/rare.log": "STANDARD_IA"}
        keys = [*found]
        assert AskedClasses(store, store.scheme).of(keys) == found
        for answer in (error(503, "SlowDown"), RESET):
            proxy.add("heads", answer=answer)
            assert AskedClasses(store, store.scheme).of(keys) == found
        fault = proxy.add("heads", answer=error(403, "AccessDenied"), times=9)
        asked = AskedClasses(store, store.scheme)
        assert asked.of(keys[:1]) == {}
        assert asked.refusal == "the store answers 403 to a signed request"
        assert asked.of(keys) == {}
        assert fault.seen == 1


def test_an_account_of_google_without_a_key_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", SERVICE_ACCOUNT)
    with google(moto()) as gcs:
        store = BucketStore("gs", new_bucket(moto()), "p", StoreOptions(endpoint=gcs, retries=0))
        store.create("f/1.log", b"x")
        asked = AskedClasses(store, store.scheme)
        assert asked.of(["f/1.log"]) == {}
        assert asked.refusal.startswith("the credentials cannot sign a request")


def test_s3_is_not_asked(identity: None) -> None:
    store = BucketStore("s3", new_bucket(moto()), "p", StoreOptions(endpoint=moto()))
    assert AskedClasses(store, store.scheme).of(["f/1.log"]) == {}
    assert store.requests().total == 0
