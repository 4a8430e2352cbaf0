"""Asks Azure and Google Cloud for the storage classes of objects, which no listing shows.

obstore leaves the class out of everything that it returns, but it signs URLs. So an object's class
costs one HEAD by a signed URL, which is valid for minutes and never shown. Signing needs a key of
the account, or the right to have one made; without it, classes stay unknown.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from email.message import Message
from typing import Final, Literal
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import obstore
from obstore.store import AzureStore, GCSStore

from tierfold.storage.clock import pause
from tierfold.storage.tiers.bucket_clients import clients_of, counter_of
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.object_store import USUAL_CLASS, ObjectStore
from tierfold.storage.tiers.store_errors import RequestFailedError, failures

_VALID: Final = timedelta(minutes=5)
_THREADS: Final = 4
_PAUSES_MS: Final = (200, 1000)
"""How long to wait before another try."""
_MISSING: Final = 404
_FINAL: Final = (401, 403, _MISSING)
"""What a store answers that it would answer again."""


class AskedClasses:
    """The storage classes that a run has asked for; threads share it."""

    def __init__(self, store: ObjectStore) -> None:
        self._store: BucketStore | None = None
        """None: its listing shows classes, or it has none."""
        if isinstance(store, BucketStore) and store.scheme in {"az", "gs"}:
            self._store = store
        self._found: dict[str, str] = {}
        self.refusal = ""
        """Why classes are unknown, a clause; empty: they are known, or nothing was asked."""

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        """By key, the class of each object, empty for the usual one; unknown ones are left out.

        Nothing is asked of a store whose listing shows classes, nor again after a refusal.
        """
        if self._store is None:
            return {}
        wanted = [key for key in keys if key not in self._found]
        ask = functools.partial(self._ask, self._store)
        with ThreadPoolExecutor(_THREADS) as pool:
            for key, found in zip(wanted, pool.map(ask, wanted), strict=True):
                if found is not None:
                    self._found[key] = found
        return {key: self._found[key] for key in keys if key in self._found}

    def _ask(self, store: BucketStore, key: str) -> str | None:
        if self.refusal:
            return None
        try:
            return _class_of(store, key)
        except RequestFailedError as failed:
            what, _ = failed.failure.cause.value
            self.refusal = f"the credentials cannot sign a request ({what})"
        except HTTPError as error:
            error.close()
            if error.code != _MISSING:
                self.refusal = f"the store answers {error.code} to a signed request"
        except OSError:
            self.refusal = "a signed request gets no answer"
        return None


def _class_of(store: BucketStore, key: str) -> str:
    """Raises RequestFailedError if it cannot be signed, HTTPError and OSError as `urlopen`."""
    # Where signing is itself a request, it is not to hold a run up for long.
    options = replace(store.options, retries=min(store.options.retries, 1))
    client = clients_of(store.scheme, store.bucket, options).store
    if not isinstance(client, AzureStore | GCSStore):
        raise TypeError(f"{store.scheme}: its requests are not signed so")
    # Azure signs a permission, obstore gives one for GET, and it allows HEAD; Google signs HEAD.
    method: Literal["GET", "HEAD"] = "GET" if store.scheme == "az" else "HEAD"
    name = "/".join(part for part in (store.path, key) if part)
    with failures():
        url = obstore.sign(client, method, name, _VALID)
    headers = _asked(store, url)
    if store.scheme == "gs":
        found = headers.get("x-goog-storage-class", "")
        return "" if found == USUAL_CLASS else found
    found = headers.get("x-ms-access-tier", "")
    # Inferred: as the account says. Where it says something else, Hot is a class of its own.
    is_usual = found == "Hot" and headers.get("x-ms-access-tier-inferred") == "true"
    return "" if is_usual else found


def _asked(store: BucketStore, url: str) -> Message:
    for pause_ms in _PAUSES_MS:
        try:
            return _head(store, url)
        except OSError as error:
            if isinstance(error, HTTPError) and error.code in _FINAL:
                raise
            pause(pause_ms)
    return _head(store, url)


def _head(store: BucketStore, url: str) -> Message:
    counter_of(store.uri("")).add(heads=1)
    timeout_s, trusted = store.options.timeout_ms / 1000, _trusted(store.options.ca_file)
    with urlopen(Request(url, method="HEAD"), timeout=timeout_s, context=trusted) as answer:
        headers: Message = answer.headers
        return headers


@functools.cache
def _trusted(ca_file: str | None) -> ssl.SSLContext:
    """The certificates that are trusted: the system's, and those of a file."""
    trusted = ssl.create_default_context()
    if ca_file is not None:
        trusted.load_verify_locations(ca_file)
    return trusted
