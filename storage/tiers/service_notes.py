"""The note in a tier that says which cluster serves it, and which catalog publishes there.

    <key prefix>_tierfold_served_by/00000001.json, 00000002.json, …

The highest number counts. A note is never changed: the next one is created under the next number,
and only if that is free, as Delta commits a version. So a note is replaced only by one who has read
it, in every store that creates an object only if there is none. Notes are never deleted, so no
number is given twice. Neither brokers' plugins nor listings of partitions look into this folder:
its name is no topic's.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from tierfold.compaction.model.errors import BadSettings, CorruptLog, UnreadableObject
from tierfold.compaction.model.segment_ids import FINGERPRINT_BITS
from tierfold.compaction.model.tier_service import CanaryProof, TierService, fingerprint_text
from tierfold.storage.tiers.object_store import ObjectStore

FOLDER: Final = "_tierfold_served_by"
"""Its name begins as the catalog's does, and is no name of a topic's folder."""

NOTE_BYTES_MAX: Final = 16_384
"""A note has some 300 bytes, and a path at most 4,096."""

_VERSION: Final = 1
_FIELDS: Final = 8
_NAME: Final = re.compile(r"([0-9]{8})\.json")
_FINGERPRINT: Final = re.compile(rf"[0-9a-f]{{{FINGERPRINT_BITS // 4}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedNote:
    """A note as the tier has it."""

    number: int
    service: TierService


@dataclass(frozen=True, slots=True)
class Noted:
    """The note was written, and is the newest."""

    note: NumberedNote


@dataclass(frozen=True, slots=True)
class NotedByAnother:
    """Nothing was written: another one was faster."""

    note: NumberedNote


NoteOutcome: TypeAlias = Noted | NotedByAnother


@dataclass(frozen=True, slots=True)
class ServiceNotes:
    """The notes of the tier in a store, below a key prefix.

    Every method raises UnreadableObject if the store fails, CorruptLog if the newest note is
    damaged, and BadSettings if a newer tierfold wrote it.
    """

    store: ObjectStore
    key_prefix: str = ""
    """As brokers' `key.prefix`: tiers of one bucket have notes of their own."""

    def newest(self) -> NumberedNote | None:
        """The note that counts; None: no cluster was ever noted."""
        names = (entry.key.rpartition("/")[2] for entry in self.store.list(self._folder))
        numbers = [int(found[1]) for name in names if (found := _NAME.fullmatch(name))]
        return self._read(max(numbers)) if numbers else None

    def write(self, service: TierService, replaced: NumberedNote | None) -> NoteOutcome:
        """Write a note in place of `replaced`, the newest one that was read; None: there was none.

        If another one has been written since, nothing is.
        """
        number = 1 if replaced is None else replaced.number + 1
        try:
            self.store.create(self._key(number), _bytes_of(service))
        except UnreadableObject:
            found = self.newest()
            if found is None or found.number < number:
                raise
            return NotedByAnother(found)
        return Noted(NumberedNote(number=number, service=service))

    def uri(self) -> str:
        """The folder's full name, for messages."""
        return self.store.uri(self._folder)

    @property
    def _folder(self) -> str:
        return f"{self.key_prefix}{FOLDER}"

    def _key(self, number: int) -> str:
        return f"{self._folder}/{number:08d}.json"

    def _read(self, number: int) -> NumberedNote:
        key = self._key(number)
        data = self.store.read_range(key, 0, NOTE_BYTES_MAX + 1).tobytes()
        return NumberedNote(number=number, service=_service_of(data, self.store.uri(key)))


def _bytes_of(service: TierService) -> bytes:
    fields = {
        "version": _VERSION,
        "cluster_id": service.cluster_id,
        "catalog": fingerprint_text(service.fingerprint),
        "place": service.place,
        "noted_at_ms": service.noted_at_ms,
        "canary_counted_at_ms": service.canary.counted_at_ms,
        "canary_off_at_ms": service.canary.off_at_ms,
        "canary_off_run": service.canary.off_run,
    }
    return json.dumps(fields, indent=1).encode()


def _service_of(data: bytes, where: str) -> TierService:
    """The note; raises CorruptLog if it is damaged, BadSettings if its version is unknown."""
    try:
        fields = json.loads(data)
        version = fields["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _damaged(where) from None
    if type(version) is int and version > _VERSION:
        raise BadSettings(
            f"the note of who serves the tier has version {version}, and this tierfold knows only"
            f" {_VERSION}",
            where=where,
            remedy="Update tierfold on this machine. Nothing was deleted.",
        )
    match fields:
        case {
            "version": 1,
            "cluster_id": str(cluster_id),
            "catalog": str(catalog),
            "place": str(place),
            "noted_at_ms": int(noted_at_ms),
            "canary_counted_at_ms": int() | None as counted_at_ms,
            "canary_off_at_ms": int() | None as off_at_ms,
            "canary_off_run": str(off_run),
        } if (
            cluster_id
            and place
            and _FINGERPRINT.fullmatch(catalog)
            and (off_at_ms is None) == (not off_run)
            and len(fields) == _FIELDS
        ):
            return TierService(
                cluster_id=cluster_id,
                fingerprint=int(catalog, 16),
                place=place,
                noted_at_ms=noted_at_ms,
                canary=CanaryProof(
                    counted_at_ms=counted_at_ms, off_at_ms=off_at_ms, off_run=off_run
                ),
            )
    raise _damaged(where)


def _damaged(where: str) -> CorruptLog:
    return CorruptLog(
        "the note of who serves the tier is damaged",
        where=where,
        remedy="Nothing was deleted. Bring it back from a backup. If there is none, find out which"
        " cluster serves the tier and which catalog publishes to it; if none does, move the folder"
        f" {FOLDER} out of the tier and keep it.",
    )
