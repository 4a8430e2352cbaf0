"""An object store in a bucket: S3, Azure, GCS; also one in memory, for tests.

Nothing is ever overwritten: every write is conditional. Errors are sentences of
`store_errors`, and requests are counted per process (`request_counts`).
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import obstore
from numpy.typing import NDArray

from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.bucket_clients import (
    BucketClients,
    S3Writer,
    awaited,
    clients_of,
    counter_of,
)
from tierfold.storage.tiers.bucket_listings import Page, by_folder, entries_of, of_each, s3_pages
from tierfold.storage.tiers.copied_objects import CopiedObject, copied_in_parts, new_copied_object
from tierfold.storage.tiers.listed_count import LISTED
from tierfold.storage.tiers.object_store import (
    LISTERS,
    Bytes,
    ObjectClasses,
    ObjectEntry,
    ObjectWriter,
    StoredChecksum,
    check_copied,
    is_strange,
    listed_one_by_one,
)
from tierfold.storage.tiers.request_counts import RequestCounter, Requests
from tierfold.storage.tiers.s3_objects import S3Object, S3Requests, SourceObject
from tierfold.storage.tiers.s3_uploads import (
    UPLOAD_ID,
    copy_on_s3,
    new_s3_object,
    unfinished_uploads,
)
from tierfold.storage.tiers.storage_class_names import class_by_suffix
from tierfold.storage.tiers.store_errors import (
    Cause,
    Failure,
    RequestFailedError,
    failures,
    unreadable,
)
from tierfold.storage.tiers.store_options import StoreOptions

if TYPE_CHECKING:
    from obstore import Bytes as Buffer
    from obstore import GetOptions, ObjectMeta

FOLDERS_LISTED_ALONE: Final = 8
"""Up to so many folders are listed one by one; more, by one listing of all that is in their parent.

A page of that has 1,000 keys, about 150 segments; a folder of its own costs at least one request.
"""

_NO_FOLDER: Final = "tierfold-looks-for-the-bucket"
"""A folder that does not exist: listing it is one request, and fails if the bucket is missing."""

_PAGE_KEYS: Final = {"az": 5000}
_PAGE_KEYS_USUAL: Final = 1000
_LARGE_BYTES: Final = 2**18
"""From here on a read waits for obstore's threads; for less, that costs more than it saves."""


@dataclass(frozen=True, slots=True)
class BucketStore:
    """The objects below a prefix; a small value that can be pickled for a Spark worker.

    It holds no client and no credentials: each process opens its own when it first needs them.
    """

    scheme: str
    """`s3`, `az`, `gs`; `memory` for tests."""
    bucket: str
    path: str
    """The prefix without slashes around it; empty: the whole bucket."""
    options: StoreOptions
    classes: ObjectClasses | None = field(default=None, kw_only=True)
    """Of what it writes, unless the options name one; None: no tier's, the usual class."""
    keeps_empty_folders = False
    """See `ObjectStore.keeps_empty_folders`."""

    def in_classes(self, classes: ObjectClasses) -> BucketStore:
        """See `ObjectStore.in_classes`."""
        return replace(self, classes=classes)

    def list(self, folder: str) -> Iterator[ObjectEntry]:
        """See `ObjectStore.list`."""
        return iter(by_folder(self._entries_in(folder), self.path, {folder}, staged=False)[folder])

    def list_each(
        self, folders: Sequence[str]
    ) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
        """See `ObjectStore.list_each`; many folders are listed with all that is in their parent."""
        return self._each(folders, staged=False)

    def list_folders(self, folder: str) -> Iterator[str]:
        """See `ObjectStore.list_folders`."""
        prefix = f"{self._prefix(folder)}/".lstrip("/")
        names = (found.removeprefix(prefix) for found in self._in_folder(folder)[1])
        return iter(sorted(name for name in names if name))

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        name = self._name(key)
        self._counter.add(heads=1)
        return self._is_there(key, "look for", lambda: obstore.head(self._clients.store, name))

    def read(self, key: str) -> NDArray[np.uint8]:
        """See `ObjectStore.read`."""
        with self._translated(key, "read"):
            return self._received(self._name(key)).copy()

    def read_range(self, key: str, start: int, length: int) -> NDArray[np.uint8]:
        """See `ObjectStore.read_range`."""
        name = self._name(key)
        if length <= 0:
            return np.empty(0, np.uint8)
        try:
            with failures():
                return self._received(name, (start, start + length))
        except RequestFailedError as failed:
            if self._is_past_end(failed.failure, key, start):
                return np.empty(0, np.uint8)
            raise self._error(failed.failure, key, "read") from None

    def range_mapper(self, _: str) -> None:
        """See `ObjectStore.range_mapper`."""

    def create(self, key: str, data: Bytes) -> None:
        """See `ObjectStore.create`."""
        if len(data) > self.options.part_bytes:
            with self.open_new(key) as writer:
                writer.write(data)
        else:
            self._new_object(key).create(data)

    def open_new(self, key: str) -> AbstractContextManager[ObjectWriter]:
        """See `ObjectStore.open_new`."""
        target = self._new_object(key)
        if isinstance(target, S3Object):
            return new_s3_object(target)
        return new_copied_object(target)

    def copy(self, source: str, target: str) -> int:
        """See `ObjectStore.copy`."""
        found, new, name = self._head(source, "copy"), self._new_object(target), self._name(source)
        if isinstance(new, S3Object):
            copy_on_s3(new, SourceObject(name, found["size"], found["e_tag"] or ""))
        elif new.storage_class:  # A copy by the store would lose it.
            copied_in_parts(new, partial(self.read_range, source), found["size"])
        else:
            new.copy_from(name)
        check_copied(self._head(target, "check")["size"], found["size"], self.uri(target))
        return found["size"]

    def stored_checksum(self, key: str) -> StoredChecksum | None:
        """See `ObjectStore.stored_checksum`; only S3 has one."""
        target = self._new_object(key)
        return target.stored_checksum() if isinstance(target, S3Object) else None

    def unfinished(self, folder: str) -> Iterator[ObjectEntry]:
        """See `ObjectStore.unfinished`.

        S3 lists all multipart uploads that were neither completed nor aborted, also a broker's.
        Azure and GCS list none; there, these are temporary objects that were not deleted.
        """
        s3 = self._clients.s3
        if s3 is not None:
            return iter(self._uploads(s3, (folder,))[folder])
        return iter(by_folder(self._entries_in(folder), self.path, {folder}, staged=True)[folder])

    def unfinished_each(
        self, folders: Sequence[str]
    ) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
        """See `ObjectStore.unfinished_each`; S3 lists the uploads of all folders together."""
        s3 = self._clients.s3
        if s3 is None:
            return self._each(folders, staged=True)
        return of_each(folders, lambda: self._uploads(s3, folders))

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`; the key of an unfinished upload aborts that."""
        key, _, upload_id = key.partition(UPLOAD_ID)
        if upload_id:
            target = self._new_object(key)
            if isinstance(target, S3Object):
                target.abort(upload_id)
            return
        name = self._name(key)
        self._counter.add(deletes=1)
        self._is_there(key, "delete", lambda: obstore.delete(self._clients.store, name))

    def free_bytes(self) -> None:
        """See `ObjectStore.free_bytes`: a bucket has no limit."""

    def uri(self, key: str) -> str:
        """The object's URI."""
        return "/".join(part for part in (f"{self.scheme}://{self.bucket}", self.path, key) if part)

    def requests(self) -> Requests:
        """See `ObjectStore.requests`."""
        return self._counter.requests

    @property
    def _clients(self) -> BucketClients:
        return clients_of(self.scheme, self.bucket, self.options)

    @property
    def _counter(self) -> RequestCounter:
        return counter_of(self.uri(""))

    def _prefix(self, folder: str) -> str:
        if folder:
            return self._name(folder)
        return self.path

    def _name(self, key: str) -> str:
        """The full key of an object; raises UnreadableObject if it is not below the prefix."""
        if is_strange(key):
            raise UnreadableObject(
                f"the key {key!r} leaves the store or names nothing in it",
                where=self.uri(""),
                remedy="Keys are relative paths without empty parts, `.` and `..`.",
            )
        return f"{self.path}/{key}" if self.path else key

    def _new_object(self, key: str) -> S3Object | CopiedObject:
        name, where, clients = self._name(key), self.uri(key), self._clients
        of_class = self._named_class or class_by_suffix(self.scheme, self.classes, key)
        if clients.s3 is not None:
            return S3Object(S3Requests(clients.s3, where, self._counter), name, of_class)
        part_bytes = self.options.part_bytes
        return CopiedObject(clients.store, name, where, self._counter, part_bytes, of_class)

    @property
    def _named_class(self) -> str:
        """The class that the options name for a tier's objects; empty: none."""
        return "" if self.classes is None else self.options.storage_class or ""

    @property
    def _class_of_all(self) -> str:
        return self._named_class if self._clients.s3 is None else ""  # On S3 none was shown.

    @property
    def _lists_classes(self) -> S3Writer | None:
        """The client for a listing with classes; None: it is not looked for any."""
        s3 = None if self.classes is None else self._clients.s3  # Only a tier's are of interest.
        return s3 if s3 is not None and s3.shown.are_of_interest else None

    def _each(
        self, folders: Sequence[str], *, staged: bool
    ) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
        by_parent: defaultdict[str, list[str]] = defaultdict(list)
        for folder in folders:
            by_parent[folder.rpartition("/")[0]].append(folder)

        def listed(parent: str) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
            siblings, below = by_parent[parent], self._below(parent)
            listing = partial(by_folder, below, self.path, {*siblings}, staged=staged)
            return of_each(siblings, listing)

        many = {parent for parent, some in by_parent.items() if len(some) > FOLDERS_LISTED_ALONE}
        few = [folder for folder in folders if folder.rpartition("/")[0] not in many]
        found = listed_one_by_one(self.unfinished if staged else self.list, few)
        with ThreadPoolExecutor(LISTERS) as pool:
            # One alone is listed in this thread, so that its pages are reported as they come.
            for of_parent in map(listed, many) if len(many) == 1 else pool.map(listed, many):
                found |= of_parent
                LISTED.add(0)
        return {folder: found[folder] for folder in folders}

    def _uploads(self, s3: S3Writer, folders: Sequence[str]) -> Mapping[str, Page]:
        """The multipart uploads of S3 that have not ended, by folder and key, by one listing."""
        shared = posixpath.commonpath(folders)
        requests = S3Requests(s3, self.uri(shared), self._counter)
        prefix = f"{self._prefix(shared)}/".lstrip("/")
        uploads = unfinished_uploads(requests, prefix, {*map(self._prefix, folders)})
        return by_folder(uploads, self.path, {*folders})

    def _below(self, folder: str) -> Iterator[ObjectEntry]:
        """All objects below a folder, at any depth."""
        for page in self._pages_below(folder):
            LISTED.add(len(page))
            yield from page

    def _pages_below(self, folder: str) -> Iterator[Page]:
        if (s3 := self._lists_classes) is not None:
            yield from self._s3_pages(s3, folder, is_deep=True)
            return
        found = 0
        with self._translated(folder, "list"):
            prefix = self._prefix(folder) or None
            for page in obstore.list(self._clients.store, prefix, chunk_size=_PAGE_KEYS_USUAL):
                found += len(page)
                yield entries_of(page, self._class_of_all)
        self._count_pages(found)

    def _s3_pages(self, s3: S3Writer, folder: str, *, is_deep: bool) -> Iterator[Page]:
        requests = S3Requests(s3, self.uri(folder), self._counter)
        return s3_pages(requests, f"{self._prefix(folder)}/".lstrip("/"), is_deep=is_deep)

    def _entries_in(self, folder: str) -> Page:
        """The objects directly in a folder."""
        if (s3 := self._lists_classes) is None:
            return entries_of(self._in_folder(folder)[0], self._class_of_all)
        return tuple(chain.from_iterable(self._s3_pages(s3, folder, is_deep=False)))

    def _in_folder(self, folder: str) -> tuple[Sequence[ObjectMeta], Sequence[str]]:
        """The objects and the folders directly in a folder."""
        with self._translated(folder, "list"):
            found = obstore.list_with_delimiter(self._clients.store, self._prefix(folder) or None)
        self._count_pages(len(found["objects"]) + len(found["common_prefixes"]))
        return found["objects"], found["common_prefixes"]

    def _count_pages(self, keys: int) -> None:
        page = _PAGE_KEYS.get(self.scheme, _PAGE_KEYS_USUAL)
        self._counter.add(lists=max(1, -(-keys // page)))

    def _is_past_end(self, failure: Failure, key: str, start: int) -> bool:
        """Whether a range could not be read because it begins at the end of the object or later."""
        if failure.cause is Cause.OTHER:
            # Azurite's answer to a range that begins at the end is one that obstore cannot parse.
            return self._head(key, "read")["size"] <= start
        return failure.cause is Cause.RANGE

    def _head(self, key: str, doing: str) -> ObjectMeta:
        self._counter.add(heads=1)
        with self._translated(key, doing):
            return obstore.head(self._clients.store, self._name(key))

    def _received(self, name: str, span: tuple[int, int] | None = None) -> NDArray[np.uint8]:
        """A span of an object's bytes, or all, as obstore holds them, read-only.

        Raises obstore's errors, too.
        """
        store = self._clients.store
        options: GetOptions = {} if span is None else {"range": span}

        def received() -> tuple[tuple[int, int], Buffer]:
            found = obstore.get(store, name, options=options)
            return found.range, found.bytes()

        async def received_in_threads() -> tuple[tuple[int, int], Buffer]:
            found = await obstore.get_async(store, name, options=options)
            return found.range, await found.bytes_async()

        self._counter.add(gets=1)
        is_large = span is not None and span[1] - span[0] >= _LARGE_BYTES
        (first, end), body = awaited(received_in_threads) if is_large else received()
        data = np.frombuffer(memoryview(body), np.uint8)
        self._counter.add(received_bytes=len(data))
        if len(data) != end - first:
            raise RequestFailedError(Failure(Cause.CUT))
        return data

    def _is_there(self, key: str, doing: str, request: Callable[[], object]) -> bool:
        """Whether a request finds its object, which may be missing, unlike the bucket."""
        try:
            with failures():
                request()
        except RequestFailedError as failed:
            if failed.failure.cause is not Cause.MISSING:
                raise self._error(failed.failure, key, doing) from None
            self._check_bucket()
            return False
        return True

    def _check_bucket(self) -> None:
        """Raise UnreadableObject if the bucket itself is missing: a HEAD does not say."""
        self._in_folder(_NO_FOLDER)

    @contextmanager
    def _translated(self, key: str, doing: str) -> Iterator[None]:
        try:
            with failures():
                yield
        except RequestFailedError as failed:
            raise self._error(failed.failure, key, doing) from None

    def _error(self, failure: Failure, key: str, doing: str) -> UnreadableObject:
        self._counter.add(retries=failure.retries)
        return unreadable(failure, self.uri(key), doing, self._clients.endpoint)
