"""What a store refuses is one sentence with a remedy, at every step, and changes nothing."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.compaction.builders import KEY
from tests.storage import emulators
from tests.storage.catalog_contract import A_RUN, claim, fresh, swap
from tests.storage.s3_proxy import Answer, Proxy, error, proxied
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.outcomes import Unknown
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.delta_errors import translated_errors
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.tiers.store_options import StoreOptions

REFUSALS: Final = {
    "forbidden": (error(403, "AccessDenied"), "access is denied"),
    "unknown key": (error(403, "InvalidAccessKeyId"), "the credentials are not accepted"),
    "expired": (error(400, "ExpiredToken"), "the credentials have expired"),
    # delta-rs hides why it did not find a log file.
    "no bucket": (
        error(404, "NoSuchBucket"),
        "the bucket does not exist|a file of the table is not there",
    ),
    "moved": (error(301, "PermanentRedirect"), "the bucket is in another region"),
    "region": (error(400, "AuthorizationHeaderMalformed"), "the bucket is in another region"),
    "busy": (error(503, "SlowDown"), "the store asks for fewer requests, after 1 retry"),
    "broken": (error(500, "InternalError"), r"an internal error \(HTTP 500\), after 1 retry"),
}

STEPS: Final = {
    "list": ("lists", ""),
    "list again": ("lists", "start-after"),
    "read a log": ("gets", "/_delta_log/"),
    "read rows": ("gets", "/part-"),
    "write rows": ("puts", "/part-"),
    "commit": ("puts", "/_delta_log/"),
}
"""Kinds of requests; from the second on, delta-rs makes them."""

SECRETS: Final = ("planted", "AKIA", "AWS4-HMAC", "Signature", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Place:
    """A catalog with one claimed row, and its proxy."""

    uri: str
    state: PartitionState
    options: StoreOptions
    proxy: Proxy

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.uri, self.options)

    def refuse(self, step: str, answer: Answer) -> None:
        """From now on refuse only the requests of this step."""
        kind, text = STEPS[step]
        self.proxy.faults.clear()
        self.proxy.add(kind, text=text, answer=answer, times=1000)


@pytest.fixture(scope="module")
def module_place() -> Iterator[Place]:
    """One for all tests, because nothing is changed."""
    moto = emulators.moto()
    with pytest.MonkeyPatch.context() as patch, proxied(moto) as (proxy, endpoint):
        for name, value in emulators.s3_environment(moto).items():
            patch.setenv(name, value)
        uri = f"s3://{emulators.new_bucket(moto)}/tier/_tierfold"
        first = claim(Catalog(uri), fresh(), "a").row
        state = claim(Catalog(uri), first, "b").row
        yield Place(uri, state, StoreOptions(endpoint=endpoint, retries=1), proxy)


@pytest.fixture
def place(module_place: Place) -> Iterator[Place]:
    yield module_place
    module_place.proxy.faults.clear()
    assert Catalog(module_place.uri).read() == {KEY: module_place.state}


def refused(use: Callable[[], object]) -> str:
    """The one sentence that refuses it."""
    with pytest.raises(UnreadableObject) as caught:
        use()
    assert caught.value.where.startswith("s3://")
    assert caught.value.__suppress_context__ or caught.value.__cause__ is None
    return checked(str(caught.value))


def checked(text: str) -> str:
    """The text, which has one line and no secret."""
    assert "\n" not in text
    assert not [secret for secret in SECRETS if secret in text]
    return text


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_at_any_step_is_reported_and_changes_nothing(place: Place, refusal: str) -> None:
    answer, sentence = REFUSALS[refusal]
    for step, (kind, _) in STEPS.items():
        place.refuse(step, answer)
        if kind == "puts":
            (outcome,) = place.catalog.commit([swap(place.state, "late")]).values()
            assert isinstance(outcome, Unknown)
            text = checked(outcome.cause)
        else:
            text = refused(place.catalog.read)
        assert re.search(sentence, text), f"{step}: {text}"


@pytest.mark.parametrize("step", ["list", "list again", "read a log"])
def test_a_forbidden_catalog_is_not_a_missing_one(place: Place, step: str) -> None:
    place.refuse(step, error(403, "AccessDenied"))
    before = len(place.proxy.requests)
    uses: tuple[Callable[[], object], ...] = (
        place.catalog.read,
        lambda: claim(place.catalog, fresh(), "c"),
        lambda: list(place.catalog.history(KEY)),
        place.catalog.clean_up,
    )
    if step == "list":
        uses += (place.catalog.exists, RunsTable(place.uri, place.options).read)
    for use in uses:
        assert "access is denied" in refused(use)
    assert "puts" not in {request.kind for request in place.proxy.requests[before:]}


def test_a_refusal_does_not_end_the_history(place: Place) -> None:
    states = place.catalog.history(KEY)
    assert next(states) == place.state
    place.refuse("read rows", error(403, "AccessDenied"))
    assert "access is denied" in refused(lambda: next(states))


def test_a_panic_of_the_library_is_one_sentence(tmp_path: Path) -> None:
    # It cannot write to such a path; a clock before 1970 does the same.
    (folder := tmp_path / "[x]").mkdir()
    with (
        pytest.raises(CorruptLog, match=r"the library of its tables failed: .*clock"),
        translated_errors("a catalog"),
    ):
        write_deltalake(folder, pa.table({"c": [1]}))
    with pytest.raises(KeyboardInterrupt), translated_errors("a catalog"):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:9", "http://nowhere.invalid:9", "https://127.0.0.1:9"]
)
def test_an_endpoint_that_does_not_answer_is_reported(bucket_uri: str, endpoint: str) -> None:
    catalog = Catalog(f"{bucket_uri}/tier", StoreOptions(endpoint=endpoint, retries=0))
    for use in (catalog.read, lambda: claim(catalog, fresh(), "a")):
        with pytest.raises(UnreadableObject, match=r"the endpoint .*cannot be reached"):
            use()


def test_a_missing_bucket_is_no_empty_catalog(bucket_uri: str) -> None:
    uri = f"{bucket_uri}-gone/tier"
    for use in (
        Catalog(uri).read,
        lambda: claim(Catalog(uri), fresh(), "a"),
        lambda: RunsTable(uri).append([A_RUN]),
    ):
        assert "the bucket does not exist" in refused(use)


@pytest.mark.parametrize("of_rust", [False, True])
def test_a_folder_that_is_read_only_is_named_without_numbers(of_rust: bool) -> None:
    number = errno.EROFS
    text = f"Generic LocalFileSystem error: Unable to open: sealed (os error {number})"
    error = OSError(text) if of_rust else OSError(number, os.strerror(number), "/tier/_tierfold")
    with pytest.raises(UnreadableObject) as caught, translated_errors("a catalog"):
        raise error
    assert caught.value.what == "the table cannot be read or written: Read-only file system"
