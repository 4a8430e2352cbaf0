"""Writes and reads JSON documents: a file, or an object in a bucket.

The bucket's options come from the environment: a document may be opened before the settings are
resolved.
"""

from __future__ import annotations

import json
from pathlib import Path

from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.storage.tiers.locations import Location, location_of, open_store
from tierfold.storage.tiers.object_store import ObjectStore
from tierfold.storage.tiers.store_options import ENVIRONMENT


def write_document(place: str, document: object) -> None:
    """Write a document to a path or the URI of an object; nothing is overwritten.

    Missing folders are created. Raises BadSettings if `place` is not a valid path or URI,
    UnreadableObject if nothing can be written there.
    """
    location = _location(place)
    if location.is_folder:
        _make_folder(location.folder.parent)
    store, name = _opened(location)
    store.create(name, json.dumps(document, indent=2).encode())


def read_document(
    place: str, *, remedy: str = "Name a document that a verb wrote with --document."
) -> str:
    """Return the text at a path or the URI of an object; raises as `write_document`.

    `remedy`: what to do if there is none.
    """
    store, name = _opened(_location(place))
    if not store.exists(name):
        raise UnreadableObject(
            "there is no such file or object",
            where=place,
            remedy=remedy,
        )
    return bytes(store.read(name)).decode(errors="replace")


def check_new(place: str, *, option: str = "--document") -> None:
    """Raise BadSettings if that path or URI is taken; raises as `write_document`."""
    store, name = _opened(_location(place))
    if store.exists(name):
        raise BadSettings(
            "the name is taken, and nothing is ever overwritten",
            where=f"{option} {place}",
            remedy="Choose a name that no run has used.",
        )


def _location(place: str) -> Location:
    location = location_of(place, of="document")
    if not location.path.rpartition("/")[2]:
        raise BadSettings(
            "this names no file or object", where=place, remedy="Add a name, such as /plan.json."
        )
    return location


def _opened(location: Location) -> tuple[ObjectStore, str]:
    """The store of the folder that holds the document, and the name of the document in it."""
    folder, slash, name = location.path.rpartition("/")
    parent = Location(location.scheme, location.bucket, folder or slash)
    return open_store(parent, ENVIRONMENT), name


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnreadableObject(
            f"cannot make this folder: {error.strerror}",
            where=str(folder),
            remedy="Name another place for the document.",
        ) from error
