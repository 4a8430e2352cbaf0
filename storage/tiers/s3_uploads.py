"""Streams objects to S3 in parts, copies objects there, and finds uploads that never ended.

A copy is a multipart upload, too. Its end is conditional on every store on which our writes are.
CopyObject is one request less, but only Amazon keeps its condition: moto and versitygw overwrite.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import uuid4

from tierfold.compaction.model.errors import TierfoldError
from tierfold.storage.tiers.object_store import ObjectEntry, ObjectWriter, PartWriter
from tierfold.storage.tiers.s3_objects import S3Object, S3Requests, SourceObject
from tierfold.storage.tiers.store_errors import Cause, RequestFailedError

PARTS_IN_FLIGHT: Final = 3
"""Parts that are uploaded while the caller fills the next one."""

COPY_PART_BYTES: Final = 256 * 2**20
"""The most that the store copies in one request. S3 allows 5 GiB, but it must answer before the
client's time is over."""

UPLOAD_ID: Final = "?uploadId="
"""Between the key and the id in the name of an unfinished upload; our keys contain no `?`."""


@contextmanager
def new_s3_object(target: S3Object) -> Iterator[ObjectWriter]:
    """See `ObjectStore.open_new`: parts are uploaded while the caller fills the next one."""
    upload = _S3Upload(target)
    try:
        yield upload
        upload.finish()
    except BaseException:
        upload.abandon()
        raise
    finally:
        upload.close()


class _S3Upload(PartWriter):
    """An object being written; one that fits in a part is written by a single request."""

    def __init__(self, target: S3Object) -> None:
        super().__init__(target.requests.s3.options.part_bytes)
        self._target = target
        self._token = uuid4().hex
        self._upload_id: str | None = None
        self._threads = ThreadPoolExecutor(PARTS_IN_FLIGHT, thread_name_prefix="upload")
        self._running: deque[Future[dict[str, object]]] = deque()
        self._parts: list[dict[str, object]] = []

    def finish(self) -> None:
        """Write what is left, and make the object appear; raises UnreadableObject."""
        if self._upload_id is None:
            self._target.create(self.part)
            return
        if self.part:
            self.send_part()
        while self._running:
            self._parts.append(self._running.popleft().result())
        self._target.complete(self._token, self._upload_id, self._parts)

    def abandon(self) -> None:
        """Discard the upload; if that fails, it stays listed as unfinished."""
        self._threads.shutdown(cancel_futures=True)
        if self._upload_id is not None:
            with suppress(TierfoldError):
                self._target.abort(self._upload_id)

    def close(self) -> None:
        """Wait for the threads."""
        self._threads.shutdown()

    def send_part(self) -> None:
        """See `PartWriter`."""
        if self._upload_id is None:
            self._upload_id = self._target.begin(self._token)
        if len(self._running) == PARTS_IN_FLIGHT:
            self._parts.append(self._running.popleft().result())
        number = len(self._parts) + len(self._running) + 1
        sent = self._threads.submit(self._target.send, self._upload_id, number, self.part)
        self._running.append(sent)
        self.part = bytearray()


def copy_on_s3(
    target: S3Object, source: SourceObject, part_bytes: int = COPY_PART_BYTES
) -> None:
    """Let the store copy an object to the name, unless it is taken; raises UnreadableObject."""
    if not source.size_bytes:  # It has no part.
        target.create(b"")
        return
    token = uuid4().hex
    upload_id = target.begin(token)
    starts = range(0, source.size_bytes, part_bytes)
    spans = [(start, min(start + part_bytes, source.size_bytes)) for start in starts]
    try:
        parts = [
            target.copy_part(upload_id, number, source, span if len(spans) > 1 else None)
            for number, span in enumerate(spans, start=1)
        ]
        target.complete(token, upload_id, parts)
    except BaseException:
        with suppress(TierfoldError):
            target.abort(upload_id)
        raise


def unfinished_uploads(
    requests: S3Requests, prefix: str, folders: Set[str]
) -> Iterator[ObjectEntry]:
    """The unfinished uploads of keys directly in the folders, by full key and upload id.

    All folders are below the prefix. An upload's time is that of its last part: one that makes
    progress is not old. One that ends meanwhile is left out.
    """
    marker: dict[str, object] = {}
    while True:
        page = requests.try_to("list", "lists", "list_multipart_uploads", Prefix=prefix, **marker)
        for upload in page.get("Uploads", ()):
            if upload["Key"].rpartition("/")[0] not in folders:
                continue
            try:
                yield _entry(requests, upload)
            except RequestFailedError as failed:
                if failed.failure.cause is not Cause.MISSING:
                    raise requests.unreadable(failed.failure, "list") from None
        if not page.get("IsTruncated"):
            return
        marker = {
            "KeyMarker": page["NextKeyMarker"],
            "UploadIdMarker": page["NextUploadIdMarker"],
        }


def _entry(requests: S3Requests, upload: dict[str, Any]) -> ObjectEntry:
    """An upload with its parts; raises RequestFailedError."""
    times, size_bytes = [upload["Initiated"]], 0
    marker: dict[str, object] = {}
    while True:
        page = requests.ask(
            "lists",
            "list_parts",
            Key=upload["Key"],
            UploadId=upload["UploadId"],
            **marker,
        )
        for part in page.get("Parts", ()):
            times.append(part["LastModified"])
            size_bytes += part["Size"]
        if not page.get("IsTruncated"):
            break
        marker = {"PartNumberMarker": page["NextPartNumberMarker"]}
    return ObjectEntry(
        key=f"{upload['Key']}{UPLOAD_ID}{upload['UploadId']}",
        size_bytes=size_bytes,
        modified_ms=int(max(times).timestamp() * 1000),
    )
