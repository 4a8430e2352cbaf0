"""A note that could not be written is not reported as another one's; a damaged one is an error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.storage.service_notes_contract import SERVICE, WHOLE
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.object_store import Bytes
from tierfold.storage.tiers.service_notes import FOLDER, Noted, ServiceNotes

NOT_QUITE: Final = [
    json.dumps(fields).encode()
    for fields in (
        *({one: WHOLE[one] for one in WHOLE if one != name} for name in WHOLE),
        *(WHOLE | {name: [WHOLE[name]]} for name in WHOLE),
        WHOLE | {"more": 1},
        WHOLE | {"cluster_id": ""},
        WHOLE | {"catalog": "C0FFEE0123"},
        WHOLE | {"place": ""},
        WHOLE | {"canary_off_run": ""},
        WHOLE | {"canary_off_at_ms": None},
    )
]
"""Notes in which one thing is wrong."""


class _FullStore(LocalStore):
    """A store without space."""

    def create(self, key: str, data: Bytes) -> None:
        raise UnreadableObject(f"no space for {len(data)} bytes", where=key, remedy="Free some.")


def test_a_store_that_fails_is_an_error_and_the_old_note_counts(tmp_path: Path) -> None:
    with pytest.raises(UnreadableObject, match="no space"):
        ServiceNotes(_FullStore(tmp_path)).write(SERVICE, None)
    first = ServiceNotes(LocalStore(tmp_path)).write(SERVICE, None)
    assert isinstance(first, Noted)
    full = ServiceNotes(_FullStore(tmp_path))
    with pytest.raises(UnreadableObject, match="no space"):
        full.write(replace(SERVICE, fingerprint=1), first.note)
    assert full.newest() == first.note


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[]", b"{}", b'{"version": 1}', b'{"version": "1"}', b"\xff"),
        *NOT_QUITE,
        b"[" * 10_000,
    ],
)
def test_a_damaged_note_is_an_error_even_above_a_whole_one(data: bytes, tmp_path: Path) -> None:
    notes = ServiceNotes(LocalStore(tmp_path))
    notes.write(SERVICE, None)
    notes.store.create(f"{FOLDER}/00000002.json", data)
    with pytest.raises(CorruptLog, match="is damaged") as caught:
        notes.newest()
    assert caught.value.where == notes.store.uri(f"{FOLDER}/00000002.json")
    assert "Nothing was deleted" in caught.value.remedy
