"""Names the place of a tier or a catalog, and opens the object store there.

    s3://bucket/prefix    Amazon S3, or a store that speaks its protocol
    az://container/prefix Azure Blob Storage; AZURE_STORAGE_ACCOUNT_NAME names the account
    gs://bucket/prefix    Google Cloud Storage
    /a/folder             a folder; also a relative path, or file:///a/folder

The clients of buckets are imported where a bucket is opened, so that a folder starts without them.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from tierfold.compaction.model.errors import BadSettings
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.object_store import ObjectStore
from tierfold.storage.tiers.store_options import StoreOptions

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?(.*)", re.DOTALL)

_BUCKETS: Final = {
    "s3": (
        "bucket",
        re.compile(r"(?!.*\.\.)(?![0-9.]+$)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
        "3 to 63 characters: lower-case letters, digits, hyphens, dots",
    ),
    "az": (
        "container",
        re.compile(r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]"),
        "3 to 63 characters: lower-case letters, digits, hyphens",
    ),
    "gs": (
        "bucket",
        re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"),
        "3 to 222 characters: lower-case letters, digits, hyphens, underscores, dots",
    ),
}
"""By scheme: what the provider calls a bucket, and which names it allows."""

_SHOWN: Final = re.compile(r"(?!A[A-Z]{3}[A-Z0-9]{16}$)[A-Za-z0-9._-]{1,80}")
"""A name that an error repeats: no secret key, and no id of an access key."""

_PREFIX: Final = re.compile(r"[A-Za-z0-9._=+@,~-]+(/[A-Za-z0-9._=+@,~-]+)*")
"""Characters that URIs, Spark and delta-rs leave as they are."""

_INSTEAD: Final = {
    "s3a": "Write s3://bucket/prefix.",
    "s3n": "Write s3://bucket/prefix.",
    "gcs": "Write gs://bucket/prefix.",
    "azure": "Write az://container/prefix.",
    "abfs": "Write az://container/prefix, and the account in AZURE_STORAGE_ACCOUNT_NAME.",
    "abfss": "Write az://container/prefix, and the account in AZURE_STORAGE_ACCOUNT_NAME.",
    "wasb": "Write az://container/prefix, and the account in AZURE_STORAGE_ACCOUNT_NAME.",
    "wasbs": "Write az://container/prefix, and the account in AZURE_STORAGE_ACCOUNT_NAME.",
    "http": "Name the bucket, and the URL of the service in AWS_ENDPOINT_URL or the settings.",
    "https": "Name the bucket, and the URL of the service in AWS_ENDPOINT_URL or the settings.",
}
"""What to write instead of a scheme that other programs know."""


@dataclass(frozen=True, slots=True)
class Location:
    """A folder, or a prefix in a bucket; `str` gives it as `location_of` takes it."""

    scheme: str
    """`file`, `s3`, `az` or `gs`."""
    bucket: str
    """The bucket or container; empty for a folder."""
    path: str
    """An absolute path; in a bucket the prefix, without slashes around it."""

    def __str__(self) -> str:
        """The absolute path of a folder, or the URI."""
        if self.scheme == "file":
            return self.path
        return f"{self.scheme}://{self.bucket}" + (f"/{self.path}" if self.path else "")

    @property
    def is_folder(self) -> bool:
        """Whether it is on this machine's file system."""
        return self.scheme == "file"

    @property
    def folder(self) -> Path:
        """The path of a folder; raises ValueError for a bucket."""
        if not self.is_folder:
            raise ValueError(f"{self} is no folder")
        return Path(self.path)

    def child(self, name: str) -> Location:
        """The location of that name below this one."""
        if self.is_folder:
            return Location("file", "", str(self.folder / name))
        return Location(self.scheme, self.bucket, f"{self.path}/{name}" if self.path else name)


def location_of(text: str, *, of: str) -> Location:
    """The location that `text` names; it need not exist. `of` is "tier" or "catalog".

    Raises BadSettings, which repeats nothing that may be a secret.
    """
    found = _URI.fullmatch(text.strip(string.whitespace))
    scheme = "" if found is None else found[1].lower()
    if found is None or scheme == "file":
        return Location("file", "", _folder(text, of, is_uri=found is not None))
    if scheme not in _BUCKETS or found[2] is None:
        raise _not_supported(text, scheme + (":" if found[2] is None else "://"), of)
    return _bucket_location(scheme, found[3], of)


def open_store(
    location: Location, options: StoreOptions, *, follows_links: bool = True
) -> ObjectStore:
    """The store at a location; nothing is read yet.

    `follows_links`: a folder below it, or an object, may be a symbolic link.
    """
    if location.is_folder:
        return LocalStore(location.folder, follows_links)
    from tierfold.storage.tiers.bucket_store import BucketStore  # noqa: PLC0415

    return BucketStore(location.scheme, location.bucket, location.path, options)


def delta_options(location: Location, options: StoreOptions) -> dict[str, str]:
    """The `storage_options` of delta-rs for a table at a location; empty for a folder.

    They hold credentials as they are now: resolve them again for every table that is opened, and
    never put them in a task or a message. Raises BadSettings and UnreadableObject.
    """
    if location.is_folder:
        return {}
    from tierfold.storage.tiers.table_options import delta_rs_options  # noqa: PLC0415

    return delta_rs_options(location.scheme, str(location), options)


def s3a_options(location: Location, options: StoreOptions) -> dict[str, str]:
    """Spark's settings to read a bucket of S3 through S3A; empty for another location.

    They hold no credentials: each executor finds its own. Raises BadSettings and UnreadableObject.
    """
    if location.scheme != "s3":
        return {}
    from tierfold.storage.tiers.table_options import s3a_conf  # noqa: PLC0415

    return s3a_conf(location.bucket, options)


def _folder(text: str, of: str, *, is_uri: bool) -> str:
    """The absolute path that a path, or a `file:` URI of this machine, names."""
    if not text.strip():
        # Some programs read an empty path as the working directory, others as the root.
        raise BadSettings(
            f"the path is empty: {text!r}",
            where=of,
            remedy="Name a folder. If it was in a variable, that is not set.",
        )
    path = _path_of_uri(text, of) if is_uri else text
    if "\0" in path:
        raise BadSettings(
            "a path cannot hold a zero byte", where=text, remedy=f"Name the {of} by its path."
        )
    absolute = str(Path(path).absolute())
    try:
        absolute.encode()
    except UnicodeEncodeError:
        # Python holds other bytes as lone surrogates; no document and no JVM can take them.
        raise BadSettings(
            "the path is not UTF-8", where=repr(absolute), remedy="Rename the folder."
        ) from None
    return absolute


def _path_of_uri(text: str, of: str) -> str:
    try:
        uri = urlsplit(text)
    except ValueError:
        # Without its cause, which may quote a password.
        raise BadSettings(
            "this is not a valid URI", where=text, remedy=f"Name the {of} by its path."
        ) from None
    if uri.netloc.lower() not in {"", "localhost"} or not uri.path.startswith("/"):
        raise BadSettings(
            "a file URI names an absolute path on this machine",
            where=text,
            remedy=f"Write file:///path/to/{of}.",
        )
    if uri.query or uri.fragment:
        raise BadSettings(
            "a file URI has no query and no fragment",
            # The rest may be a secret that was meant for another scheme.
            where=text.partition("?")[0].partition("#")[0],
            remedy="In a name, write %3F for a question mark and %23 for a number sign.",
        )
    return unquote(uri.path)


def _not_supported(text: str, scheme: str, of: str) -> BadSettings:
    usual = "Write s3://bucket/prefix, az://container/prefix or gs://bucket/prefix."
    return BadSettings(
        f"the {of}'s scheme {scheme} is not supported",
        where=text,
        remedy=_INSTEAD.get(scheme.rstrip(":/"), usual)
        + " Or name a folder; write a relative path with a colon as ./a:b.",
    )


def _bucket_location(scheme: str, rest: str, of: str) -> Location:
    called, pattern, allowed = _BUCKETS[scheme]
    bucket, _, path = rest.partition("/")
    path = path.rstrip("/")

    def refused(what: str, remedy: str) -> BadSettings:
        return BadSettings(what, where=f"{of} {scheme}://…", remedy=remedy)

    if "@" in bucket or ":" in rest:
        raise refused(
            "the URI has a user, a password or a port in it",
            f"Write {scheme}://{called}/prefix; credentials come from the environment, a profile or"
            " a role, and an endpoint from the settings.",
        )
    if "?" in rest or "#" in rest:
        raise refused(
            "the URI has a query or a fragment",
            f"Write {scheme}://{called}/prefix; options and credentials come from the environment"
            " or the settings.",
        )
    if not bucket:
        raise refused(f"the URI names no {called}", f"Write {scheme}://{called}/prefix.")
    if not pattern.fullmatch(bucket):
        name = repr(bucket) if _SHOWN.fullmatch(bucket) else "this"
        raise refused(f"{name} is not a valid {called} name", f"It has {allowed}.")
    parts = path.split("/")
    if path and (not _PREFIX.fullmatch(path) or {".", ".."} & set(parts)):
        raise refused(
            "the prefix has an empty part, or a character that is not allowed",
            "Use letters, digits and - _ . = + @ , ~ between single slashes.",
        )
    return Location(scheme, bucket, path)
