"""Where the tier of killed runs is: in a folder, or in a bucket of an S3 emulator.

The checks of a bucket read a copy: a folder that `Place.refresh` brings up to date, with an empty
hidden file for each unfinished upload. So the checks are the same for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from tests.faults.kills.killed_checks import catalog_versions, hidden_files
from tests.storage.emulators import s3_client, uploaded
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER
from tierfold.storage.tiers.object_store import staged_name

_PART_BYTES: Final = 5 << 20
"""The smallest part that S3 allows, so that large groups are uploaded in several parts."""

_PREFIX: Final = "tier"
_LOG: Final = "_tierfold/partitions/_delta_log"
_OVERWRITTEN: Final = "_last_checkpoint"
"""The only object whose content changes under its name, so it is always copied."""


class Place(Protocol):
    """The place of one tier."""

    folder: Path
    """Where the tier is examined."""
    uri: str
    """The tier as an argument of a run."""
    in_bucket: bool
    options: tuple[str, ...]
    """Options of every run."""
    look_every_s: float
    """How often to look for a trigger."""

    def refresh(self) -> None:
        """Bring `folder` up to date."""

    def names(self) -> set[str]:
        """The objects in the tier, unfinished ones included."""

    def uploads(self) -> set[str]:
        """The unfinished objects."""

    def versions(self) -> int:
        """The number of commits in the catalog."""


class FolderPlace(Place):
    """A tier in a folder."""

    in_bucket = False
    options = ()
    look_every_s = 0.01

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = str(folder)

    def refresh(self) -> None:
        """Do nothing: the checks read the tier itself."""

    def names(self) -> set[str]:
        return {path.name for path in self.folder.glob(f"{TIER_FOLDER}/*/*")}

    def uploads(self) -> set[str]:
        return {path.name for path in hidden_files(self.folder)}

    def versions(self) -> int:
        return catalog_versions(self.folder)


class BucketPlace(Place):
    """A tier in a new bucket, uploaded from a folder, which becomes the copy.

    The environment names the endpoint for the runs.
    """

    in_bucket = True
    look_every_s = 0.03  # A look takes one or two requests.

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.folder = folder
        self._s3 = s3_client(endpoint)
        self.uri = uploaded(folder, endpoint)
        self._bucket = self.uri.removeprefix("s3://").partition("/")[0]
        config = folder.with_name("tierfold.toml")
        config.write_text(f'[store]\n"part.bytes" = {_PART_BYTES}\n')
        self.options = ("--config", str(config))

    def refresh(self) -> None:
        there = {*self._keys(""), *(staged_name(key, "upload") for key in self._unfinished())}
        here = {
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if path.is_file() and path.name != _OVERWRITTEN
        }
        for key in here - there:
            (self.folder / key).unlink()
        for key in sorted(there - here):
            path = self.folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"" if path.name.endswith(".staged") else self._read(key))

    def names(self) -> set[str]:
        return {*self._keys(f"{TIER_FOLDER}/"), *self.uploads()}

    def uploads(self) -> set[str]:
        return set(self._unfinished())

    def versions(self) -> int:
        return sum(key.endswith(".json") for key in self._keys(f"{_LOG}/"))

    def _read(self, key: str) -> bytes:
        found = self._s3.get_object(Bucket=self._bucket, Key=f"{_PREFIX}/{key}")
        content: bytes = found["Body"].read()
        return content

    def _keys(self, folder: str) -> Iterator[str]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{_PREFIX}/{folder}"
        )
        return (_within(entry) for page in pages for entry in page.get("Contents", ()))

    def _unfinished(self) -> Iterator[str]:
        pages = self._s3.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket)
        return (_within(entry) for page in pages for entry in page.get("Uploads", ()))


def _within(entry: dict[str, Any]) -> str:
    """The key of an object, relative to the tier."""
    return str(entry["Key"]).removeprefix(f"{_PREFIX}/")
