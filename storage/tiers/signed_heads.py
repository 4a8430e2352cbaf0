"""Asks for an object's storage class by a signed URL, for `asked_classes`."""

from __future__ import annotations

import functools
import ssl
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
from tierfold.storage.tiers.store_errors import failures

_VALID: Final = timedelta(minutes=5)
_PAUSES_MS: Final = (200, 1000)
"""How long to wait before another try."""
_FINAL: Final = (401, 403, 404)
"""What a store answers that it would answer again."""


def class_of(store: ObjectStore, key: str) -> str:
    """The storage class of an object of Azure or Google Cloud; empty: the usual one.

    Raises RequestFailedError if a request cannot be signed, HTTPError and OSError as `urlopen`.
    """
    if not isinstance(store, BucketStore):
        raise TypeError("only objects of a bucket have storage classes")
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
