"""A note that could not be written is not reported as another one's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.storage.service_notes_contract import SERVICE
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.object_store import Bytes
from tierfold.storage.tiers.service_notes import Noted, ServiceNotes


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
