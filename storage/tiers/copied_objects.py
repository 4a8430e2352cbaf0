"""Writes objects where only a single put or a copy can be conditional: Azure, GCS, and in memory.

A large object is uploaded in parts under a fresh temporary name, then copied to its own name on the
condition that this is free, then the temporary object is deleted. A store may answer before the
copy is complete: then reading it back shows that, before anything is committed.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeAlias
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
    RequestFailedError,
    failures,
    translated,
    unreadable,
)

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

    def create(self, data: Bytes) -> None:
        """Write it by one request, unless the name is taken; raises UnreadableObject."""
        token = uuid4().hex
        view = as_view(data)
        self.counter.add(puts=1, sent_bytes=len(view))
        with self._decided(token):
            obstore.put(self.store, self.name, view, attributes={TOKEN: token}, mode="create")

    def copy_from(self, source: str, token: str = "") -> None:
        """Copy an object to the name, unless it is taken; raises UnreadableObject.

        A copy has its source's token, `token` if we wrote the source. Otherwise nothing shows whose
        copy it is if the answer is lost, and it counts as failed.
        """
        self.counter.add(copies=1)
        with self._decided(token):
            obstore.copy(self.store, source, self.name, overwrite=False)

    def delete(self, temporary: str) -> None:
        """Delete a temporary object; if that fails, it stays listed as unfinished."""
        self.counter.add(deletes=1)
        with suppress(RequestFailedError), failures():
            obstore.delete(self.store, temporary)

    @contextmanager
    def _decided(self, token: str) -> Iterator[None]:
        """Translate an error of a request that creates the object, unless it did so."""
        try:
            with failures():
                yield
        except RequestFailedError as failed:
            self.counter.add(retries=failed.failure.retries)
            if not is_ours(failed.failure, lambda: self._has_token(token)):
                raise unreadable(failed.failure, self.where, "create") from None

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


class _CopiedUpload(PartWriter):
    """An object being written; one that fits in a part is written by a single request."""

    def __init__(self, target: CopiedObject) -> None:
        super().__init__(target.part_bytes)
        self._target = target
        self._token = uuid4().hex
        self._temporary = staged_name(target.name, uuid4().hex)
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
        try:
            self._target.copy_from(self._temporary, self._token)
        finally:
            self._target.delete(self._temporary)

    def close(self) -> None:
        """End the thread; an upload that is not finished is aborted."""
        if self._upload is not None and not self._upload.done():
            self._offer(self._upload, _AbandonedError())
            self._upload.exception()
        self._thread.shutdown()

    def send_part(self) -> None:
        """See `PartWriter`."""
        if self._upload is None:
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
        """Upload the queued parts under the temporary name; runs in a thread."""
        target = self._target
        target.counter.add(begins=1, completes=1)
        with translated(target.where, "write"):
            obstore.put(
                target.store,
                self._temporary,
                self._queued(),
                attributes={TOKEN: self._token},
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
