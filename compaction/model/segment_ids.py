"""Kafka's ids as text, and the marks in the ids of segments that tierfold made.

An id is 16 bytes as 22 characters of url-safe base64 without padding. It may hold `-` and `_`, so
a name that contains an id cannot be split at its dashes.

The id of a segment that tierfold made bears a mark: it is a UUID of version 8 (RFC 9562) with the
fingerprint of its catalog, and a bit that says whether a restore made it. Brokers draw UUIDs of
version 4. So an unfinished upload of a run that died is known as such, although nothing recorded
it, and so is what another catalog's runs wrote. Releases before these marks made ids of which half
is random and the rest a hash of that half.

What `tierfold upload` writes is what a broker would have written, and counts as that. Its ids are
UUIDs of version 5, as those that are made of a name: a hash of the segment's bytes, with the
catalog's fingerprint.

Rule: Kafka `org.apache.kafka.common.Uuid`.
"""

from __future__ import annotations

import base64
import re
from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple

KAFKA_UUID_PATTERN: Final = r"[A-Za-z0-9_-]{21}[AQgw]"
"""22 characters hold 132 bits. The last four are zero, so only four last characters occur."""

_KAFKA_UUID: Final = re.compile(KAFKA_UUID_PATTERN)

FINGERPRINT_BITS: Final = 40
_FINGERPRINTS: Final = (1 << FINGERPRINT_BITS) - 1

_MARKED: Final = 8
_UPLOADED: Final = 5
"""The versions of UUIDs (RFC 9562)."""

_FINGERPRINT_AT: Final = 22
_VARIANT_AT: Final = 62
_VERSION_AT: Final = 76
_RESTORED_AT: Final = 75
"""Where these bits begin, counted from the lowest; the 48 highest stay as they were drawn."""


class SegmentMark(NamedTuple):
    """What the id of a segment says that tierfold made."""

    fingerprint: int
    """The catalog's, `FINGERPRINT_BITS` bits."""
    is_restored: bool
    """Whether a restore made it, or a run that copied or merged what a restore made."""
    is_uploaded: bool = False
    """Whether `tierfold upload` made it of a log directory."""


class Maker(StrEnum):
    """Who made the id of a segment, as one catalog sees it."""

    BROKER = "a broker"
    """Or an upload in its place."""
    THIS_CATALOG = "this catalog"
    ANOTHER_CATALOG = "another catalog"
    """What bears it is no orphan here: only the runs of that catalog know what became of it."""
    OLDER_TIERFOLD = "an older tierfold"
    """Nothing says under which catalog."""


def is_kafka_uuid(text: str) -> bool:
    """Whether `text` is an id as Kafka prints it; 16 bytes have only one such spelling."""
    return _KAFKA_UUID.fullmatch(text) is not None


def id_text(id_bytes: bytes) -> str:
    """An id as Kafka prints it, from its 16 bytes."""
    return base64.urlsafe_b64encode(id_bytes).decode("ascii").rstrip("=")


def marked(drawn: str, mark: SegmentMark) -> str:
    """The id with that mark, from 16 bytes that were drawn at random, or are a hash."""
    number = _number(drawn)
    number &= ~(0xF << _VERSION_AT | 0b11 << _VARIANT_AT | _FINGERPRINTS << _FINGERPRINT_AT)
    number &= ~(1 << _RESTORED_AT)
    version = _UPLOADED if mark.is_uploaded else _MARKED
    number |= version << _VERSION_AT | 0b10 << _VARIANT_AT | int(mark.is_restored) << _RESTORED_AT
    number |= mark.fingerprint << _FINGERPRINT_AT
    return id_text(number.to_bytes(16, "big"))


def uploaded_id(digest: bytes, fingerprint: int) -> str:
    """The id of a segment of a log directory, from 16 bytes of a hash of all that it has.

    Unlike Kafka's it may begin with a dash; no command takes it as an option.
    """
    return marked(id_text(digest), SegmentMark(fingerprint, is_restored=False, is_uploaded=True))


def is_uploaded_id(text: str) -> bool:
    """Whether `tierfold upload` made the id, under whichever catalog."""
    mark = mark_of(text)
    return mark is not None and mark.is_uploaded


def mark_of(text: str) -> SegmentMark | None:
    """The mark that the id of a segment bears; None: a broker made it, or an older tierfold."""
    if not is_kafka_uuid(text):
        return None
    number = _number(text)
    version = number >> _VERSION_AT & 0xF
    is_marked = number >> _VARIANT_AT & 0b11 == 0b10 and version in {_MARKED, _UPLOADED}
    if not is_marked or (version == _UPLOADED and _is_unmarked(number)):
        return None
    return SegmentMark(
        fingerprint=number >> _FINGERPRINT_AT & _FINGERPRINTS,
        is_restored=bool(number >> _RESTORED_AT & 1),
        is_uploaded=version == _UPLOADED,
    )


def is_restored_id(text: str) -> bool:
    """Whether the id says that a restore made the segment, or a run in the place of such a one."""
    mark = mark_of(text)
    return mark is not None and mark.is_restored


def is_own_id(text: str) -> bool:
    """Whether tierfold made the id of a segment, under whichever catalog."""
    if not is_kafka_uuid(text):
        return False
    mark = mark_of(text)
    return _is_unmarked(_number(text)) if mark is None else not mark.is_uploaded


def maker_of(text: str, fingerprint: int | None) -> Maker:
    """Who made an id, for the catalog with that fingerprint; None: there is no catalog yet."""
    mark = mark_of(text)
    if mark is None:
        return Maker.OLDER_TIERFOLD if is_own_id(text) else Maker.BROKER
    if mark.is_uploaded:
        return Maker.BROKER
    return Maker.THIS_CATALOG if mark.fingerprint == fingerprint else Maker.ANOTHER_CATALOG


def _is_unmarked(number: int) -> bool:
    """Whether a release before marks made the id: half of it is a hash of the rest."""
    id_bytes = number.to_bytes(16, "big")
    return id_bytes == _unmarked(id_bytes[:8])


def _unmarked(drawn: bytes) -> bytes:
    """The id that releases before marks made of 8 random bytes."""
    return drawn + blake2b(drawn, digest_size=8, person=b"tierfold").digest()


def _number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(f"{text}=="), "big")
