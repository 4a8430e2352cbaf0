"""A copy within a bucket of S3, with a fault at every request: whole, or not there at all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

import numpy as np
import pytest

from tests.spread import most_in_soak
from tests.storage.emulators import moto, new_bucket, s3_client
from tests.storage.object_store_contract import MIB
from tests.storage.s3_proxy import RESET, Answer, Proxy, error, proxied
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers import s3_uploads
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.store_options import StoreOptions

PART: Final = 5 * MIB
DATA: Final = np.arange(2 * PART + 3, dtype=np.uint32).astype(np.uint8)
ALWAYS: Final = 1000
FORBIDDEN: Final = error(403, "AccessDenied")
REQUESTS: Final = ("heads", "begins", "parts", "parts", "parts", "completes", "heads")
"""Those of a copy of `DATA`, in their order."""
STEPS: Final = tuple((kind, REQUESTS[:at].count(kind)) for at, kind in enumerate(REQUESTS))
"""Each of them: its kind, and how many of the kind come before it."""


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Proxy, str]]:
    with proxied(moto()) as running:
        yield running


@pytest.fixture
def proxy(server: tuple[Proxy, str], monkeypatch: pytest.MonkeyPatch) -> Proxy:
    monkeypatch.setattr(s3_uploads.copy_on_s3, "__defaults__", (PART,))
    server[0].faults.clear()
    return server[0]


@pytest.fixture
def store(proxy: Proxy, server: tuple[Proxy, str], identity: None) -> BucketStore:
    options = StoreOptions(endpoint=server[1], part_bytes=PART, retries=1)
    made = BucketStore("s3", new_bucket(moto()), "a/prefix", options)
    made.create("f/source", DATA)
    proxy.counts.clear()
    proxy.requests.clear()
    return made


def at_request(proxy: Proxy, kind: str, earlier: int, **fault: object) -> None:
    """Plan a fault for one request of a kind, after so many that meet none."""
    if earlier:
        proxy.add(kind, times=earlier)
    proxy.add(kind, **fault)


def nothing_is_left(store: BucketStore, proxy: Proxy) -> bool:
    proxy.faults.clear()
    keys = [entry.key for entry in store.list("f")]
    return keys == ["f/source"] and not list(store.unfinished("f"))


def test_the_store_copies_in_parts_and_no_byte_comes_here(store: BucketStore, proxy: Proxy) -> None:
    before = store.requests()
    assert store.copy("f/source", "f/copy") == len(DATA)
    assert [request.kind for request in proxy.requests] == list(REQUESTS)
    spent = store.requests() - before
    assert (spent.begins, spent.parts, spent.completes, spent.heads) == (1, 3, 1, 2)
    assert (spent.total, spent.sent_bytes, spent.received_bytes) == (7, 0, 0)
    ranges = [
        request.headers.get("x-amz-copy-source-range")
        for request in proxy.requests
        if request.kind == "parts"
    ]
    assert ranges == [
        f"bytes={start}-{min(start + PART, len(DATA)) - 1}" for start in range(0, len(DATA), PART)
    ]
    assert store.read("f/copy").tobytes() == DATA.tobytes()


def test_every_part_is_of_the_object_that_was_found(store: BucketStore, proxy: Proxy) -> None:
    tag = s3_client(moto()).head_object(Bucket=store.bucket, Key="a/prefix/f/source")["ETag"]
    store.copy("f/source", "f/copy")
    parts = [request for request in proxy.requests if request.kind == "parts"]
    assert {request.headers["x-amz-copy-source-if-match"] for request in parts} == {tag}


@pytest.mark.parametrize(("kind", "earlier"), STEPS)
def test_a_request_that_fails_leaves_nothing(
    store: BucketStore, proxy: Proxy, kind: str, earlier: int
) -> None:
    at_request(proxy, kind, earlier, times=ALWAYS, answer=FORBIDDEN)
    with pytest.raises(UnreadableObject, match="access is denied"):
        store.copy("f/source", "f/copy")
    is_last = (kind, earlier) == STEPS[-1]
    assert nothing_is_left(store, proxy) is not is_last
    assert not is_last or store.read("f/copy").tobytes() == DATA.tobytes()


PASSING: Final = (error(503, "SlowDown"), error(500, "InternalError"), RESET)


@pytest.mark.parametrize("fault", most_in_soak([*product(STEPS, PASSING)], 11))
def test_a_fault_that_passes_is_not_noticed(
    store: BucketStore, proxy: Proxy, fault: tuple[tuple[str, int], Answer]
) -> None:
    (kind, earlier), answer = fault
    at_request(proxy, kind, earlier, answer=answer)
    store.copy("f/source", "f/copy")
    assert store.read("f/copy").tobytes() == DATA.tobytes()


@pytest.mark.parametrize("times", [1, ALWAYS])
@pytest.mark.parametrize("answer", [error(500, "InternalError"), RESET])
def test_a_copy_whose_answer_is_lost_is_a_success(
    store: BucketStore, proxy: Proxy, answer: Answer, times: int
) -> None:
    proxy.add("completes", times=times, answer=answer, is_forwarded=True)
    store.copy("f/source", "f/copy")
    assert store.read("f/copy").tobytes() == DATA.tobytes()


@pytest.mark.parametrize(("kind", "earlier"), STEPS[:-1])
def test_a_name_that_is_taken_meanwhile_stays_the_others(
    store: BucketStore, proxy: Proxy, kind: str, earlier: int
) -> None:
    client, name = s3_client(moto()), "a/prefix/f/copy"

    def taken() -> None:
        client.put_object(Bucket=store.bucket, Key=name, Body=DATA.tobytes(), IfNoneMatch="*")

    at_request(proxy, kind, earlier, before=taken)
    with pytest.raises(UnreadableObject, match="the name is taken"):
        store.copy("f/source", "f/copy")
    assert client.head_object(Bucket=store.bucket, Key=name)["Metadata"] == {}
    assert list(store.unfinished("f")) == []


@pytest.mark.parametrize("size_bytes", [3, len(DATA) + 5])
def test_a_copy_of_another_size_than_its_source_is_refused(
    store: BucketStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, size_bytes: int
) -> None:
    """moto does not look at the ETag that each part asks for."""
    monkeypatch.setattr(s3_uploads.copy_on_s3, "__defaults__", (len(DATA),))
    client, name = s3_client(moto()), "a/prefix/f/source"

    def changed() -> None:
        client.put_object(Bucket=store.bucket, Key=name, Body=bytes(size_bytes))

    proxy.add("begins", before=changed)
    sizes = f"copied from an object of {len(DATA)} bytes, and has {size_bytes}"
    with pytest.raises(UnreadableObject, match=sizes):
        store.copy("f/source", "f/copy")


def test_an_archived_source_is_reported(store: BucketStore, proxy: Proxy) -> None:
    proxy.add("parts", times=ALWAYS, answer=error(403, "InvalidObjectState"))
    with pytest.raises(UnreadableObject, match="it is archived, and cannot be read now"):
        store.copy("f/source", "f/copy")
    assert nothing_is_left(store, proxy)
