"""What a store refuses is one sentence with a remedy, at every step, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from tests.compaction.builders import KEY
from tests.storage.catalog_contract import A_RUN, claim, fresh, swap
from tests.storage.s3_proxy import Fault, S3Proxy
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.outcomes import Unknown
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.tiers.store_options import StoreOptions

REFUSALS: Final = {
    "forbidden": (Fault(403, "AccessDenied"), "access is denied"),
    "unknown key": (Fault(403, "InvalidAccessKeyId"), "the credentials are not accepted"),
    "expired": (Fault(400, "ExpiredToken"), "the credentials have expired"),
    # delta-rs hides why it did not find a log file.
    "no bucket": (
        Fault(404, "NoSuchBucket"),
        "the bucket does not exist|a file of the table is not there",
    ),
    "moved": (Fault(301, "PermanentRedirect"), "the bucket is in another region"),
    "region": (Fault(400, "AuthorizationHeaderMalformed"), "the bucket is in another region"),
    "busy": (Fault(503, "SlowDown"), "the store asks for fewer requests"),
    "broken": (Fault(500, "InternalError"), r"an internal error \(HTTP 500\)"),
}

STEPS: Final = {
    "list": ("GET", "list-type=2"),
    "open": ("GET", "_delta_log%2F"),
    "read a log": ("GET", "/_delta_log/"),
    "read rows": ("GET", "/part-"),
    "write rows": ("PUT", "/part-"),
    "commit": ("PUT", "/_delta_log/"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A catalog with one claimed row, by way of a proxy."""

    uri: str
    options: StoreOptions

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.uri, self.options)


@pytest.fixture
def place(bucket_uri: str, proxy: S3Proxy) -> Place:
    uri = f"{bucket_uri}/tier/_tierfold"
    claim(Catalog(uri), fresh(), "a")
    return Place(uri, StoreOptions(endpoint=proxy.url, retries=1))


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
    secrets = ("planted", "AKIA", "AWS4-HMAC", "Signature", "4442587FB7D0A2F9", "127.0.0.1")
    assert not [secret for secret in secrets if secret in text]
    return text


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_of_each_kind_is_reported_and_changes_nothing(
    place: Place, proxy: S3Proxy, refusal: str
) -> None:
    fault, sentence = REFUSALS[refusal]
    state = Catalog(place.uri).read()[KEY]
    for method, path in STEPS.values():
        proxy.rules.clear()
        proxy.fail(fault, method=method, path=path)
        if method == "GET":
            text = refused(place.catalog.read)
        else:
            (outcome,) = place.catalog.commit([swap(state, "late")]).values()
            assert isinstance(outcome, Unknown)
            text = checked(outcome.cause)
        assert re.search(sentence, text), text
    assert Catalog(place.uri).read() == {KEY: state}
    assert Catalog(place.uri).clean_up(is_dry_run=True) == 0


@pytest.mark.parametrize("step", ["list", "open", "read a log"])
def test_a_forbidden_catalog_is_not_a_missing_one(
    place: Place, proxy: S3Proxy, step: str
) -> None:
    method, path = STEPS[step]
    proxy.fail(Fault(403, "AccessDenied"), method=method, path=path)
    before = len(proxy.requests)
    uses: tuple[Callable[[], object], ...] = (
        place.catalog.read,
        lambda: claim(place.catalog, fresh(), "b"),
        lambda: list(place.catalog.history(KEY)),
        place.catalog.clean_up,
    )
    if step == "list":
        uses += (place.catalog.exists, RunsTable(place.uri, place.options).read)
    for use in uses:
        assert "access is denied" in refused(use)
    assert "PUT" not in {request.method for request in proxy.requests[before:]}


def test_a_refusal_does_not_end_the_history(place: Place, proxy: S3Proxy) -> None:
    claim(place.catalog, place.catalog.read()[KEY], "b")
    states = place.catalog.history(KEY)
    next(states)
    proxy.fail(Fault(403, "AccessDenied"), method="GET", path="/part-")
    assert "access is denied" in refused(lambda: next(states))


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:9", "http://nowhere.invalid:9", "https://127.0.0.1:9"]
)
def test_an_endpoint_that_does_not_answer_is_reported(bucket_uri: str, endpoint: str) -> None:
    options = StoreOptions(endpoint=endpoint, retries=0)
    catalog = Catalog(f"{bucket_uri}/tier", options)
    for use in (catalog.read, lambda: claim(catalog, fresh(), "a")):
        assert "the endpoint cannot be reached" in refused(use)


def test_a_missing_bucket_is_no_empty_catalog(bucket_uri: str) -> None:
    uri = f"{bucket_uri}-gone/tier"
    for use in (
        Catalog(uri).read,
        lambda: claim(Catalog(uri), fresh(), "a"),
        lambda: RunsTable(uri).append([A_RUN]),
    ):
        assert "the bucket does not exist" in refused(use)
