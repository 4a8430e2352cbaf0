"""Says why a store refused a request, in one plain sentence with a remedy.

The texts of obstore, botocore and the stores are never repeated: they contain signed URLs and
access keys. Only codes, HTTP statuses and region names are taken from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.redaction import redacted


class Cause(Enum):
    """Why a request failed: what is wrong, and the remedy."""

    MISSING = (
        "it is not there, or no longer",
        "List the tier again; if a segment still names it, restore it from a copy.",
    )
    NO_BUCKET = (
        "the bucket does not exist",
        "Check its name, and the endpoint or storage account.",
    )
    FORBIDDEN = (
        "access is denied",
        "Allow this identity to list, read, write and delete there; docs/s3.md, docs/azure.md and"
        " docs/google_cloud.md have a policy to copy.",
    )
    NO_CREDENTIALS = (
        "there are no credentials",
        "Set them in the environment, name a profile (AWS_PROFILE), or run under a role;"
        " docs/s3.md, docs/azure.md and docs/google_cloud.md list the ways.",
    )
    EXPIRED = (
        "the credentials have expired",
        "Renew them (for example with aws sso login), then run again.",
    )
    REFUSED_CREDENTIALS = (
        "the credentials are not accepted",
        "Check which ones this process uses (environment, profile, role), and that they belong to"
        " this endpoint or account.",
    )
    CLOCK = (
        "this machine's clock differs too much from the store's",
        "Set the clock, for example with NTP, then run again.",
    )
    REGION = (
        "the bucket is in another region",
        "Name its region in AWS_REGION or in the settings.",
    )
    UNREACHABLE = (
        "the endpoint cannot be reached",
        "Check the endpoint, the network and the proxy, then run again.",
    )
    TLS = (
        "the endpoint's certificate is not trusted",
        "Name the file of its CA in SSL_CERT_FILE, and for S3 in AWS_CA_BUNDLE, too.",
    )
    TIMEOUT = (
        "the store did not answer in time",
        "Check the network and the store, then run again.",
    )
    BUSY = (
        "the store asks for fewer requests",
        "Run again later, or with fewer tasks in parallel.",
    )
    BROKEN = (
        "the store reports an internal error",
        "Run again; if it persists, ask the store's operator.",
    )
    CUT = (
        "the answer ended early",
        "Check the network and the store, then run again.",
    )
    TAKEN = (
        "the name is taken, and nothing is ever overwritten",
        "Run again: every attempt takes new names.",
    )
    CONFLICT = (
        "another request is changing this name",
        "Run again: every attempt takes new names.",
    )
    RANGE = (
        "it ends before these bytes",
        "Check whether something else changes the tier's objects.",
    )
    ALTERED = (
        "the bytes changed on their way to the store",
        "Run again; if it persists, check the network and its proxies.",
    )
    ARCHIVED = (
        "it is archived, and cannot be read now",
        "Restore it from the archive class, and take the tier out of such lifecycle rules.",
    )
    KMS = (
        "the KMS key cannot be used",
        "Check the key, and allow this identity to encrypt and decrypt with it.",
    )
    BAD_NAME = (
        "the store has a name with `.`, `..` or an unprintable character in it",
        "Rename or delete that object; neither Kafka nor tierfold writes such names.",
    )
    OTHER = (
        "the store refuses the request",
        "Check the endpoint, the region and the credentials, then run again.",
    )


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of a failed request, without anything that may be secret."""

    cause: Cause
    status: int | None = None
    """The HTTP status, if the store answered."""
    region: str = ""
    """The region that the store names instead."""
    retries: int = 0

    @property
    def may_have_happened(self) -> bool:
        """Whether the store may have done what was asked, or may still do it."""
        return self.cause in _UNDECIDED


_UNDECIDED: Final = frozenset(
    {
        Cause.TAKEN,  # By ourselves, if an answer was lost and a library tried again.
        Cause.CONFLICT,
        Cause.MISSING,  # An upload that is completed is gone.
        Cause.UNREACHABLE,
        Cause.TIMEOUT,
        Cause.BUSY,
        Cause.BROKEN,
        Cause.CUT,
        Cause.OTHER,
    }
)

_RETRIED: Final = frozenset(
    {Cause.UNREACHABLE, Cause.TIMEOUT, Cause.BUSY, Cause.BROKEN, Cause.CUT}
)

_BY_CODE: Final[Mapping[str, Cause]] = {
    code: cause
    for cause, codes in {
        Cause.MISSING: "NoSuchKey NoSuchUpload NoSuchVersion BlobNotFound",
        Cause.NO_BUCKET: "NoSuchBucket ContainerNotFound ContainerBeingDeleted InvalidBucketName",
        Cause.FORBIDDEN: (
            "AccessDenied AllAccessDisabled AccountProblem AuthorizationFailure"
            " AuthorizationPermissionMismatch AccountIsDisabled PublicAccessNotPermitted"
        ),
        Cause.EXPIRED: "ExpiredToken ExpiredTokenException TokenRefreshRequired RequestExpired",
        Cause.REFUSED_CREDENTIALS: (
            "InvalidAccessKeyId SignatureDoesNotMatch InvalidToken InvalidSecurity"
            " AuthenticationFailed InvalidAuthenticationInfo NoAuthenticationInformation"
            " XAdminUserNotFound"  # Of versitygw.
        ),
        Cause.CLOCK: "RequestTimeTooSkewed",
        Cause.REGION: (
            "PermanentRedirect AuthorizationHeaderMalformed IllegalLocationConstraintException"
            " TemporaryRedirect"
        ),
        Cause.BUSY: "SlowDown ServerBusy Throttling ThrottlingException TooManyRequests",
        Cause.BROKEN: "InternalError ServiceUnavailable OperationTimedOut",
        Cause.TIMEOUT: "RequestTimeout",
        Cause.TAKEN: "PreconditionFailed ConditionNotMet BlobAlreadyExists",
        Cause.CONFLICT: "ConditionalRequestConflict OperationAborted",
        Cause.RANGE: "InvalidRange",
        Cause.ALTERED: "BadDigest InvalidDigest XAmzContentSHA256Mismatch Md5Mismatch",
        Cause.ARCHIVED: "InvalidObjectState BlobArchived",
        Cause.KMS: "KMS.DisabledException KMS.NotFoundException KMS.KMSInvalidStateException",
    }.items()
    for code in codes.split()
}

_BY_STATUS: Final[Mapping[int, Cause]] = {
    301: Cause.REGION,
    307: Cause.REGION,
    401: Cause.REFUSED_CREDENTIALS,
    403: Cause.FORBIDDEN,
    404: Cause.MISSING,
    408: Cause.TIMEOUT,
    409: Cause.CONFLICT,
    412: Cause.TAKEN,
    416: Cause.RANGE,
    429: Cause.BUSY,
    503: Cause.BUSY,
}

_BOTOCORE: Final[Mapping[str, Cause]] = {
    "NoCredentialsError": Cause.NO_CREDENTIALS,
    "PartialCredentialsError": Cause.NO_CREDENTIALS,
    "UnauthorizedSSOTokenError": Cause.EXPIRED,
    "SSOTokenLoadError": Cause.EXPIRED,
    "TokenRetrievalError": Cause.EXPIRED,
    "CredentialRetrievalError": Cause.EXPIRED,
    "MetadataRetrievalError": Cause.EXPIRED,
    "SSLError": Cause.TLS,
    "ConnectTimeoutError": Cause.UNREACHABLE,
    "ReadTimeoutError": Cause.TIMEOUT,
    "EndpointConnectionError": Cause.UNREACHABLE,
    "ProxyConnectionError": Cause.UNREACHABLE,
    "ConnectionClosedError": Cause.CUT,
    "ResponseStreamingError": Cause.CUT,
    "IncompleteReadError": Cause.CUT,
    "HTTPClientError": Cause.UNREACHABLE,
}
"""By class of botocore; a class is looked up before its bases."""

_OBSTORE: Final = (
    (AlreadyExistsError, Cause.TAKEN),
    (PreconditionError, Cause.TAKEN),
    (FileNotFoundError, Cause.MISSING),
    (PermissionDeniedError, Cause.FORBIDDEN),
    (UnauthenticatedError, Cause.EXPIRED),
    (InvalidPathError, Cause.BAD_NAME),
)

_TRANSPORT: Final = (
    (re.compile(r"certificate|UnknownIssuer|InvalidCertificate"), Cause.TLS),
    (re.compile(r"kind: Connect\b|dns error|Connection refused"), Cause.UNREACHABLE),
    (re.compile(r"kind: Timeout\b|TimedOut"), Cause.TIMEOUT),
    (re.compile(r"kind: (Decode|Interrupted|Body)\b|IncompleteMessage|UnexpectedEof"), Cause.CUT),
    (re.compile(r"Connection reset|ConnectionReset|BrokenPipe"), Cause.CUT),
    (re.compile(r"Range \{"), Cause.RANGE),
    (re.compile(r"redirect without LOCATION"), Cause.REGION),
)
"""What obstore's debug text contains if no store answered."""

_STATUS: Final = re.compile(r"status code: ([0-9]{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z.]{1,80})</Code>")
_REGION: Final = re.compile(r"(?:expecting '|<Region>)([a-z]{2}[a-z0-9-]{2,30})['<]")
_RETRIES: Final = re.compile(r"after ([0-9]{1,4}) retries")


class RequestFailedError(Exception):
    """A request failed; internal to the stores, which decide what it means."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


@contextmanager
def failures() -> Iterator[None]:
    """Turn the exceptions of obstore and botocore into RequestFailedError; others pass."""
    try:
        yield
    except Exception as error:
        failure = _failure_of(error)
        if failure is None:
            raise
        # Without its cause: a traceback would show signed URLs.
        raise RequestFailedError(failure) from None


@contextmanager
def translated(where: str, doing: str) -> Iterator[None]:
    """Turn the exceptions of obstore and botocore into an UnreadableObject with a remedy."""
    try:
        with failures():
            yield
    except RequestFailedError as failed:
        raise unreadable(failed.failure, where, doing) from None


def _failure_of(error: Exception) -> Failure | None:
    if isinstance(error, BaseError | FileNotFoundError):
        return _of_obstore(error)
    # Some exceptions of botocore are made at run time, in a module named after its factory.
    if any(kind.__module__.partition(".")[0] == "botocore" for kind in type(error).__mro__):
        return _of_botocore(error)
    return None


def unreadable(
    failure: Failure, where: str, doing: str, endpoint: str = ""
) -> UnreadableObject:
    """The error that a user sees; `endpoint`: the URL that was asked, if it is known."""
    what, remedy = failure.cause.value
    if endpoint:
        what = what.replace("the endpoint", f"the endpoint {redacted(endpoint)}")
    if failure.region:
        what += f", {failure.region}"
    if failure.cause in {Cause.OTHER, Cause.BROKEN} and failure.status is not None:
        what += f" (HTTP {failure.status})"
    if failure.retries and failure.cause in _RETRIED:
        what += f", after {failure.retries} {'retry' if failure.retries == 1 else 'retries'}"
    return UnreadableObject(f"cannot {doing} this: {what}", where=where, remedy=remedy)


def _of_obstore(error: Exception) -> Failure:
    text = str(error)
    status = _STATUS.search(text)
    retries = _RETRIES.search(text)
    if "TokenRequest" in text:  # The identity service answered, not the store.
        return Failure(Cause.NO_CREDENTIALS)
    if status is not None:
        code = _CODE.search(text)
        found = _answered(int(status[1]), "" if code is None else code[1])
    else:
        kinds = (cause for kind, cause in _OBSTORE if isinstance(error, kind))
        texts = (cause for pattern, cause in _TRANSPORT if pattern.search(text))
        found = next(kinds, None) or next(texts, Cause.OTHER)
    region = _REGION.search(text) if found is Cause.REGION else None
    return Failure(
        found,
        None if status is None else int(status[1]),
        "" if region is None else region[1],
        0 if retries is None else int(retries[1]),
    )


def _of_botocore(error: Exception) -> Failure:
    response: Mapping[str, Any] = getattr(error, "response", None) or {}
    answer = response.get("ResponseMetadata", {})
    retries = int(answer.get("RetryAttempts", 0))
    status = answer.get("HTTPStatusCode")
    if isinstance(status, int):
        said = response.get("Error", {})
        cause = _answered(status, str(said.get("Code", "")))
        region = str(said.get("Region", "")) if cause is Cause.REGION else ""
        return Failure(cause, status, region if region.replace("-", "").isalnum() else "", retries)
    bases = (kind.__name__ for kind in type(error).__mro__)
    return Failure(next((_BOTOCORE[name] for name in bases if name in _BOTOCORE), Cause.OTHER))


def _answered(status: int, code: str) -> Cause:
    fallback = Cause.BROKEN if status >= 500 else Cause.OTHER
    return _BY_CODE.get(code) or _BY_STATUS.get(status, fallback)
