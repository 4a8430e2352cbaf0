"""What the note of who serves a tier promises in every store."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Final

import pytest

from tierfold.compaction.model.errors import BadSettings, CorruptLog
from tierfold.compaction.model.tier_service import CanaryProof, TierService
from tierfold.storage.tiers.object_store import ObjectStore
from tierfold.storage.tiers.service_notes import (
    FOLDER,
    NOTE_BYTES_MAX,
    Noted,
    NotedByAnother,
    NoteOutcome,
    ServiceNotes,
)

SERVICE: Final = TierService(
    cluster_id="5L6g3nShT-eMCtK--X86sw",
    fingerprint=0xC0FFEE0123,
    place="s3://bucket/tier/",
    noted_at_ms=1_800_000_000_000,
)

WHOLE: Final = {
    "version": 1,
    "cluster_id": "5L6g3nShT-eMCtK--X86sw",
    "catalog": "c0ffee0123",
    "place": "/tier/",
    "noted_at_ms": 5,
    "canary_counted_at_ms": None,
    "canary_off_at_ms": 6,
    "canary_off_run": "run",
}


class ServiceNotesContract:
    store: ObjectStore

    def test_a_tier_without_a_note_has_none(self) -> None:
        assert ServiceNotes(self.store).newest() is None

    @pytest.mark.parametrize("prefix", ["", "x-", "a/b/", "a/b-"])
    def test_a_note_reads_as_it_was_written_below_each_prefix(self, prefix: str) -> None:
        notes = ServiceNotes(self.store, prefix)
        written = notes.write(SERVICE, None)
        assert isinstance(written, Noted)
        assert notes.newest() == written.note
        assert written.note.service == SERVICE
        assert ServiceNotes(self.store, f"{prefix}other-").newest() is None
        assert self.store.exists(f"{prefix}{FOLDER}/00000001.json")

    @pytest.mark.parametrize(
        "canary",
        [
            CanaryProof(counted_at_ms=0),
            CanaryProof(off_at_ms=7, off_run="a run"),
            CanaryProof(counted_at_ms=8, off_at_ms=7, off_run="a run"),
        ],
    )
    def test_a_note_keeps_what_is_known_of_canaries(self, canary: CanaryProof) -> None:
        notes, service = ServiceNotes(self.store), replace(SERVICE, canary=canary)
        written = notes.write(service, None)
        assert isinstance(written, Noted)
        assert notes.newest() == written.note
        assert written.note.service == service

    def test_a_note_is_replaced_only_by_one_who_read_it(self) -> None:
        notes = ServiceNotes(self.store)
        other = replace(SERVICE, fingerprint=1)
        first = notes.write(SERVICE, None)
        assert notes.write(other, None) == NotedByAnother(first.note)
        second = notes.write(other, first.note)
        assert isinstance(second, Noted)
        assert notes.write(SERVICE, first.note) == NotedByAnother(second.note)
        assert notes.newest() == second.note

    def test_of_many_racing_notes_one_is_written(self) -> None:
        start = threading.Barrier(6)
        outcomes: list[NoteOutcome] = []

        def write(number: int) -> None:
            start.wait()
            service = replace(SERVICE, fingerprint=number)
            outcomes.append(ServiceNotes(self.store).write(service, None))

        writers = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        (noted,) = [outcome for outcome in outcomes if isinstance(outcome, Noted)]
        assert {outcome.note for outcome in outcomes} == {noted.note}

    @pytest.mark.parametrize("data", [b"{", b" " * (NOTE_BYTES_MAX + 1)], ids=["cut", "large"])
    def test_a_damaged_note_is_an_error_even_above_a_whole_one(self, data: bytes) -> None:
        notes = ServiceNotes(self.store)
        notes.write(SERVICE, None)
        self.store.create(f"{FOLDER}/00000002.json", data)
        with pytest.raises(CorruptLog, match="is damaged") as caught:
            notes.newest()
        assert caught.value.where == self.store.uri(f"{FOLDER}/00000002.json")
        assert "Nothing was deleted" in caught.value.remedy

    def test_a_note_is_as_documented(self) -> None:
        self.store.create(f"{FOLDER}/00000001.json", json.dumps(WHOLE).encode())
        newest = ServiceNotes(self.store).newest()
        assert newest is not None
        assert newest.service == replace(
            SERVICE,
            place="/tier/",
            noted_at_ms=5,
            canary=CanaryProof(off_at_ms=6, off_run="run"),
        )

    def test_a_note_of_a_newer_tierfold_is_an_error(self) -> None:
        self.store.create(f"{FOLDER}/00000001.json", b'{"version": 2}')
        with pytest.raises(BadSettings, match="version 2") as caught:
            ServiceNotes(self.store).newest()
        assert "Update tierfold" in caught.value.remedy
