"""Every store says its own time, and nothing is left of the question."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.jobs.tiers import files_below
from tests.storage.emulators import (
    AZURE_ACCOUNT,
    AZURE_KEY,
    azurite,
    moto,
    new_bucket,
    new_container,
    new_name,
    s3_environment,
)
from tests.storage.gcs_proxy import SERVICE_ACCOUNT, google
from tierfold.storage.tiers.locations import Location, open_store
from tierfold.storage.tiers.store_clocks import store_now_ms
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

Place: TypeAlias = tuple[Location, StoreOptions]


def asked(tier: Location, options: StoreOptions = ENVIRONMENT) -> int | None:
    return store_now_ms(tier, tier.child("_tierfold"), options)


def is_now(found_ms: int | None) -> bool:
    """Whether it is the time of this machine, where all emulators run."""
    return found_ms is not None and abs(found_ms - time.time() * 1000) < 5000


def folder(path: Path) -> Location:
    return Location("file", "", str(path))


def test_a_folder_says_the_time_of_a_fresh_file(tmp_path: Path) -> None:
    assert is_now(asked(folder(tmp_path)))
    assert files_below(tmp_path) == {}


def test_the_file_is_in_the_catalog_if_there_is_one(tmp_path: Path) -> None:
    assert is_now(store_now_ms(folder(tmp_path / "none"), folder(tmp_path), ENVIRONMENT))


def test_a_folder_that_is_not_there_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        assert asked(folder(tmp_path / "none")) is None
    assert "cannot be read" in caplog.text


def on_s3(patch: pytest.MonkeyPatch) -> Place:
    for name, value in s3_environment(moto()).items():
        patch.setenv(name, value)
    return Location("s3", new_bucket(moto()), "tier"), ENVIRONMENT


def on_azure(patch: pytest.MonkeyPatch) -> Place:
    patch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
    options = StoreOptions(endpoint=azurite(), account=AZURE_ACCOUNT)
    return Location("az", new_container(azurite()), "tier"), options


def says_its_time(tier: Location, options: StoreOptions) -> None:
    """Assert that it does, and that nothing of the question is left."""
    assert is_now(asked(tier, options))
    everywhere = open_store(Location(tier.scheme, tier.bucket, ""), options)
    for key in ("tier", "tier/_tierfold", "tier/_tierfold/clock"):
        assert [*everywhere.list(key), *everywhere.unfinished(key)] == []


@pytest.mark.parametrize("place_of", [on_s3, on_azure])
def test_a_bucket_says_its_time(
    place_of: Callable[[pytest.MonkeyPatch], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    says_its_time(*place_of(monkeypatch))


def test_google_says_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", SERVICE_ACCOUNT)
    with google(moto()) as endpoint:
        says_its_time(Location("gs", new_bucket(moto()), "tier"), StoreOptions(endpoint=endpoint))


def test_a_bucket_that_is_not_there_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tier, options = on_s3(monkeypatch)
    assert asked(Location("s3", f"{tier.bucket}-none", "tier"), options) is None


def test_the_question_is_one_request_of_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    tier, options = on_s3(monkeypatch)
    store = open_store(tier, options)
    before = store.requests()
    assert asked(tier, options) is not None
    assert (store.requests() - before).lists == (store.requests() - before).total == 1


class Answers(BaseHTTPRequestHandler):
    """Answers every listing with the server's date, and keeps what was asked for."""

    server: AServer

    def do_GET(self) -> None:
        self.server.asked.append(parse_qs(urlsplit(self.path).query).get("prefix", [""])[0])
        body = b"<ListBucketResult></ListBucketResult>"
        self.send_response_only(200)
        if self.server.date is not None:
            self.send_header("Date", self.server.date)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class AServer(HTTPServer):
    """An S3 that says any date, or none."""

    def __init__(self, date: str | None) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.date = date
        self.asked: list[str] = []


@contextmanager
def answering(date: str | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[AServer]:
    with AServer(date) as server:
        for name, value in s3_environment(f"http://127.0.0.1:{server.server_port}").items():
            monkeypatch.setenv(name, value)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(
    ("date", "time_ms"),
    [("Fri, 27 Nov 2026 12:00:00 GMT", 1_795_780_800_000), (None, None), ("yesterday", None)],
)
def test_a_store_that_says_no_time_does_not_stop_a_run(
    date: str | None, time_ms: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(date, monkeypatch):
        assert asked(Location("s3", new_name(), "tier")) == time_ms


@pytest.mark.parametrize(("path", "prefix"), [("tier", "tier/"), ("", "")])
def test_only_the_tier_is_listed(
    path: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keys may be all that a run may list."""
    with answering(None, monkeypatch) as server:
        asked(Location("s3", new_name(), path))
    assert server.asked == [prefix]
