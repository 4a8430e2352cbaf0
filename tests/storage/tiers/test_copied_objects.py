"""Objects that are written under a temporary name and copied: what faults leave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.emulators import moto, new_bucket
from tests.storage.gcs_proxy import SERVICE_ACCOUNT, google
from tests.storage.object_store_contract import MIB
from tests.storage.s3_proxy import RESET, Answer, Proxy, error, proxied
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.store_options import StoreOptions

LARGE = bytes(range(256)) * (6 * MIB // 256)
ALWAYS = 1000


@pytest.fixture
def store_and_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[BucketStore, Proxy]]:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", SERVICE_ACCOUNT)
    with proxied(moto()) as (proxy, s3), google(s3) as endpoint:
        options = StoreOptions(endpoint=endpoint, part_bytes=5 * MIB, retries=1)
        yield BucketStore("gs", new_bucket(moto()), "p", options), proxy


def keys(store: BucketStore) -> tuple[list[str], int]:
    """The finished objects, and how many temporary ones there are."""
    return [entry.key for entry in store.list("f")], len(list(store.unfinished("f")))


@pytest.mark.parametrize("answer", [error(500, "InternalError"), RESET])
def test_a_copy_whose_answer_is_lost_is_a_success(
    store_and_proxy: tuple[BucketStore, Proxy], answer: Answer
) -> None:
    store, proxy = store_and_proxy
    proxy.add("puts", answer=answer, is_forwarded=True)
    store.create("f/object", LARGE)
    assert keys(store) == (["f/object"], 0)
    assert store.read("f/object").tobytes() == LARGE


@pytest.mark.parametrize("answer", [error(500, "InternalError"), RESET])
def test_a_copy_of_another_writers_object_whose_answer_is_lost_counts_as_failed(
    store_and_proxy: tuple[BucketStore, Proxy], answer: Answer
) -> None:
    store, proxy = store_and_proxy
    store.create("f/source", LARGE)
    proxy.add("puts", answer=answer, is_forwarded=True)
    with pytest.raises(UnreadableObject, match="the name is taken"):
        store.copy("f/source", "f/copy")
    assert store.copy("f/source", "f/second") == len(LARGE)
    assert store.read("f/second").tobytes() == LARGE


def test_a_copy_that_fails_leaves_nothing(store_and_proxy: tuple[BucketStore, Proxy]) -> None:
    store, proxy = store_and_proxy
    store.create("f/source", LARGE)
    proxy.add("puts", times=ALWAYS, answer=error(403, "AccessDenied"))
    with pytest.raises(UnreadableObject, match="access is denied"):
        store.copy("f/source", "f/copy")
    proxy.faults.clear()
    assert keys(store) == (["f/source"], 0)


def test_a_name_that_is_taken_before_the_copy_is_refused(
    store_and_proxy: tuple[BucketStore, Proxy],
) -> None:
    store, _ = store_and_proxy
    with pytest.raises(UnreadableObject, match="the name is taken"), store.open_new("f/o") as slow:
        slow.write(LARGE)
        store.create("f/o", LARGE)
    assert keys(store) == (["f/o"], 0)


@pytest.mark.parametrize("kind", ["begins", "parts", "completes", "puts"])
def test_an_upload_that_fails_leaves_nothing(
    store_and_proxy: tuple[BucketStore, Proxy], kind: str
) -> None:
    store, proxy = store_and_proxy
    proxy.add(kind, times=ALWAYS, answer=error(403, "AccessDenied"))
    with pytest.raises(UnreadableObject, match="access is denied"):
        store.create("f/object", LARGE)
    proxy.faults.clear()
    assert keys(store) == ([], 0)


def test_a_temporary_object_that_stays_can_be_deleted(
    store_and_proxy: tuple[BucketStore, Proxy],
) -> None:
    store, proxy = store_and_proxy
    proxy.add("deletes", times=ALWAYS, answer=error(403, "AccessDenied"))
    store.create("f/object", LARGE)
    proxy.faults.clear()
    assert keys(store) == (["f/object"], 1)
    (left,) = store.unfinished("f")
    assert left.key.startswith("f/.object.")
    assert left.size_bytes == len(LARGE)
    store.delete(left.key)
    assert keys(store) == (["f/object"], 0)
