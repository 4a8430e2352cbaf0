"""The objects that a listing of a bucket shows, by folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from tierfold.storage.tiers.object_store import ObjectEntry, is_staged, is_strange
from tierfold.storage.tiers.s3_objects import S3Requests
from tierfold.storage.tiers.s3_pages import FOLDERS, FOUND
from tierfold.storage.tiers.store_errors import Cause, Failure

if TYPE_CHECKING:
    from obstore import ObjectMeta

Page: TypeAlias = tuple[ObjectEntry, ...]
"""The objects of one answer, with full keys."""


def s3_pages(requests: S3Requests, prefix: str, *, is_deep: bool) -> Iterator[Page]:
    """The objects below a prefix, by page, with full keys; `is_deep`: at any depth.

    Raises UnreadableObject.
    """
    where: dict[str, object] = {"Prefix": prefix}
    if not is_deep:
        where["Delimiter"] = "/"
    shown = requests.s3.shown
    while True:
        page = requests.try_to("list", "lists", "list_objects_v2", **where)
        if FOUND not in page or (page.get("IsTruncated") and "NextContinuationToken" not in page):
            raise requests.unreadable(Failure(Cause.CUT), "list")
        names = [*(entry.key for entry in page[FOUND]), *page[FOLDERS]]
        if any(is_strange(name.strip("/")) for name in names):
            raise requests.unreadable(Failure(Cause.BAD_NAME), "list")
        shown.note(page[FOUND])
        yield tuple(page[FOUND])
        if not page.get("IsTruncated"):
            shown.listings += 1  # Those that have begun meanwhile show classes, too.
            return
        where["ContinuationToken"] = page["NextContinuationToken"]


def entries_of(listed: Sequence[ObjectMeta], storage_class: str) -> Page:
    """Objects as obstore lists them, with full keys.

    obstore does not say their class: all are taken to be in the one that the options name, which is
    empty if they name none.
    """
    return tuple(
        ObjectEntry(
            key=meta["path"],
            size_bytes=meta["size"],
            modified_ms=int(meta["last_modified"].timestamp() * 1000),
            storage_class=storage_class,
        )
        for meta in listed
    )


def by_folder(
    objects: Iterable[ObjectEntry], own: str, folders: set[str], *, staged: bool | None = None
) -> defaultdict[str, tuple[ObjectEntry, ...]]:
    """The objects that are directly in one of the folders, by folder and key.

    `own`: the store's prefix, which their keys begin with. `staged`: those that are being written,
    instead of those that are whole; None: both.
    """
    prefix = f"{own}/" if own else ""
    found: defaultdict[str, list[ObjectEntry]] = defaultdict(list)
    for entry in objects:
        key = entry.key.removeprefix(prefix)
        folder, _, name = key.rpartition("/")
        is_wanted = staged is None or is_staged(name) is staged
        if folder in folders and name and is_wanted and key != own:
            found[folder].append(replace(entry, key=key))
    return defaultdict(
        tuple,
        {
            folder: tuple(sorted(entries, key=lambda entry: entry.key))
            for folder, entries in found.items()
        },
    )


def of_each(
    folders: Sequence[str], listed: Callable[[], Mapping[str, tuple[ObjectEntry, ...]]]
) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
    """What one listing of all folders finds in each, or why it failed."""
    try:
        found = listed()
    except Exception as error:  # noqa: BLE001 - it concerns these folders alone
        return dict.fromkeys(folders, error)
    return {folder: found[folder] for folder in folders}
