"""Writes objects of S3 through boto3, and asks for their stored checksums.

Every object that we write carries a token of its writer in its metadata. When the answer to a write
is lost, and a library tries again and finds the name taken, the token says who took it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import numpy as np

from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.clock import pause
from tierfold.storage.kafka.checksums import object_crc32c
from tierfold.storage.tiers.bucket_clients import Answer, S3Writer
from tierfold.storage.tiers.object_store import Bytes, StoredChecksum
from tierfold.storage.tiers.request_counts import RequestCounter
from tierfold.storage.tiers.store_errors import (
    Cause,
    Failure,
    RequestFailedError,
    failures,
    unreadable,
)

TOKEN: Final = "tierfoldwrite"
"""The name of the metadata with the writer's token; Azure allows no hyphen in it."""

CONFLICT_PAUSES_MS: Final = (0, 200, 400, 800, 1600)
"""How long to wait before each check whether we conflicted with our own request, sent twice."""


@dataclass(frozen=True, slots=True)
class S3Requests:
    """Requests about one name, counted."""

    s3: S3Writer
    where: str
    counter: RequestCounter

    def ask(self, kind: str, method: str, **arguments: object) -> Answer:
        """Make a request; raises RequestFailedError."""
        self.counter.add(**{kind: 1})
        try:
            with failures():
                answer: Answer = getattr(self.s3.client, method)(**self.s3.common, **arguments)
        except RequestFailedError as failed:
            self.counter.add(retries=failed.failure.retries)
            raise
        self.counter.add(retries=answer["ResponseMetadata"].get("RetryAttempts", 0))
        return answer

    def try_to(self, doing: str, kind: str, method: str, **arguments: object) -> Answer:
        """Make a request; raises UnreadableObject."""
        try:
            return self.ask(kind, method, **arguments)
        except RequestFailedError as failed:
            raise self.unreadable(failed.failure, doing) from None

    def unreadable(self, failure: Failure, doing: str) -> UnreadableObject:
        """The error that a user sees."""
        return unreadable(failure, self.where, doing, self.s3.endpoint)


@dataclass(frozen=True, slots=True)
class SourceObject:
    """What is copied: an object of the same bucket, by its full key, as it was found."""

    name: str
    size_bytes: int
    e_tag: str


@dataclass(frozen=True, slots=True)
class S3Object:
    """One object of a bucket, by its full key."""

    requests: S3Requests
    name: str
    storage_class: str = ""
    """Of what is written; empty: the usual one."""

    def create(self, data: Bytes) -> None:
        """Write it by one request, unless the name is taken; raises UnreadableObject."""
        token = uuid4().hex
        body = data if isinstance(data, bytes | bytearray) else bytes(data)
        self.requests.counter.add(sent_bytes=len(body))
        self._create(
            token,
            "puts",
            "put_object",
            Body=body,
            IfNoneMatch="*",
            ChecksumCRC32C=encoded_crc32c(body),
            Metadata={TOKEN: token},
            **self._new,
        )

    def begin(self, token: str) -> str:
        """Begin an upload, and return its id; raises UnreadableObject."""
        answer = self.requests.try_to(
            "create",
            "begins",
            "create_multipart_upload",
            Key=self.name,
            ChecksumAlgorithm="CRC32C",
            ChecksumType="FULL_OBJECT",
            Metadata={TOKEN: token},
            **self._new,
        )
        return str(answer["UploadId"])

    def send(self, upload_id: str, number: int, data: bytearray) -> dict[str, object]:
        """Upload a part, which the store compares with its checksum; raises UnreadableObject."""
        checksum = encoded_crc32c(data)
        self.requests.counter.add(sent_bytes=len(data))
        answer = self.requests.try_to(
            "write",
            "parts",
            "upload_part",
            Key=self.name,
            UploadId=upload_id,
            PartNumber=number,
            Body=data,
            ChecksumCRC32C=checksum,
        )
        return {"PartNumber": number, "ETag": answer["ETag"], "ChecksumCRC32C": checksum}

    def copy_part(
        self, upload_id: str, number: int, source: SourceObject, span: tuple[int, int] | None
    ) -> dict[str, object]:
        """Let the store copy bytes `[start, end)` of an object, or all; raises UnreadableObject.

        S3 takes a span only of objects above 5 MB.
        """
        part = {} if span is None else {"CopySourceRange": f"bytes={span[0]}-{span[1] - 1}"}
        answer = self.requests.try_to(
            "copy to",
            "parts",
            "upload_part_copy",
            Key=self.name,
            UploadId=upload_id,
            PartNumber=number,
            CopySource={"Bucket": self.requests.s3.bucket, "Key": source.name},
            CopySourceIfMatch=source.e_tag,
            **part,
        )
        found = answer["CopyPartResult"]
        return {
            "PartNumber": number,
            **{name: found[name] for name in ("ETag", "ChecksumCRC32C") if name in found},
        }

    def complete(self, token: str, upload_id: str, parts: Sequence[Answer]) -> None:
        """Make the parts the object, unless the name is taken; raises UnreadableObject."""
        self._create(
            token,
            "completes",
            "complete_multipart_upload",
            UploadId=upload_id,
            MultipartUpload={"Parts": parts},
            ChecksumType="FULL_OBJECT",
            IfNoneMatch="*",
        )

    def abort(self, upload_id: str) -> None:
        """Discard an upload, if it is still there; raises UnreadableObject."""
        arguments = {"Key": self.name, "UploadId": upload_id}
        try:
            self.requests.ask("aborts", "abort_multipart_upload", **arguments)
        except RequestFailedError as failed:
            if failed.failure.cause is not Cause.MISSING:
                raise self.requests.unreadable(failed.failure, "delete") from None

    def stored_checksum(self) -> StoredChecksum | None:
        """See `ObjectStore.stored_checksum`.

        Only Amazon is known to check what it is sent. Another store may repeat the checksum of our
        put; so there, only a checksum that we never sent counts: that of a multipart upload.
        """
        answer = self.requests.try_to(
            "check", "heads", "head_object", Key=self.name, ChecksumMode="ENABLED"
        )
        found = answer.get("ChecksumCRC32C")
        if found is None or answer.get("ChecksumType") != "FULL_OBJECT":
            return None
        is_multipart = "-" in answer["ETag"]
        if not (is_multipart or self.requests.s3.is_aws):
            return None
        crc32c = int.from_bytes(base64.b64decode(found), "big")
        return StoredChecksum(size_bytes=answer["ContentLength"], crc32c=crc32c)

    @property
    def _new(self) -> dict[str, object]:
        """Arguments of a request that begins an object."""
        in_class = {"StorageClass": self.storage_class} if self.storage_class else {}
        return {**self.requests.s3.encryption, **in_class}

    def _create(self, token: str, kind: str, method: str, **arguments: object) -> None:
        """Make a request that creates the object; if the outcome is unclear, find out."""
        try:
            self.requests.ask(kind, method, Key=self.name, **arguments)
        except RequestFailedError as failed:
            if not is_ours(failed.failure, lambda: self._has_token(token)):
                raise self.requests.unreadable(failed.failure, "create") from None

    def _has_token(self, token: str) -> bool | None:
        try:
            answer = self.requests.ask("heads", "head_object", Key=self.name)
        except RequestFailedError:
            return None
        return bool(answer.get("Metadata", {}).get(TOKEN) == token)


def is_ours(failure: Failure, has_token: Callable[[], bool | None]) -> bool:
    """Whether a write that failed has created the object after all.

    `has_token`: whether the object carries the token of this write; None if there is no object, or
    if the store does not say.
    """
    if not failure.may_have_happened:
        return False
    for pause_ms in CONFLICT_PAUSES_MS if failure.cause is Cause.CONFLICT else (0,):
        pause(pause_ms)
        found = has_token()
        if found is not None:
            return found
    return False


def encoded_crc32c(data: bytes | bytearray) -> str:
    """The CRC32C of a body as S3 writes it: big endian, in base64."""
    crc32c = object_crc32c(np.asarray(memoryview(data)))
    return base64.b64encode(crc32c.to_bytes(4, "big")).decode()
