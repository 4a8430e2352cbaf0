"""Writes objects where only a single put or a copy can be conditional: Azure, GCS, and in memory.

A large object is uploaded in parts under a fresh temporary name, then copied to its own name on the
condition that this is free, then the temporary object is deleted. A store may answer before the
copy is complete: then reading it back shows that, before anything is committed.

A copy loses a storage class. So a large object of a class is uploaded under its own name, which is
looked for first: its segment's id was drawn for it alone.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import uuid4

import obstore
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from tierfold.storage.tiers.object_store import (
    Bytes,
    ObjectWriter,
    PartWriter,
    as_view,
    staged_name,
)
from tierfold.storage.tiers.request_counts import RequestCounter
from tierfold.storage.tiers.s3_objects import TOKEN, is_ours
from tierfold.storage.tiers.store_errors import (
    Cause,
    Failure,
    RequestFailedError,
    failures,
    translated,
    unreadable,
)

if TYPE_CHECKING:
    from obstore import Attributes

_PARTS_IN_FLIGHT: Final = 3
_PARTS_QUEUED: Final = 1
_POLL_S: Final = 0.5
"""How often a full queue is checked for an upload that has failed."""

_Store: TypeAlias = AzureStore | GCSStore | MemoryStore | S3Store


class _AbandonedError(Exception):
    """The body of the writer failed, so the upload is aborted."""


@dataclass(frozen=True, slots=True)
class CopiedObject:
    """One object, by its full key, written through obstore."""

    store: _Store
    name: str
    where: str
    counter: RequestCounter
    part_bytes: int
    storage_class: str = ""
    """Of what is written, Azure's access tier; empty: the usual one."""

    def create(self, data: Bytes) -> None:
        """Write it by one request, unless the name is taken; raises UnreadableObject."""
        token = uuid4().hex
        view = as_view(data)
        self.counter.add(puts=1, sent_bytes=len(view))
        with self.decided(token):
            obstore.put(
                self.store, self.name, view, attributes=self.attributes(token), mode="create"
            )

    def copy_from(self, source: str, token: str = "") -> None:
        """Copy an object to the name, unless it is taken; raises UnreadableObject.

        A copy has its source's token, `token` if we wrote the source. Otherwise nothing shows whose
        copy it is if the answer is lost, and it counts as failed.
        """
        self.counter.add(copies=1)
        with self.decided(token):
            obstore.copy(self.store, source, self.name, overwrite=False)

    def attributes(self, token: str) -> Attributes:
        """Those of a new object."""
        in_class: Attributes = {"Storage-Class": self.storage_class} if self.storage_class else {}
        return {TOKEN: token, **in_class}

    def check_free(self) -> None:
        """Raise UnreadableObject if the name is taken."""
        self.counter.add(heads=1)
        try:
            with failures():
                obstore.head(self.store, self.name)
        except RequestFailedError as failed:
            if failed.failure.cause is not Cause.MISSING:
                raise unreadable(failed.failure, self.where, "look for") from None
        else:
            raise unreadable(Failure(Cause.TAKEN), self.where, "create")

    @contextmanager
    def decided(self, token: str) -> Iterator[None]:
        """Translate an error of a request that creates the object, unless it did so."""
        try:
            with failures():
                yield
        except RequestFailedError as failed:
            self.counter.add(retries=failed.failure.retries)
            if not is_ours(failed.failure, lambda: self._has_token(token)):
                raise unreadable(failed.failure, self.where, "create") from None

    def delete(self, temporary: str) -> None:
        """Delete a temporary object; if that fails, it stays listed as unfinished."""
        self.counter.add(deletes=1)
        with suppress(RequestFailedError), failures():
            obstore.delete(self.store, temporary)

    def _has_token(self, token: str) -> bool | None:
        self.counter.add(heads=1)
        try:
            with failures():
                found = obstore.get(self.store, self.name, options={"head": True}).attributes
        except RequestFailedError:
            return None
        return found.get(TOKEN) == token


@contextmanager
def new_copied_object(target: CopiedObject) -> Iterator[ObjectWriter]:
    """See `ObjectStore.open_new`."""
    upload = _CopiedUpload(target)
    try:
        yield upload
        upload.finish()
    finally:
        upload.close()


def copied_in_parts(
    target: CopiedObject, read: Callable[[int, int], Bytes], size_bytes: int
) -> None:
    """Write an object with the bytes that `read` returns for (start, length)."""
    with new_copied_object(target) as writer:
        for start in range(0, size_bytes, target.part_bytes):
            writer.write(read(start, target.part_bytes))


class _CopiedUpload(PartWriter):
    """An object being written; one that fits in a part is written by a single request."""

    def __init__(self, target: CopiedObject) -> None:
        super().__init__(target.part_bytes)
        self._target = target
        self._token = uuid4().hex
        is_direct = bool(target.storage_class)
        self._name = target.name if is_direct else staged_name(target.name, uuid4().hex)
        self._parts: queue.Queue[bytearray | _AbandonedError | None] = queue.Queue(_PARTS_QUEUED)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="upload")
        self._upload: Future[None] | None = None

    def finish(self) -> None:
        """Write what is left, and make the object appear; raises UnreadableObject."""
        if self._upload is None:
            self._target.create(self.part)
            return
        if self.part:
            self.send_part()
        self._offer(self._upload, None)
        self._upload.result()
        if self._target.storage_class:
            return
        try:
            self._target.copy_from(self._name, self._token)
        finally:
            self._target.delete(self._name)

    def close(self) -> None:
        """End the thread; an upload that is not finished is aborted."""
        if self._upload is not None and not self._upload.done():
            self._offer(self._upload, _AbandonedError())
            self._upload.exception()
        self._thread.shutdown()

    def send_part(self) -> None:
        """See `PartWriter`."""
        if self._upload is None:
            if self._target.storage_class:
                self._target.check_free()
            self._upload = self._thread.submit(self._put)
        self._offer(self._upload, self.part)
        if self._upload.done():
            self._upload.result()
        self.part = bytearray()

    def _offer(self, upload: Future[None], item: bytearray | _AbandonedError | None) -> None:
        """Queue a part, or what ends the upload, unless the upload has ended."""
        while not upload.done():
            try:
                self._parts.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
            return

    def _put(self) -> None:
        """Upload the queued parts; runs in a thread."""
        target = self._target
        target.counter.add(begins=1, completes=1)
        is_direct = bool(target.storage_class)
        with target.decided(self._token) if is_direct else translated(target.where, "write"):
            obstore.put(
                target.store,
                self._name,
                self._queued(),
                attributes=target.attributes(self._token),
                use_multipart=True,
                chunk_size=target.part_bytes,
                max_concurrency=_PARTS_IN_FLIGHT,
            )

    def _queued(self) -> Iterator[bytearray]:
        while (part := self._parts.get()) is not None:
            if isinstance(part, _AbandonedError):
                raise part
            self._target.counter.add(parts=1, sent_bytes=len(part))
            yield part
