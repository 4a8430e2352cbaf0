"""`BucketStore` keeps the contract of every store: in memory, on S3, on an imitated Google."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from subprocess import PIPE, run
from sys import executable

import pytest

from tests.storage.emulators import moto, new_bucket, new_name, s3_client
from tests.storage.gcs_proxy import SERVICE_ACCOUNT, google
from tests.storage.object_store_contract import MIB, RealStoreContract
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.store_options import StoreOptions

PART = 5 * MIB

_FORKED = """
import os
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.store_options import StoreOptions

BucketStore("memory", "before", "", StoreOptions()).exists("a")
child = os.fork()
if not child:
    BucketStore("memory", "after", "", StoreOptions()).exists("a")
os.wait()
"""


def test_a_process_that_was_forked_from_one_that_used_a_bucket_does_not_wait_forever() -> None:
    ran = run([executable, "-c", _FORKED], stderr=PIPE, text=True, check=True, timeout=60)
    assert "was forked from one that had used an object store" in ran.stderr


_WITHOUT_THREADS = """
import sys
import threading
import numpy as np
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.store_options import StoreOptions

def refused(thread):
    raise RuntimeError("can't start new thread")

store = BucketStore("memory", "one", "", StoreOptions())
store.create("large", np.ones(1 << 20, np.uint8))
start, threading.Thread.start = threading.Thread.start, refused
try:
    store.read_range("large", 0, 1 << 20)
except RuntimeError as error:
    sys.stdout.write(f"{error}; ")
threading.Thread.start = start
sys.stdout.write(str(len(store.read_range("large", 0, 1 << 20))))
"""


def test_a_read_that_could_start_no_thread_leaves_later_reads_working() -> None:
    ran = run([executable, "-c", _WITHOUT_THREADS], stdout=PIPE, text=True, check=True, timeout=60)
    assert ran.stdout == "can't start new thread; 1048576"


_WITH_A_SLOW_THREAD = """
import asyncio
import sys
import threading
import time
import numpy as np
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.store_options import StoreOptions

bring = asyncio.SelectorEventLoop.call_soon_threadsafe

def slowly(loop, *args, **options):
    brought = bring(loop, *args, **options)
    if threading.current_thread() is not threading.main_thread():
        for _ in range(300):  # It asks for the interpreter again and again, also while that ends.
            time.sleep(0.001)
    return brought

asyncio.SelectorEventLoop.call_soon_threadsafe = slowly
store = BucketStore("memory", "one", "", StoreOptions())
store.create("large", np.ones(1 << 20, np.uint8))
sys.stdout.write(str(len(store.read_range("large", 0, 1 << 20))))
"""


def test_a_process_that_ends_right_after_a_read_is_not_aborted() -> None:
    # The thread of obstore that brought the result is still in Python.
    command = [executable, "-c", _WITH_A_SLOW_THREAD]
    ran = run(command, stdout=PIPE, text=True, check=True, timeout=60)
    assert ran.stdout == "1048576"


class TestInMemory(RealStoreContract):
    unfinished_bytes = 0

    @pytest.fixture(autouse=True)
    def _in_memory(self) -> None:
        self.store = BucketStore("memory", new_name(), "a/prefix", StoreOptions(part_bytes=PART))

    def test_it_reads_where_an_event_loop_runs_as_in_a_notebook(self) -> None:
        data = b"0123456789" * 100_000

        async def cell() -> bytes:
            self.store.create("object", data)
            return self.store.read_range("object", 0, len(data)).tobytes()

        assert asyncio.run(cell()) == data


class TestMoto(RealStoreContract):
    unfinished_bytes = PART
    if_aborted = "the store reports an internal error"
    computes_checksums = False

    @pytest.fixture(autouse=True)
    def _on_s3(self, s3_endpoint: str) -> None:
        options = StoreOptions(endpoint=s3_endpoint, part_bytes=PART, retries=2)
        self.store = BucketStore("s3", new_bucket(s3_endpoint), "a/prefix", options)


class TestGoogleOverMoto(RealStoreContract):
    """Google Cloud Storage as a proxy imitates it."""

    unfinished_bytes = 0

    @pytest.fixture(autouse=True)
    def _on_google(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", SERVICE_ACCOUNT)
        with google(moto()) as endpoint:
            options = StoreOptions(endpoint=endpoint, part_bytes=PART, retries=1)
            self.store = BucketStore("gs", new_bucket(moto()), "a/prefix", options)
            yield

    def test_a_large_object_leaves_no_temporary_one(self) -> None:
        self.store.create("f/object", bytes(2 * PART))
        pages = s3_client(moto()).list_objects_v2(Bucket=self.store.bucket)["Contents"]
        assert [page["Key"] for page in pages] == ["a/prefix/f/object"]
        found = self.store.requests()
        assert (found.begins, found.parts, found.completes) == (1, 2, 1)
        assert (found.copies, found.deletes, found.puts) == (1, 1, 0)
