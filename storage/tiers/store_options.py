"""Options of an object store that are not secret: endpoint, region, CA, and so on.

They travel to Spark's workers in a task. Credentials never do: every process finds its own, in its
environment, profile or role.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final
from urllib.parse import urlsplit

from tierfold.compaction.model.errors import BadSettings

PART_BYTES_MIN: Final = 5 << 20
"""S3 refuses a smaller part of a multipart upload, except the last."""

_CONNECT_TIMEOUT_MS: Final = 10_000

_TRUE: Final = frozenset({"1", "true", "yes", "y", "on", "requester"})
_FALSE: Final = frozenset({"0", "false", "no", "n", "off", ""})

_VARIABLES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "s3": {
        "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
        "ca_file": ("AWS_CA_BUNDLE",),
        "requester_pays": ("AWS_REQUEST_PAYER",),
        "kms_key_id": ("AWS_SSE_KMS_KEY_ID",),
    },
    "az": {
        "endpoint": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
        "account": ("AZURE_STORAGE_ACCOUNT_NAME",),
        "ca_file": ("SSL_CERT_FILE",),
    },
    "gs": {
        "endpoint": ("GOOGLE_BASE_URL",),
        "ca_file": ("SSL_CERT_FILE",),
    },
}
"""By scheme and option: the environment variables that name it; the first that is set wins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Options of a store; None: as the environment says, else the provider's default.

    Raises BadSettings if one cannot be used.
    """

    endpoint: str | None = None
    """The URL of the service, for a store that is not the provider's own."""
    region: str | None = None
    path_style: bool | None = None
    """S3: whether the bucket is in the URL's path; if not, it is in the name of the host.

    None: in the path if there is an endpoint.
    """
    ca_file: str | None = None
    """A file of certificates (PEM) to trust beside the system's."""
    requester_pays: bool | None = None
    kms_key_id: str | None = None
    """S3: encrypt new objects with this key of KMS; None: as the bucket says."""
    account: str | None = None
    """Azure: the storage account."""
    storage_class: str | None = field(default=None, compare=False)
    """The storage class, or access tier, of a tier's new objects; None: as others say. No client
    depends on it."""
    part_bytes: int = 16 << 20
    """The size of a part of a multipart upload; an object has at most 10,000 parts on S3."""
    timeout_ms: int = 30_000
    """How long a store may be silent before a request is tried again."""
    retries: int = 9
    """How often a request is tried again; with the growing pauses it takes about a minute."""

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            _check_endpoint(self.endpoint)
        for name, low in (("part_bytes", PART_BYTES_MIN), ("timeout_ms", 1), ("retries", 0)):
            value = getattr(self, name)
            if value < low:
                raise BadSettings(
                    f"it is {value}, and must be at least {low}",
                    where=f"store.{name}",
                    remedy="Raise it, or leave it out.",
                )

    def completed(self, scheme: str, environment: Mapping[str, str]) -> StoreOptions:
        """These options, and for those that are None what the environment says.

        Raises BadSettings if a variable cannot be used.
        """
        missing = {one.name for one in fields(self) if getattr(self, one.name) is None}
        found: dict[str, str | bool] = {}
        for name, variables in _VARIABLES.get(scheme, {}).items():
            variable = next((one for one in variables if environment.get(one)), None)
            if name in missing and variable is not None:
                text = environment[variable]
                found[name] = _flag(variable, text) if name == "requester_pays" else text
        virtual = environment.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST")
        if scheme == "s3" and virtual and "path_style" in missing:
            found["path_style"] = not _flag("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", virtual)
        return replace(self, **found)  # type: ignore[arg-type]

    def for_workers(self, scheme: str, environment: Mapping[str, str]) -> StoreOptions:
        """As `completed`, for processes elsewhere: without what exists on this machine alone.

        An executor whose environment lacks the endpoint would ask another store. It needs its own
        environment only for a file of certificates, unless the options name one.
        """
        return replace(self.completed(scheme, environment), ca_file=self.ca_file)

    @property
    def connect_timeout_ms(self) -> int:
        """How long to wait for a connection."""
        return min(self.timeout_ms, _CONNECT_TIMEOUT_MS)

    @property
    def uses_http(self) -> bool:
        """Whether the endpoint is without TLS."""
        return self.endpoint is not None and self.endpoint.lower().startswith("http://")


def _check_endpoint(text: str) -> None:
    """Raise BadSettings, without repeating a user or a query, which may be secrets."""
    if {"@", "?", "#"} & set(text):
        raise BadSettings(
            "the endpoint has a user, a query or a fragment",
            where="store.endpoint",
            remedy="Write only https://host:port; credentials come from the environment, a profile"
            " or a role.",
        )
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        url, port = urlsplit(""), None
    if url.scheme not in {"http", "https"} or not url.hostname or port == 0:
        raise BadSettings(
            "the endpoint is not a URL",
            where="store.endpoint",
            remedy="Write it as https://host or https://host:port, without a bucket.",
        )


def _flag(variable: str, text: str) -> bool:
    value = text.strip().lower()
    if value not in _TRUE | _FALSE:
        raise BadSettings(
            "it is neither true nor false", where=variable, remedy="Set it to true or false."
        )
    return value in _TRUE


ENVIRONMENT: Final = StoreOptions()
"""Options as the environment says."""
