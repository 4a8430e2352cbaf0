"""The signs of life of runs at work: `signs/<run>.<number>` beside the catalog's tables.

A sign is a small JSON object. No object is ever overwritten: a run writes its next sign under the
next number, and then deletes the one before. When it was written is what the store says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tierfold.compaction.commits.holders import Sign
from tierfold.compaction.model.errors import TierfoldError, UnreadableObject
from tierfold.compaction.model.redaction import printable
from tierfold.storage.catalog.file_sync import make_folder
from tierfold.storage.tiers.locations import Location, open_store
from tierfold.storage.tiers.object_store import ObjectStore
from tierfold.storage.tiers.store_options import StoreOptions

FOLDER: Final = "signs"

SIGN_BYTES_MAX: Final = 4096
"""So much of a sign is read; what a run writes is far smaller."""

TEXT_MAX: Final = 255
"""Longer names of hosts and verbs are cut; Linux's host names have at most 64 characters."""

PROCESS_END: Final = 2**32
"""No system numbers its processes so high; JSON may hold thousands of digits, and is printed."""

_NAME: Final = re.compile(r"(.+)\.([0-9]{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSign:
    """A sign as a listing shows it."""

    key: str
    run: str
    number: int
    modified_ms: int
    """When it was written, as the store says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignFolder:
    """The signs beside a catalog; every method raises UnreadableObject if the store fails."""

    store: ObjectStore
    """The store at the catalog's place."""
    folder: Path | None = None
    """The catalog's folder, which the first sign of all makes; None: a bucket."""

    def write(self, run: str, number: int, content: dict[str, object]) -> None:
        """Write a sign; a number that is taken is refused."""
        if self.folder is not None:
            self._make_folder(self.folder)
        self.store.create(_key(run, number), json.dumps(content).encode())

    def remove(self, run: str, number: int) -> None:
        """Delete a sign, if it is there."""
        self.store.delete(_key(run, number))

    def listed(self) -> list[ListedSign]:
        """Return all signs, those of each run by number."""
        found = []
        for entry in self.store.list(FOLDER):
            match = _NAME.fullmatch(entry.key.removeprefix(f"{FOLDER}/"))
            if match is not None:
                sign = ListedSign(
                    key=entry.key,
                    run=match[1],
                    number=int(match[2]),
                    modified_ms=entry.modified_ms,
                )
                found.append(sign)
        return sorted(found, key=lambda sign: (sign.run, sign.number))

    def read(self, listed: ListedSign) -> Sign:
        """Return the sign with what it says; one that cannot be read says nothing."""
        said = self._said(listed.key)
        process = said.get("process")
        return Sign(
            run=listed.run,
            modified_ms=listed.modified_ms,
            host=_text(said.get("host")),
            process=process if type(process) is int and 0 <= process < PROCESS_END else None,
            verb=_text(said.get("verb")),
        )

    def clean_up(self, before_ms: int) -> None:
        """Delete the signs that were written before that time of the store."""
        for sign in self.listed():
            if sign.modified_ms < before_ms:
                self.store.delete(sign.key)
        if self.store.keeps_empty_folders:  # In a bucket a sign is one put.
            for entry in self.store.unfinished(FOLDER):
                if entry.modified_ms < before_ms:
                    self.store.delete(entry.key)

    def _said(self, key: str) -> dict[str, object]:
        try:
            found = json.loads(self.store.read_range(key, 0, SIGN_BYTES_MAX).tobytes())
        except (TierfoldError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _make_folder(self, folder: Path) -> None:
        try:
            make_folder(folder)
        except OSError as error:
            raise UnreadableObject(
                f"cannot make this folder: {error.strerror}",
                where=str(folder),
                remedy="Let the user that runs tierfold write there.",
            ) from error


def sign_folder(place: Location, options: StoreOptions) -> SignFolder:
    """Return the signs beside the catalog at that place; no link there is followed."""
    return SignFolder(
        store=open_store(place, options, follows_links=False),
        folder=place.folder if place.is_folder else None,
    )


def newest(listed: Collection[ListedSign]) -> dict[str, ListedSign]:
    """Return the sign of each run that the store wrote last."""
    return {sign.run: sign for sign in sorted(listed, key=lambda sign: sign.modified_ms)}


def _key(run: str, number: int) -> str:
    return f"{FOLDER}/{run}.{number}"


def _text(value: object) -> str:
    return printable(value[:TEXT_MAX]) if isinstance(value, str) else ""
