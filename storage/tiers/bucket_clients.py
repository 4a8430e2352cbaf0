"""Opens the clients of a bucket, once per process: obstore's, and for S3 also boto3's.

obstore reads, lists and deletes. boto3 finds the credentials of S3, refreshes them during long
runs, and writes: only it can complete a multipart upload on a condition.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, TypeVarTuple

from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from tierfold.compaction.model.errors import BadSettings, InvariantBroken, UnreadableObject
from tierfold.storage.tiers import s3_pages
from tierfold.storage.tiers.request_counts import RequestCounter
from tierfold.storage.tiers.store_errors import Cause, Failure, RequestFailedError, translated
from tierfold.storage.tiers.store_options import StoreOptions

if TYPE_CHECKING:
    from boto3.session import Session
    from botocore.loaders import Loader
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, RetryConfig, S3Config

_REQUEST_LIMIT: Final = timedelta(minutes=10)
"""Ends a request whose answer only trickles in; one without an answer ends much earlier."""

_CREDENTIALS_TTL: Final = timedelta(minutes=6)
"""obstore asks again five minutes before it ends, so every minute; boto3 refreshes when due."""

_DEFAULT_REGION: Final = "us-east-1"

Answer: TypeAlias = Mapping[str, Any]
"""What boto3 returns."""
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class S3Writer:
    """What the writes of one bucket need."""

    client: Any
    """boto3's, which raises botocore's exceptions."""
    bucket: str
    options: StoreOptions
    is_aws: bool
    """Whether the endpoint is Amazon's own."""
    endpoint: str = ""
    """The URL that is asked; empty: Amazon's own."""
    shown: s3_pages.ShownClasses = field(default_factory=s3_pages.ShownClasses, compare=False)

    @property
    def common(self) -> dict[str, object]:
        """Arguments of every request."""
        payer = {"RequestPayer": "requester"} if self.options.requester_pays else {}
        return {"Bucket": self.bucket, **payer}

    @property
    def encryption(self) -> dict[str, object]:
        """Arguments of a request that begins an object."""
        if self.options.kms_key_id is None:
            return {}
        return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self.options.kms_key_id}


@dataclass(frozen=True, slots=True)
class BucketClients:
    """The clients of a bucket in this process."""

    store: S3Store | AzureStore | GCSStore | MemoryStore
    s3: S3Writer | None
    """Only of S3."""
    endpoint: str = ""
    """The URL that is asked; empty: the provider's own."""


_Arguments = TypeVarTuple("_Arguments")


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that knows which of obstore's threads are in Python.

    They bring results by `call_soon_threadsafe`, and may still be in it when the caller goes on. If
    the interpreter ends then, the whole process is aborted: on two busy cores, one of eleven
    processes that ended right after a read.
    """

    def __init__(self) -> None:
        super().__init__()
        self._inside: list[None] = []  # Its methods are atomic.

    def call_soon_threadsafe(
        self,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Do what the base does, and count the thread until it returns."""
        self._inside.append(None)
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        finally:
            self._inside.pop()

    def wait_until_left(self) -> None:
        """Return once no thread of obstore is in Python."""
        while self._inside:
            time.sleep(_LEAVING_S)
        time.sleep(_LEAVING_S)


_LEAVING_S: Final = 0.005
"""From the end of `call_soon_threadsafe` a thread needs some microseconds to leave Python."""


class _Opened:
    """The clients and counters of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clients: dict[tuple[str, str, StoreOptions, int], BucketClients] = {}
        self.counters: dict[str, RequestCounter] = {}
        self.memories: dict[str, MemoryStore] = {}
        self.loop: _Loop | None = None
        self.pid: int | None = None
        """Of the process that first used a bucket: no thread survives a fork."""


_OPENED: Final = _Opened()


def clients_of(scheme: str, bucket: str, options: StoreOptions) -> BucketClients:
    """The clients of the bucket; raises BadSettings, and UnreadableObject without credentials."""
    key = (scheme, bucket, options, environment_number())
    with _OPENED.lock:
        _OPENED.pid = _OPENED.pid or os.getpid()
        if _OPENED.pid != os.getpid():
            raise InvariantBroken(
                "this process was forked from one that had used an object store",
                where=f"{scheme}://{bucket}",
                remedy="Start workers before the store is used, or without fork; please report it.",
            )
        found = _OPENED.clients.get(key)
        if found is None:
            found = _OPENED.clients[key] = _clients(scheme, bucket, options)
    return found


_NAMED: Final = ("AWS_", "AZURE_", "GOOGLE_", "SSL_CERT_")
"""How the variables begin in which clients find credentials and files of certificates."""


def environment_number() -> int:
    """A number for what clients read of the environment, which shows none of it.

    In a notebook, a person who changes a variable as an error says gets clients that know it.
    """
    return hash(frozenset(found for found in os.environ.items() if found[0].startswith(_NAMED)))


def counter_of(root: str) -> RequestCounter:
    """The counter of this process for the store at the URI `root`."""
    with _OPENED.lock:
        return _OPENED.counters.setdefault(root, RequestCounter())


def awaited(request: Callable[[], Coroutine[object, object, _Found]]) -> _Found:
    """What obstore finds in threads of its own; raises its errors.

    obstore's calls that block wake the caller for each piece of a body, with TLS every 16 KB: that
    took 2 to 11 CPU seconds per GB, and 330,000 switches of threads. This takes 1.4, and 30,000.

    The loop has a thread of its own: the caller's may run another one, as in a notebook.
    """
    with _OPENED.lock:
        loop = _OPENED.loop
        if loop is None:
            loop = _Loop()
            threading.Thread(target=loop.run_forever, name="bucket", daemon=True).start()
            atexit.register(loop.wait_until_left)
            _OPENED.loop = loop  # Only now: without its thread every request would wait for ever.
    return asyncio.run_coroutine_threadsafe(request(), loop).result()


def _clients(scheme: str, bucket: str, options: StoreOptions) -> BucketClients:
    if scheme == "memory":
        memory = _OPENED.memories.setdefault(bucket, MemoryStore())
        return BucketClients(memory, None)
    full = options.completed(scheme, os.environ)
    where = f"{scheme}://{bucket}"
    with translated(where, "open"):
        if scheme == "s3":
            return _s3_clients(bucket, full)
        return BucketClients(_other_store(scheme, bucket, full), None, full.endpoint or "")


def _other_store(scheme: str, bucket: str, options: StoreOptions) -> AzureStore | GCSStore:
    client, retries = _client_config(options), retry_config(options)
    if scheme == "gs":
        google: GCSConfig = {}
        if options.endpoint is not None:
            google["base_url"] = options.endpoint
        return GCSStore(bucket, config=google, client_options=client, retry_config=retries)
    if options.account is None:
        raise BadSettings(
            "no storage account is named",
            where=f"{scheme}://{bucket}",
            remedy="Set AZURE_STORAGE_ACCOUNT_NAME.",
        )
    azure: AzureConfig = {"account_name": options.account}
    if options.endpoint is not None:
        azure["endpoint"] = options.endpoint
    return AzureStore(bucket, config=azure, client_options=client, retry_config=retries)


@dataclass(frozen=True, slots=True)
class S3Endpoint:
    """Where the requests of a bucket go, as boto3 resolves options and profile."""

    url: str
    region: str
    is_aws: bool
    """Whether it is Amazon's own."""
    is_virtual: bool
    """Whether the bucket is in the name of the host."""

    @property
    def uses_http(self) -> bool:
        """Whether it has no TLS."""
        return self.url.startswith("http://")

    def for_obstore(self, bucket: str) -> str:
        """The URL as obstore and delta-rs take it: with the bucket where it is in the host."""
        scheme, _, host = self.url.partition("://")
        return f"{scheme}://{bucket}.{host}" if self.is_virtual else self.url


def s3_endpoint(bucket: str, options: StoreOptions) -> S3Endpoint:
    """The endpoint of a bucket; raises BadSettings, and UnreadableObject without credentials."""
    with translated(f"s3://{bucket}", "open"):
        return _endpoint(bucket, options, _boto3_client(s3_session(options), options))


def _endpoint(bucket: str, options: StoreOptions, boto: Any) -> S3Endpoint:  # noqa: ANN401
    region = boto.meta.region_name
    region = region if region and region != "aws-global" else _DEFAULT_REGION
    url = boto.meta.endpoint_url.rstrip("/")
    is_aws = url in {f"https://s3.{region}.amazonaws.com", "https://s3.amazonaws.com"}
    # A bucket with a dot in its name matches no certificate as part of the host.
    is_virtual = options.path_style is not True and "." not in bucket
    if not is_aws:
        is_virtual = options.path_style is False
    return S3Endpoint(url, region, is_aws, is_virtual)


def _s3_clients(bucket: str, options: StoreOptions) -> BucketClients:
    from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415  (boto3: 0.7 s)

    session = s3_session(options)
    boto = _boto3_client(session, options)
    endpoint = _endpoint(bucket, options, boto)
    config: S3Config = {
        "region": endpoint.region,
        "virtual_hosted_style_request": endpoint.is_virtual,
        "disable_bulk_delete": True,
        "request_payer": bool(options.requester_pays),
    }
    if not endpoint.is_aws:
        config["endpoint"] = endpoint.for_obstore(bucket)
    store = S3Store(
        bucket,
        config=config,
        client_options=_client_config(options) | {"allow_http": endpoint.uses_http},
        retry_config=retry_config(options),
        credential_provider=Boto3CredentialProvider(session, ttl=_CREDENTIALS_TTL),
    )
    asked = "" if endpoint.is_aws else endpoint.url
    writer = S3Writer(boto, bucket, options, endpoint.is_aws, asked)
    return BucketClients(store, writer, writer.endpoint)


def s3_session(options: StoreOptions) -> Session:
    """boto3's session, with credentials; raises BadSettings, and RequestFailedError without any."""
    import botocore.session  # noqa: PLC0415
    from boto3.session import Session  # noqa: PLC0415
    from botocore.exceptions import ProfileNotFound  # noqa: PLC0415

    core = botocore.session.Session()
    core.register_component("data_loader", _aws_data())
    try:
        session = Session(region_name=options.region, botocore_session=core)
        credentials = session.get_credentials()
    except ProfileNotFound:
        raise BadSettings(
            "there is no such profile in the AWS configuration",
            where="AWS_PROFILE",
            remedy="Check the name, and AWS_CONFIG_FILE if the file is not ~/.aws/config.",
        ) from None
    if credentials is None:
        raise RequestFailedError(Failure(Cause.NO_CREDENTIALS))
    return session


@functools.cache
def _aws_data() -> Loader:
    """What botocore knows of AWS's services; parsing it takes 60 ms of CPU, so once per process."""
    from botocore.loaders import create_loader  # noqa: PLC0415

    return create_loader()


def _boto3_client(session: Session, options: StoreOptions) -> Any:  # noqa: ANN401
    from botocore.config import Config  # noqa: PLC0415

    style = {None: "auto", True: "path", False: "virtual"}[options.path_style]
    config = Config(
        retries={"mode": "standard", "total_max_attempts": options.retries + 1},
        connect_timeout=options.connect_timeout_ms / 1000,
        read_timeout=options.timeout_ms / 1000,
        max_pool_connections=32,
        s3={"addressing_style": style},
        # We send and check CRC32C ourselves.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    if options.ca_file is not None:
        _ca_bytes(options.ca_file)
    client = session.client(
        "s3", endpoint_url=options.endpoint, verify=options.ca_file, config=config
    )
    s3_pages.register(client)
    return client


def retry_config(options: StoreOptions) -> RetryConfig:
    """The retries of obstore: as many as boto3 makes, with the same growing pauses."""
    return {
        "max_retries": options.retries,
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=15),
            "base": 2,
        },
        "retry_timeout": timedelta(minutes=3),
    }


def _client_config(options: StoreOptions) -> ClientConfig:
    found: ClientConfig = {
        "connect_timeout": timedelta(milliseconds=options.connect_timeout_ms),
        "read_timeout": timedelta(milliseconds=options.timeout_ms),
        "timeout": _REQUEST_LIMIT,
        "allow_http": options.uses_http,
    }
    if options.ca_file is not None:
        found["root_certificate"] = _ca_bytes(options.ca_file)
    return found


def _ca_bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UnreadableObject(
            f"cannot read the file of trusted certificates: {error.strerror}",
            where=path,
            remedy="Check the path in AWS_CA_BUNDLE, SSL_CERT_FILE or the settings.",
        ) from None
