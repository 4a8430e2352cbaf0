"""Errors of a bucket: bounded retries, then one sentence; nothing is overwritten, nothing lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from tests.storage.emulators import IDENTITY, moto, new_bucket, new_name, s3_client
from tests.storage.object_store_contract import MIB
from tests.storage.s3_proxy import RESET, Answer, Proxy, error, proxied
from tierfold.compaction.model.errors import TierfoldError, UnreadableObject
from tierfold.storage.tiers.bucket_store import FOLDERS_LISTED_ALONE, BucketStore
from tierfold.storage.tiers.request_counts import Requests
from tierfold.storage.tiers.store_options import StoreOptions

PART: Final = 5 * MIB
LARGE: Final = np.arange(PART + 3, dtype=np.uint32).astype(np.uint8)
RETRIES: Final = 1
ALWAYS: Final = 1000


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Proxy, str]]:
    with proxied(moto()) as running:
        yield running


@pytest.fixture
def proxy(server: tuple[Proxy, str]) -> Proxy:
    server[0].faults.clear()
    server[0].counts.clear()
    server[0].requests.clear()
    return server[0]


@pytest.fixture
def store(proxy: Proxy, server: tuple[Proxy, str], identity: None) -> BucketStore:
    options = StoreOptions(endpoint=server[1], part_bytes=PART, retries=RETRIES)
    return BucketStore("s3", new_bucket(moto()), "a/prefix", options)


def write_large(store: BucketStore, key: str = "f/new") -> None:
    with store.open_new(key) as writer:
        writer.write(LARGE)


def in_bucket(store: BucketStore, key: str) -> bytes:
    """The object, read past the proxy."""
    name = f"a/prefix/{key}"
    return s3_client(moto()).get_object(Bucket=store.bucket, Key=name)["Body"].read()


STEPS: Final[Mapping[str, Callable[[BucketStore], object]]] = {
    "gets": lambda store: store.read("f/object"),
    "puts": lambda store: store.create("f/new", b"new"),
    "heads": lambda store: store.exists("f/object"),
    "lists": lambda store: list(store.list("f")),
    "deletes": lambda store: store.delete("f/object"),
    "begins": write_large,
    "parts": write_large,
    "completes": write_large,
}
"""By kind of request: something that makes one."""

AT_ONCE: Final[dict[str, tuple[Answer, str]]] = {
    "forbidden": (error(403, "AccessDenied"), "access is denied. Allow this identity"),
    "an expired token": (error(400, "ExpiredToken"), "have expired. Renew them"),
    "an unknown key": (error(403, "InvalidAccessKeyId"), "the credentials are not accepted"),
    "versitygw's": (error(404, "XAdminUserNotFound"), "the credentials are not accepted"),
    "a wrong secret": (error(403, "SignatureDoesNotMatch"), "the credentials are not accepted"),
    "a wrong clock": (error(403, "RequestTimeTooSkewed"), "clock differs too much"),
    "no bucket": (error(404, "NoSuchBucket"), "the bucket does not exist"),
    "another region": (
        error(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"),
        "the bucket is in another region, eu-west-1. Name its region in AWS_REGION",
    ),
    "an archived object": (error(403, "InvalidObjectState"), "it is archived"),
    "a KMS key": (error(400, "KMS.DisabledException"), "the KMS key cannot be used"),
    "an unknown error": (error(418, "Teapot"), "the store refuses the request (HTTP 418)"),
}
AFTER_RETRIES: Final[dict[str, tuple[Answer, str]]] = {
    "overload": (error(503, "SlowDown"), "asks for fewer requests, after 1 retry"),
    "an internal error": (error(500, "InternalError"), "internal error (HTTP 500), after 1 retry"),
}


def failed(store: BucketStore, kind: str) -> UnreadableObject:
    with pytest.raises(UnreadableObject) as caught:
        STEPS[kind](store)
    assert store.bucket in caught.value.where
    for secret in ("AKIA", IDENTITY["AWS_SECRET_ACCESS_KEY"], "http://"):
        assert secret not in str(caught.value)
    return caught.value


def each_for(names: Iterable[str], *kinds: str) -> list[tuple[str, str]]:
    """All errors for the first two kinds, and the first error for the other kinds."""
    first, *_ = names = list(names)
    return [(kind, name) for kind in kinds[:2] for name in names] + [
        (kind, first) for kind in kinds[2:]
    ]


@pytest.mark.parametrize(
    ("kind", "name"), each_for(AT_ONCE, "gets", "puts", "lists", "parts", "deletes")
)
def test_an_error_that_stays_is_reported_at_once(
    store: BucketStore, proxy: Proxy, kind: str, name: str
) -> None:
    store.create("f/object", b"object")
    answer, message = AT_ONCE[name]
    before = proxy.counts[kind]
    proxy.add(kind, times=ALWAYS, answer=answer)
    assert message in str(failed(store, kind))
    assert proxy.counts[kind] - before <= 2  # The parts of one object go out in parallel.
    proxy.faults.clear()
    assert in_bucket(store, "f/object") == b"object"
    assert not store.exists("f/new")
    assert list(store.unfinished("f")) == []


@pytest.mark.parametrize(("kind", "name"), each_for(AFTER_RETRIES, *STEPS))
def test_an_error_that_may_pass_is_retried_and_then_reported(
    store: BucketStore, proxy: Proxy, kind: str, name: str
) -> None:
    store.create("f/object", b"object")
    answer, message = AFTER_RETRIES[name]
    before = proxy.counts[kind]
    proxy.add(kind, times=ALWAYS, answer=answer)
    assert message in str(failed(store, kind))
    parallel = 2 if kind == "parts" else 1
    assert proxy.counts[kind] - before <= parallel * (RETRIES + 1)
    proxy.faults.clear()
    assert in_bucket(store, "f/object") == b"object"
    assert not store.exists("f/new")


@pytest.mark.parametrize("kind", ["gets", "puts"])
def test_retries_are_reported_if_there_were_any_and_the_error_is_one_that_may_pass(
    store: BucketStore, proxy: Proxy, kind: str
) -> None:
    at_once = replace(store, options=replace(store.options, retries=0))
    proxy.add(kind, answer=error(503, "SlowDown"))
    assert failed(at_once, kind).what.endswith("the store asks for fewer requests")
    proxy.add(kind, answer=error(503, "SlowDown"))
    proxy.add(kind, answer=error(403, "AccessDenied"))
    assert failed(store, kind).what.endswith("access is denied")


def test_a_write_that_cannot_have_happened_is_not_looked_for(
    store: BucketStore, proxy: Proxy
) -> None:
    proxy.add("puts", answer=error(403, "AccessDenied"))
    failed(store, "puts")
    assert proxy.counts["heads"] == 0


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, "SlowDown") for kind in STEPS]
    + [(kind, name) for kind in ("gets", "puts") for name in ("InternalError", "reset")],
)
def test_an_error_that_passes_is_not_noticed(
    store: BucketStore, proxy: Proxy, kind: str, name: str
) -> None:
    store.create("f/object", b"object")
    answers = {"SlowDown": error(503, name), "InternalError": error(500, name), "reset": RESET}
    proxy.add(kind, times=RETRIES, answer=answers[name])
    STEPS[kind](store)


@pytest.mark.parametrize(
    ("answer", "times"),
    [
        (RESET, 1),
        (error(500, "InternalError"), 1),
        (error(500, "InternalError"), ALWAYS),
        # A conflict with our own request, sent twice.
        (error(409, "ConditionalRequestConflict"), ALWAYS),
    ],
)
@pytest.mark.parametrize("kind", ["puts", "completes"])
def test_a_write_that_took_effect_succeeds_whatever_the_answer(
    store: BucketStore, proxy: Proxy, kind: str, answer: Answer, times: int
) -> None:
    proxy.add(kind, times=times, answer=answer, is_forwarded=True)
    STEPS[kind](store)
    assert in_bucket(store, "f/new") == (b"new" if kind == "puts" else LARGE.tobytes())


@pytest.mark.parametrize(
    "answer", [error(500, "InternalError"), error(409, "ConditionalRequestConflict"), RESET]
)
@pytest.mark.parametrize("kind", ["puts", "completes"])
def test_equal_bytes_of_another_writer_are_not_ours(
    store: BucketStore, proxy: Proxy, kind: str, answer: Answer
) -> None:
    other = replace(store, options=replace(store.options, endpoint=moto()))
    data = b"new" if kind == "puts" else LARGE
    assert not other.exists("f/new")
    proxy.add(kind, answer=answer, before=lambda: other.create("f/new", data))
    with pytest.raises(UnreadableObject, match=r"the name is taken|is changing this name"):
        STEPS[kind](store)
    assert in_bucket(store, "f/new") == bytes(data)


@pytest.mark.parametrize("kind", ["puts", "completes"])
def test_a_conflict_with_another_request_is_an_error(
    store: BucketStore, proxy: Proxy, kind: str
) -> None:
    proxy.add(kind, times=ALWAYS, answer=error(409, "ConditionalRequestConflict"))
    assert "another request is changing this name" in str(failed(store, kind))


@pytest.mark.parametrize("read", ["read", "read_range"])
def test_a_body_that_ends_early_is_completed_or_reported(
    store: BucketStore, proxy: Proxy, read: str
) -> None:
    write_large(store, "f/object")

    def found() -> bytes:
        if read == "read":
            return store.read("f/object").tobytes()
        return store.read_range("f/object", 0, len(LARGE)).tobytes()

    proxy.add("gets", cut_after_bytes=MIB)
    assert found() == LARGE.tobytes()
    proxy.add("gets", times=ALWAYS, cut_after_bytes=1000)
    with pytest.raises(UnreadableObject, match="the answer ended early"):
        found()


@pytest.mark.parametrize("body_bytes", [0, len(LARGE) - 1, len(LARGE) + 1])
def test_a_whole_body_of_another_length_than_its_range_is_reported(
    store: BucketStore, proxy: Proxy, body_bytes: int
) -> None:
    write_large(store, "f/object")
    proxy.add("gets", times=ALWAYS, body_bytes=body_bytes)
    with pytest.raises(UnreadableObject, match="the answer ended early"):
        store.read_range("f/object", 0, len(LARGE))


@pytest.mark.parametrize("kind", ["gets", "lists", "puts"])
def test_a_silent_store_is_asked_again_and_then_reported(
    store: BucketStore, proxy: Proxy, kind: str
) -> None:
    impatient = replace(store, options=replace(store.options, timeout_ms=300, retries=1))
    impatient.create("f/object", b"object")
    proxy.add(kind, silent_s=0.6)
    STEPS[kind](impatient)
    store.delete("f/new")
    proxy.add(kind, times=ALWAYS, silent_s=0.6, answer=error(500, "InternalError"))
    with pytest.raises(UnreadableObject, match="did not answer in time"):
        STEPS[kind](impatient)


def test_an_endpoint_that_cannot_be_reached_is_reported(store: BucketStore) -> None:
    for endpoint in ("http://127.0.0.1:9", "http://no-such-host.invalid"):
        lost = replace(store, options=replace(store.options, endpoint=endpoint, retries=0))
        for kind in ("gets", "puts", "lists"):
            with pytest.raises(UnreadableObject, match=f"the endpoint {endpoint} cannot be"):
                STEPS[kind](lost)


@pytest.mark.parametrize("kind", ["gets", "heads", "lists", "puts", "begins", "deletes"])
def test_a_bucket_that_does_not_exist_is_an_error(store: BucketStore, kind: str) -> None:
    gone = replace(store, bucket=new_name())
    if kind != "deletes":  # moto deletes from a bucket that does not exist.
        with pytest.raises(UnreadableObject, match="the bucket does not exist"):
            STEPS[kind](gone)


def test_a_forbidden_object_is_not_missing(store: BucketStore, proxy: Proxy) -> None:
    proxy.add("heads", answer=(403, b""))
    with pytest.raises(UnreadableObject, match="access is denied"):
        store.exists("f/object")


@pytest.mark.parametrize("count", [2, FOLDERS_LISTED_ALONE + 1])
def test_a_listing_that_fails_is_reported_for_each_folder(
    store: BucketStore, proxy: Proxy, count: int
) -> None:
    proxy.add("lists", times=ALWAYS, answer=error(403, "AccessDenied"))
    folders = [f"t/{number}" for number in range(count)]
    for found in (store.list_each(folders), store.unfinished_each(folders)):
        assert list(found) == folders
        assert all("access is denied" in str(error) for error in found.values())
        assert all(isinstance(error, TierfoldError) for error in found.values())


def test_an_upload_that_cannot_be_aborted_stays_listed(store: BucketStore, proxy: Proxy) -> None:
    proxy.add("aborts", times=ALWAYS, answer=error(500, "InternalError"))
    proxy.add("completes", times=ALWAYS, answer=error(403, "AccessDenied"))
    with pytest.raises(UnreadableObject, match="access is denied"):
        write_large(store)
    proxy.faults.clear()
    (left,) = store.unfinished("f")
    assert left.key.startswith("f/new?uploadId=")
    assert left.size_bytes == len(LARGE)
    store.delete(left.key)
    store.delete(left.key)
    assert list(store.unfinished("f")) == []


def test_of_many_writers_of_one_name_exactly_one_succeeds(store: BucketStore) -> None:
    outcomes: list[tuple[int, str]] = []
    for number in range(25):
        start = threading.Barrier(17)

        def write(number: int = number, start: threading.Barrier = start) -> None:
            start.wait()
            try:
                store.create(f"race/{number}", b"equal bytes")
            except UnreadableObject as error:
                outcomes.append((number, error.what))
            else:
                outcomes.append((number, "written"))

        threads = [threading.Thread(target=write) for _ in range(17)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(outcomes) == 425
    for number in range(25):
        said = [what for race, what in outcomes if race == number]
        assert said.count("written") == 1
        assert sum("the name is taken" in what for what in said) == 16


def test_requests_are_counted_as_a_proxy_counts_them(store: BucketStore, proxy: Proxy) -> None:
    fresh = replace(store, path=new_name())
    assert fresh.requests() == Requests()
    with fresh.open_new("f/large") as writer:
        writer.write(LARGE)
    fresh.create("f/small", b"abc")
    fresh.read("f/small")
    fresh.read_range("f/large", 10, 100)
    fresh.exists("f/small")
    list(fresh.list("f"))
    fresh.list_each([f"t/{number}" for number in range(20)])
    fresh.delete("f/small")
    found = fresh.requests()
    kinds = ("lists", "heads", "gets", "puts", "begins", "parts", "completes", "deletes", "aborts")
    assert {kind: getattr(found, kind) for kind in kinds} == {
        kind: proxy.counts[kind] for kind in kinds
    }
    assert found.total == sum(proxy.counts.values())
    assert (found.sent_bytes, found.received_bytes) == (len(LARGE) + 3, 103)
    assert found + found - found == found


def test_many_pages_are_counted() -> None:
    store = BucketStore("memory", new_name(), "", StoreOptions())
    folders = [f"t/{number:04d}" for number in range(1001)]
    for folder in folders:
        store.create(f"{folder}/o", b"")
    assert [len(entries) for entries in store.list_each(folders).values()] == [1] * 1001
    assert store.requests() == Requests(puts=1001, lists=2)


def test_an_upload_that_ends_while_uploads_are_listed_is_left_out(
    store: BucketStore, proxy: Proxy
) -> None:
    client = s3_client(moto())
    first, second = (
        {"Bucket": store.bucket, "Key": f"a/prefix/f/{name}"} for name in ("first", "second")
    )
    ended = client.create_multipart_upload(**first)["UploadId"]
    client.create_multipart_upload(**second)
    proxy.add(
        "lists",
        text="uploadId",
        before=lambda: client.abort_multipart_upload(**first, UploadId=ended),
    )
    (left,) = store.unfinished("f")
    assert left.key.startswith("f/second?")
    proxy.add("lists", text="uploadId", answer=error(403, "AccessDenied"))
    with pytest.raises(UnreadableObject, match="cannot list this: access is denied"):
        list(store.unfinished("f"))
