"""An S3 bucket in memory, as one actor sees it; the product's own upload code runs on it.

For writes only boto3's client is simulated. An object larger than a part is uploaded in parts, and
appears on completion. The parts of a dead client stay until they are aborted. The answer to a
completion may get lost, and a completion may take effect after its run died.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import google_crc32c
from botocore.exceptions import ClientError, ReadTimeoutError
from obstore.store import MemoryStore

from tests.faults.simulation.environment_store import (
    PAGE,
    WRITE_WEIGHT,
    Objects,
    Stored,
    VirtualStore,
)
from tests.faults.simulation.simulation_scheduler import (
    READ_FAULTS,
    REJECTED,
    WRITE_FAULTS,
    Actor,
    Call,
    Fault,
)
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.bucket_clients import BucketClients, S3Writer
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.object_store import Bytes, ObjectEntry, ObjectWriter, StoredChecksum
from tierfold.storage.tiers.s3_objects import TOKEN
from tierfold.storage.tiers.s3_uploads import UPLOAD_ID
from tierfold.storage.tiers.store_options import StoreOptions

if TYPE_CHECKING:
    from obstore import ObjectMeta

PART_BYTES: Final = 100
"""Smaller than most logs of a scenario."""

COMPLETION_WEIGHT: Final = 10
"""How much more often a completion fails than a read; completions are few, but make objects."""

COMPLETION_FAULTS: Final = (*WRITE_FAULTS, *[Fault.LATE] * 5)
"""Most are late. That has an effect only if the client also fails to abort the upload."""

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Upload:
    """A multipart upload that is neither completed nor aborted."""

    key: str
    token: str
    by: Actor
    is_from_broker: bool
    began_ms: int
    parts: dict[int, Stored] = field(default_factory=dict)
    listed_age_ms: dict[str, int] = field(default_factory=dict)
    """By actor: the age of the last part when that actor last listed the parts."""

    @property
    def modified_ms(self) -> int:
        """When its last part arrived."""
        return max([self.began_ms, *(part.modified_ms for part in self.parts.values())])


@dataclass(slots=True, kw_only=True)
class BucketObjects(Objects):
    """The objects of a bucket, and its unfinished uploads."""

    is_aws: bool = False
    part_bytes: int = PART_BYTES
    aborts: Callable[[Upload, Actor], None] = lambda *_: None
    """Called with an upload and the actor that is about to abort it."""
    happened: Callable[[str], None] = lambda _: None
    """Called with events that only a bucket has, to count them."""
    uploads: dict[str, Upload] = field(default_factory=dict)
    """By upload id."""
    tokens: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """By key: the writer's token, and whether the upload had parts."""
    _ids: count[int] = field(default_factory=count)

    def put_whole(self, key: str, data: bytes, token: str, *, is_multipart: bool) -> None:
        """Add an object; raises ClientError if the name is taken."""
        try:
            self.put(key, data)
        except UnreadableObject:
            raise answered("PreconditionFailed", 412) from None
        self.tokens[key] = token, is_multipart

    def begin_upload(self, key: str, token: str, by: Actor, *, is_from_broker: bool) -> str:
        """Begin an upload; return its id."""
        name = f"upload-{next(self._ids):04d}"
        self.uploads[name] = Upload(
            key=key, token=token, by=by, is_from_broker=is_from_broker, began_ms=self.now_ms()
        )
        return name

    def upload(self, name: str) -> Upload:
        """Return an unfinished upload; raises ClientError if there is none."""
        if name not in self.uploads:
            raise answered("NoSuchUpload", 404)
        return self.uploads[name]

    def add_part(self, name: str, number: int, data: bytes) -> None:
        """Add a part; raises ClientError."""
        self.upload(name).parts[number] = Stored(data=data, modified_ms=self.now_ms())

    def complete(self, name: str, numbers: list[int]) -> None:
        """Make an object of these parts; raises ClientError if the name is taken."""
        upload = self.upload(name)
        if numbers != sorted(upload.parts):
            raise answered("InvalidPart", 400)
        data = b"".join(bytes(upload.parts[number].data) for number in numbers)
        self.put_whole(upload.key, data, upload.token, is_multipart=True)
        del self.uploads[name]

    def abort(self, name: str, by: Actor) -> None:
        """Discard an upload and its parts; raises ClientError."""
        upload = self.upload(name)
        self.aborts(upload, by)
        del self.uploads[name]
        if by is not upload.by:
            whose = "a broker's" if upload.is_from_broker else "our"
            self.happened(f"{whose} upload aborted")


@dataclass(frozen=True, slots=True)
class VirtualS3:
    """boto3's client of one actor; each request is a scheduling point."""

    actor: Actor
    objects: BucketObjects
    is_from_broker: bool = False

    def put_object(self, **request: Any) -> Mapping[str, Any]:
        """Write an object; fails if the name is taken."""
        key, data, token = request["Key"], bytes(request["Body"]), _token(request)
        put = partial(self.objects.put_whole, key, data, token, is_multipart=False)
        self._write("put", key, put)
        return _answer()

    def create_multipart_upload(self, **request: Any) -> Mapping[str, Any]:
        """Begin an upload; if the call is late, no client knows the upload's id."""
        key, token = request["Key"], _token(request)
        begin = partial(
            self.objects.begin_upload, key, token, self.actor, is_from_broker=self.is_from_broker
        )
        return _answer(UploadId=self._write("begin upload of", key, begin))

    def upload_part(self, **request: Any) -> Mapping[str, Any]:
        """Send a part."""
        name, number, data = request["UploadId"], request["PartNumber"], bytes(request["Body"])
        what = f"send part {number} of"
        self._write(what, request["Key"], lambda: self.objects.add_part(name, number, data))
        return _answer(ETag=f"{number}")

    def upload_part_copy(self, **request: Any) -> Mapping[str, Any]:
        """Copy a part of an object, or all of it."""
        name, number, source = request["UploadId"], request["PartNumber"], request["CopySource"]
        span = request.get("CopySourceRange", f"bytes=0-{2**63}").removeprefix("bytes=")
        first, last = map(int, span.split("-"))

        def copied() -> None:
            if source["Key"] not in self.objects.stored:
                raise answered("NoSuchKey", 404)
            data = bytes(self.objects.stored[source["Key"]].data)
            self.objects.add_part(name, number, data[first : last + 1])

        self._write(f"copy part {number} to", request["Key"], copied)
        return _answer(CopyPartResult={"ETag": f"{number}"})

    def complete_multipart_upload(self, **request: Any) -> Mapping[str, Any]:
        """Make an object of the parts; fails if the name is taken."""
        name = request["UploadId"]
        numbers = [part["PartNumber"] for part in request["MultipartUpload"]["Parts"]]
        key, complete = request["Key"], partial(self.objects.complete, name, numbers)

        def late() -> None:
            complete()
            self.objects.happened("upload completed after its client gave up")

        call = Call(
            what=f"complete {key[-40:]}",
            effect=complete,
            late=_when_late(late),
            faults=COMPLETION_FAULTS,
            error=_error,
            weight=COMPLETION_WEIGHT,
        )
        self.actor.do(call)
        return _answer()

    def abort_multipart_upload(self, **request: Any) -> Mapping[str, Any]:
        """Discard an upload."""
        name = request["UploadId"]
        self._write("abort", request["Key"], lambda: self.objects.abort(name, self.actor))
        return _answer()

    def head_object(self, **request: Any) -> Mapping[str, Any]:
        """Return an object's size, checksum and token."""
        return self._read("head", request["Key"], lambda: self._head(request["Key"]))

    def _head(self, key: str) -> Mapping[str, Any]:
        if key not in self.objects.stored:
            raise answered("404", 404)
        data = bytes(self.objects.stored[key].data)
        token, is_multipart = self.objects.tokens.get(key, ("", False))
        return _answer(
            ContentLength=len(data),
            ChecksumCRC32C=base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode(),
            ChecksumType="FULL_OBJECT",
            ETag="tag-1" if is_multipart else "tag",
            Metadata={TOKEN: token},
        )

    def list_multipart_uploads(self, **request: Any) -> Mapping[str, Any]:
        """Return a page of the unfinished uploads below a prefix."""
        beyond = request.get("KeyMarker", ""), request.get("UploadIdMarker", "")
        uploads = partial(self._uploads, request, beyond)
        found = self._read("list uploads of", request["Prefix"], uploads)
        page = found[:PAGE]
        last = page[-1] if page else {"Key": "", "UploadId": ""}
        return _answer(
            Uploads=page,
            IsTruncated=len(found) > PAGE,
            NextKeyMarker=last["Key"],
            NextUploadIdMarker=last["UploadId"],
        )

    def _uploads(self, request: Mapping[str, Any], beyond: tuple[str, str]) -> list[dict[str, Any]]:
        prefix = request["Prefix"]
        places = sorted((upload.key, name) for name, upload in self.objects.uploads.items())
        return [
            {"Key": key, "UploadId": name, "Initiated": _time(self.objects.uploads[name].began_ms)}
            for key, name in places
            if key.startswith(prefix) and "/" not in key[len(prefix) :] and (key, name) > beyond
        ]

    def list_parts(self, **request: Any) -> Mapping[str, Any]:
        """Return a page of an upload's parts."""
        beyond = request.get("PartNumberMarker", 0)
        shown = partial(self._shown, request["UploadId"])
        upload = self._read("list parts of", request["Key"], shown)
        numbers = sorted(number for number in upload.parts if number > beyond)
        page = [
            {"Size": len(upload.parts[n].data), "LastModified": _time(upload.parts[n].modified_ms)}
            for n in numbers[:PAGE]
        ]
        return _answer(
            Parts=page,
            IsTruncated=len(numbers) > PAGE,
            NextPartNumberMarker=numbers[len(page) - 1] if page else 0,
        )

    def _shown(self, name: str) -> Upload:
        upload = self.objects.upload(name)
        upload.listed_age_ms[self.actor.name] = self.objects.now_ms() - upload.modified_ms
        return upload

    def _read(self, what: str, key: str, effect: Callable[[], T]) -> T:
        call = Call(
            what=f"{what} {key[-40:]}", effect=effect, faults=READ_FAULTS, error=_error
        )
        return self.actor.do(call)

    def _write(self, what: str, key: str, effect: Callable[[], object]) -> Any:
        call = Call(
            what=f"{what} {key[-40:]}",
            effect=effect,
            late=_when_late(effect),
            faults=WRITE_FAULTS,
            error=_error,
            weight=WRITE_WEIGHT,
        )
        return self.actor.do(call)


class SmallParts(StoreOptions):
    """Options that allow parts smaller than S3 does."""

    def __post_init__(self) -> None:
        """Check nothing."""


@dataclass(frozen=True, slots=True)
class _Writes(BucketStore):
    """The product's store, on the simulated boto3 client."""

    client: VirtualS3

    def _head(self, key: str, doing: str) -> ObjectMeta:
        with self._translated(key, doing):
            found = self.client.head_object(Key=self._name(key))
        return cast("ObjectMeta", {"size": found["ContentLength"], "e_tag": found["ETag"]})

    @property
    def _clients(self) -> BucketClients:
        is_aws = self.client.objects.is_aws
        s3 = S3Writer(self.client, self.bucket, self.options, is_aws)
        return BucketClients(MemoryStore(), s3)


@dataclass(frozen=True, slots=True)
class VirtualBucket(VirtualStore):
    """The `ObjectStore` of one actor on a bucket: reads are simulated, writes are the product's."""

    objects: BucketObjects
    keeps_empty_folders = False
    """See `ObjectStore.keeps_empty_folders`."""

    @property
    def _writes(self) -> _Writes:
        options = SmallParts(part_bytes=self.objects.part_bytes)
        return _Writes("s3", "virtual", "", options, VirtualS3(self.actor, self.objects))

    def create(self, key: str, data: Bytes) -> None:
        """See `ObjectStore.create`."""
        self._writes.create(key, data)

    def open_new(self, key: str) -> AbstractContextManager[ObjectWriter]:
        """See `ObjectStore.open_new`."""
        return self._writes.open_new(key)

    def copy(self, source: str, target: str) -> int:
        """See `ObjectStore.copy`."""
        return self._writes.copy(source, target)

    def stored_checksum(self, key: str) -> StoredChecksum | None:  # type: ignore[override]
        """See `ObjectStore.stored_checksum`."""
        return self._writes.stored_checksum(key)

    def unfinished(self, folder: str) -> Iterator[ObjectEntry]:
        """See `ObjectStore.unfinished`."""
        return self._writes.unfinished(folder)

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        if UPLOAD_ID in key:
            self._writes.delete(key)
        else:
            VirtualStore.delete(self, key)

    def free_bytes(self) -> None:  # type: ignore[override]
        """See `ObjectStore.free_bytes`."""


def store_of(actor: Actor, objects: Objects) -> VirtualStore:
    """Return an actor's store: a bucket or a folder."""
    if isinstance(objects, BucketObjects):
        return VirtualBucket(actor, objects)
    return VirtualStore(actor, objects)


def answered(code: str, status: int) -> ClientError:
    """Return the error that boto3 raises for this answer of S3."""
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "request")


def _when_late(effect: Callable[[], object]) -> Callable[[], None]:
    """Return the effect of a late request; no client receives its error."""

    def late() -> None:
        with suppress(ClientError):
            effect()

    return late


def _error(cause: str) -> Exception:
    """Return the error of a request that the scheduler makes fail."""
    if cause == REJECTED:
        return answered("SlowDown", 503)
    return ReadTimeoutError(endpoint_url="virtual")


def _answer(**fields: Any) -> Mapping[str, Any]:
    return {"ResponseMetadata": {}, **fields}


def _token(request: Mapping[str, Any]) -> str:
    return str(request.get("Metadata", {}).get(TOKEN, ""))


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
