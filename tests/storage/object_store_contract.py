"""The contract of every object store: each store's test class inherits it and sets `store`."""

from __future__ import annotations

import pickle
import threading
import time

import google_crc32c
import numpy as np
import pytest

from tests.storage.service_notes_contract import ServiceNotesContract
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.listed_count import LISTED
from tierfold.storage.tiers.object_store import ObjectEntry, ObjectStore, StoredChecksum

MIB = 2**20


class _Interrupted(Exception):
    pass


class ObjectStoreContract:
    store: ObjectStore
    unfinished_bytes = 4
    """What a writer is given before the store lists its write as unfinished; 0: it never does."""
    if_aborted = "it is not there"
    """What a writer learns whose unfinished write was deleted; moto breaks down instead."""
    computes_checksums = True
    """Whether a stored checksum is right if there is one; moto's are wrong."""

    def keys(self, folder: str) -> list[str]:
        return [entry.key for entry in self.store.list(folder)]

    @pytest.mark.parametrize("size_bytes", [0, 1, MIB - 1, MIB, 3 * MIB + 17])
    def test_an_object_reads_as_it_was_created(self, size_bytes: int) -> None:
        data = np.arange(size_bytes, dtype=np.uint8)
        self.store.create("a/b/object", data)
        assert np.array_equal(self.store.read("a/b/object"), data)
        (entry,) = self.store.list("a/b")
        assert (entry.key, entry.size_bytes) == ("a/b/object", size_bytes)
        assert entry.modified_ms > 1_600_000_000_000

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_every_kind_of_buffer_is_written(self, kind: type[bytes]) -> None:
        self.store.create("object", kind(b"abc"))
        assert self.store.read("object").tobytes() == b"abc"

    def test_a_read_array_belongs_to_the_caller(self) -> None:
        for size_bytes in (10, 2 * MIB):
            key = f"object-{size_bytes}"
            self.store.create(key, bytes(size_bytes))
            self.store.read(key)[:] = 7
            assert not self.store.read(key).any()

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [(0, 3, b"012"), (4, 2, b"45"), (8, 5, b"89"), (10, 5, b""), (99, 1, b""), (3, 0, b"")],
    )
    def test_a_range_ends_where_the_object_does(
        self, start: int, length: int, expected: bytes
    ) -> None:
        self.store.create("object", b"0123456789")
        assert self.store.read_range("object", start, length).tobytes() == expected

    def test_an_object_may_come_in_pieces(self) -> None:
        with self.store.open_new("f/object") as writer:
            for piece in (b"ab", b"", np.frombuffer(b"cd", np.uint8), memoryview(b"e")):
                writer.write(piece)
            assert writer.size_bytes == 5
        assert self.store.read("f/object").tobytes() == b"abcde"

    def test_an_object_is_invisible_before_it_is_whole(self) -> None:
        with self.store.open_new("f/object") as writer:
            writer.write(bytes(2 * MIB))
            assert self.keys("f") == []
            assert not self.store.exists("f/object")
        assert self.keys("f") == ["f/object"]

    def test_a_body_that_raises_leaves_nothing(self) -> None:
        def interrupted() -> None:
            with self.store.open_new("f/object") as writer:
                writer.write(b"half")
                raise _Interrupted

        with pytest.raises(_Interrupted):
            interrupted()
        assert self.keys("f") == []
        self.store.create("f/object", b"whole")
        assert self.store.read("f/object").tobytes() == b"whole"

    def test_nothing_is_ever_overwritten(self) -> None:
        self.store.create("f/object", b"first")
        with pytest.raises(UnreadableObject, match="the name is taken"):
            self.store.create("f/object", b"second")
        assert self.store.read("f/object").tobytes() == b"first"
        assert self.keys("f") == ["f/object"]

    def test_of_two_writers_the_first_to_end_writes_the_object(self) -> None:
        def overtaken() -> None:
            with self.store.open_new("f/object") as slow:
                slow.write(b"slow")
                self.store.create("f/object", b"quick")

        with pytest.raises(UnreadableObject, match="the name is taken"):
            overtaken()
        assert self.store.read("f/object").tobytes() == b"quick"
        assert self.keys("f") == ["f/object"]

    def test_of_many_racing_writers_one_succeeds(self) -> None:
        start = threading.Barrier(8)
        outcomes: list[int] = []

        def write(number: int) -> None:
            start.wait()
            try:
                self.store.create("f/object", bytes([number]) * 1000)
            except UnreadableObject:
                return
            outcomes.append(number)

        writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        (written,) = outcomes
        assert self.store.read("f/object").tobytes() == bytes([written]) * 1000

    def test_a_missing_object_is_named(self) -> None:
        assert not self.store.exists("f/object")
        for read in (self.store.read, lambda key: self.store.read_range(key, 0, 1)):
            with pytest.raises(UnreadableObject, match="it is not there") as caught:
                read("f/object")
            assert caught.value.where == self.store.uri("f/object")
            assert caught.value.remedy

    def test_a_listing_is_one_level_and_sorted(self) -> None:
        for key in ("t/b/2", "t/a/1", "t/z", "t/a/0", "top"):
            self.store.create(key, b"x")
        assert self.keys("t") == ["t/z"]
        assert self.keys("t/a") == ["t/a/0", "t/a/1"]
        assert self.keys("") == ["top"]
        assert list(self.store.list_folders("t")) == ["a", "b"]
        assert list(self.store.list_folders("")) == ["t"]

    def test_a_missing_folder_is_empty(self) -> None:
        assert self.keys("nowhere/at/all") == []
        assert list(self.store.list_folders("nowhere")) == []

    def test_a_deleted_object_is_gone_and_its_neighbours_stay(self) -> None:
        for key in ("f/object", "f/other"):
            self.store.create(key, b"x")
        self.store.delete("f/object")
        assert self.keys("f") == ["f/other"]
        self.store.delete("f/object")
        self.store.delete("nowhere/at/all")
        self.store.create("f/object", b"again")

    def test_an_unfinished_write_is_no_object_and_can_be_deleted(self) -> None:
        half = bytes(self.unfinished_bytes)
        with self.store.open_new("f/object") as writer:
            writer.write(half or b"half")
            assert self.keys("f") == []
            left = self.unfinished("f")
            assert [entry.size_bytes for entry in left] == [len(half)] * bool(half)
            assert all(entry.modified_ms > 1_600_000_000_000 for entry in left)
        assert list(self.store.unfinished("f")) == []
        assert list(self.store.unfinished("nowhere")) == []

        def vacuumed_meanwhile() -> None:
            with self.store.open_new("f/vacuumed") as writer:
                writer.write(half)
                (left,) = self.unfinished("f")
                self.store.delete(left.key)

        if half:
            with pytest.raises(UnreadableObject, match=self.if_aborted):
                vacuumed_meanwhile()
        assert self.keys("f") == ["f/object"]

    def test_unfinished_writes_of_many_folders_are_listed_as_those_of_each(self) -> None:
        folders = [f"t/{number:02d}" for number in range(10)]
        half = bytes(self.unfinished_bytes)
        with (
            self.store.open_new("t/03/object") as writer,
            self.store.open_new("t/03/deeper/object") as deeper,
        ):
            for one, folder in ((writer, "t/03"), (deeper, "t/03/deeper")):
                one.write(half or b"half")
                self.unfinished(folder)
            for asked in (folders, folders[2:4], folders[3:4], ["t/03", "t/03/deeper"], []):
                found = self.store.unfinished_each(asked)
                assert list(found) == asked
                assert found == {folder: tuple(self.store.unfinished(folder)) for folder in asked}
            assert len(self.unfinished("t/03")) == bool(half)
        assert set(self.store.unfinished_each(folders).values()) == {()}

    def unfinished(self, folder: str) -> list[ObjectEntry]:
        """What is unfinished, once the running uploads have sent all that they can."""
        for _ in range(100):
            found = list(self.store.unfinished(folder))
            if sum(entry.size_bytes for entry in found) >= self.unfinished_bytes:
                return found
            time.sleep(0.05)
        return list(self.store.unfinished(folder))

    def test_free_space_is_reported_if_there_is_a_limit(self) -> None:
        free = self.store.free_bytes()
        assert (free is None) is not self.store.keeps_empty_folders
        assert free is None or free > 0

    def test_a_stored_checksum_is_that_of_the_bytes(self) -> None:
        data = np.arange(12 * MIB, dtype=np.uint8)
        for size_bytes in (3, len(data)):
            with self.store.open_new(f"f/{size_bytes}") as writer:
                writer.write(data[:size_bytes])
            found = self.store.stored_checksum(f"f/{size_bytes}")
            if found is not None and self.computes_checksums:
                crc32c = google_crc32c.value(data[:size_bytes].tobytes())
                assert found == StoredChecksum(size_bytes=size_bytes, crc32c=crc32c)

    def test_many_folders_are_listed_as_each_of_them_is(self) -> None:
        folders = [f"t/{number:02d}" for number in range(20)]
        for folder in folders[1:]:
            self.store.create(f"{folder}/b", b"x")
            self.store.create(f"{folder}/a", b"xy")
            self.store.create(f"{folder}/deeper/c", b"x")
        self.store.create("t/0", b"x")
        self.store.create("u/1/b", b"x")
        mixed = ["u/1", *folders[:10], "u/2", *folders[10:]]
        for asked in (folders, folders[:2], mixed, mixed[:2]):
            before = LISTED.total
            found = self.store.list_each(asked)
            assert LISTED.total - before >= sum(map(len, found.values()))
            assert list(found) == asked
            assert found == {folder: tuple(self.store.list(folder)) for folder in asked}
            assert found["t/00"] == ()
        assert [entry.key for entry in self.store.list_each(folders)["t/01"]] == [
            "t/01/a",
            "t/01/b",
        ]

    def test_an_object_of_many_parts_reads_as_it_was_written(self) -> None:
        data = np.arange(17 * MIB + 5, dtype=np.uint32).view(np.uint8)[: 17 * MIB + 5]
        with self.store.open_new("f/object") as writer:
            for at in range(0, len(data), 3 * MIB + 1):
                writer.write(data[at : at + 3 * MIB + 1])
        assert np.array_equal(self.store.read("f/object"), data)
        found = self.store.read_range("f/object", 9 * MIB, 20 * MIB)
        assert np.array_equal(found, data[9 * MIB :])
        with pytest.raises(UnreadableObject, match="the name is taken"):
            self.store.create("f/object", data)
        assert list(self.store.unfinished("f")) == []

    @pytest.mark.parametrize("size_bytes", [0, 1, 6 * MIB, 17 * MIB + 5])
    def test_a_copy_has_the_bytes_of_its_source(self, size_bytes: int) -> None:
        data = np.arange(size_bytes, dtype=np.uint32).astype(np.uint8)
        self.store.create("f/source", data)
        (source,) = self.store.list("f")
        assert self.store.copy("f/source", "g/h/copy") == size_bytes
        assert np.array_equal(self.store.read("g/h/copy"), data)
        (copy,) = self.store.list("g/h")
        assert copy.size_bytes == size_bytes
        assert list(self.store.list("f")) == [source]
        assert list(self.store.unfinished("g/h")) == []
        self.store.delete("f/source")
        assert np.array_equal(self.store.read("g/h/copy"), data)

    def test_a_copy_has_its_own_time(self) -> None:
        """By its source's, `vacuum` would take a copy that is being made for an old orphan."""
        self.store.create("f/source", b"x")
        self.let_time_pass()
        self.store.copy("f/source", "g/copy")
        (source,), (copy,) = self.store.list("f"), self.store.list("g")
        assert copy.modified_ms >= source.modified_ms + 1000

    def let_time_pass(self) -> None:
        """A second at least: the times of a bucket are in seconds."""
        time.sleep(1.05)

    @pytest.mark.parametrize("size_bytes", [0, 3, 6 * MIB])
    def test_a_copy_overwrites_nothing(self, size_bytes: int) -> None:
        self.store.create("f/source", bytes(size_bytes))
        self.store.create("f/taken", b"first")
        with pytest.raises(UnreadableObject, match="the name is taken") as caught:
            self.store.copy("f/source", "f/taken")
        assert caught.value.where.endswith("/f/taken")
        assert self.store.read("f/taken").tobytes() == b"first"
        assert self.keys("f") == ["f/source", "f/taken"]
        assert list(self.store.unfinished("f")) == []

    def test_of_many_racing_copies_one_succeeds(self) -> None:
        start = threading.Barrier(8)
        outcomes: list[int] = []
        for number in range(8):
            self.store.create(f"f/{number}", bytes([number]) * 1000)

        def copy(number: int) -> None:
            start.wait()
            try:
                self.store.copy(f"f/{number}", "g/copy")
            except UnreadableObject:
                return
            outcomes.append(number)

        copiers = [threading.Thread(target=copy, args=(number,)) for number in range(8)]
        for copier in copiers:
            copier.start()
        for copier in copiers:
            copier.join()
        (copied,) = outcomes
        assert self.store.read("g/copy").tobytes() == bytes([copied]) * 1000

    def test_a_copy_of_what_is_not_there_names_it_and_leaves_nothing(self) -> None:
        self.store.create("f/object", b"x")
        with pytest.raises(UnreadableObject, match="it is not there") as caught:
            self.store.copy("f/missing", "f/copy")
        assert caught.value.where.endswith("/f/missing")
        assert self.keys("f") == ["f/object"]
        assert list(self.store.unfinished("f")) == []

    @pytest.mark.parametrize(
        "key", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", "a\0b"]
    )
    def test_a_key_never_leaves_the_store(self, key: str) -> None:
        uses = (self.store.read, self.store.exists, self.store.delete)
        self.store.create("object", b"x")
        writes = (
            lambda key: self.store.create(key, b"x"),
            lambda key: self.store.copy(key, "copy"),
            lambda key: self.store.copy("object", key),
        )
        for use in (*uses, *writes):
            with pytest.raises(UnreadableObject, match="leaves the store"):
                use(key)


class RealStoreContract(ServiceNotesContract, ObjectStoreContract):
    """The contract of a store that Spark's workers use, too."""

    def test_it_travels_to_a_worker(self) -> None:
        self.store.create("f/object", b"x")
        there = pickle.loads(pickle.dumps(self.store))  # noqa: S301
        assert there == self.store
        assert there.read("f/object").tobytes() == b"x"
