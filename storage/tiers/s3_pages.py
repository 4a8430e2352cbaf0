"""Reads the pages of S3's listings, with the storage class of each object.

obstore's listing leaves the class out. boto3 has it, and parses a page of 1,000 keys in 128 ms of
CPU. So a hook takes the keys out of a page before boto3 parses the rest: 19 to 48 ms; obstore takes
8. A tier whose first listings show no class is therefore listed by obstore from then on.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote
from xml.sax.saxutils import escape

from tierfold.storage.tiers.object_store import USUAL_CLASS, ObjectEntry

FOUND: Final = "TierfoldFound"
"""The name, in boto3's answer, of the objects that the hook found."""
FOLDERS: Final = "TierfoldFolders"
"""The same of the prefixes of folders."""

LISTINGS_LOOKED_AT: Final = 8
"""How many listings of a bucket are looked at for classes before it is taken to have none. Keys are
in the order of their offsets, so the objects that a lifecycle rule moves first come first."""

_KEPT: Final = ("IsTruncated", "NextContinuationToken")


@dataclass(slots=True)
class ShownClasses:
    """What this process's listings of a bucket have shown of storage classes; threads share it."""

    listings: int = 0
    has_any: bool = False

    @property
    def are_of_interest(self) -> bool:
        """Whether the next listing is to show them."""
        return self.has_any or self.listings < LISTINGS_LOOKED_AT

    def note(self, page: Iterable[ObjectEntry]) -> None:
        """Take a page of a listing."""
        self.has_any = self.has_any or any(entry.storage_class for entry in page)


def register(client: Any) -> None:  # noqa: ANN401
    """Let a client of boto3 for S3 read the pages of its listings so."""
    client.meta.events.register("before-parse.s3.ListObjectsV2", _taken_out)


def _taken_out(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    """Parse the objects of a page; leave boto3 a page without them, and errors as they are."""
    if response_dict["status_code"] != 200:
        return
    try:
        page = ET.fromstring(response_dict["body"])
    except ET.ParseError:
        return  # boto3 says so.
    if not page.tag.endswith("ListBucketResult"):
        return
    space = page.tag.partition("}")[0] + "}" if page.tag.startswith("{") else ""
    is_encoded = page.findtext(f"{space}EncodingType") == "url"
    customized_response_dict[FOUND] = [
        _entry({field.tag.removeprefix(space): field.text or "" for field in found}, is_encoded)
        for found in page.iter(f"{space}Contents")
    ]
    customized_response_dict[FOLDERS] = [
        unquote(found.text or "") if is_encoded else found.text or ""
        for found in page.iterfind(f"{space}CommonPrefixes/{space}Prefix")
    ]
    kept = "".join(
        f"<{name}>{escape(text)}</{name}>"
        for name in _KEPT
        if (text := page.findtext(f"{space}{name}"))
    )
    response_dict["body"] = f"<ListBucketResult>{kept}</ListBucketResult>".encode()


def _entry(fields: dict[str, str], is_encoded: bool) -> ObjectEntry:  # noqa: FBT001
    storage_class = fields.get("StorageClass", "")
    return ObjectEntry(
        key=unquote(fields["Key"]) if is_encoded else fields["Key"],
        size_bytes=int(fields["Size"]),
        modified_ms=int(datetime.fromisoformat(fields["LastModified"]).timestamp() * 1000),
        storage_class="" if storage_class == USUAL_CLASS else storage_class,
    )
