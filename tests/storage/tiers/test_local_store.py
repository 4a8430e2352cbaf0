"""`LocalStore` keeps the contract of every object store, also under faults."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.object_store_contract import MIB, RealStoreContract
from tests.storage.power_cuts import Disk, watched
from tests.storage.special_files import SPECIAL_FILES
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers import file_ranges
from tierfold.storage.tiers.file_ranges import LOADED_GAP_BYTES
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.object_store import STAGED_SUFFIX, Spans

REPOSITORY = Path(__file__).parents[3]
MADV_REMOVE = 9
C = ctypes.CDLL(None, use_errno=True)
UNKNOWN_ADVICE = 9999


class Recording:
    """The C library, whose `madvise` also records the address and the size of what it loads."""

    def __init__(self, loaded: list[tuple[int, int]]) -> None:
        self.loaded = loaded

    def madvise(self, address: ctypes.c_void_p, size: ctypes.c_size_t, advice: int) -> int:
        self.loaded.append((address.value or 0, size.value))
        return int(C.madvise(address, size, advice))


class TestLocalStore(RealStoreContract):
    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path) -> None:
        self.store = LocalStore(tmp_path)

    def test_a_mapped_object_outlives_its_name(self, tmp_path: Path) -> None:
        self.store.create("object", b"\7" * (2 * MIB))
        data = self.store.read("object")
        (tmp_path / "object").unlink()
        assert int(data.min()) == int(data.max()) == 7

    def test_a_large_range_is_mapped_wherever_it_begins(self) -> None:
        content = np.random.default_rng(3).integers(0, 256, 3 * MIB, np.uint8)
        self.store.create("object", content.tobytes())
        for start in (0, 1, 4095, 4096, MIB + 7):
            for length in (MIB, MIB + 1, 9 * MIB):
                data = self.store.read_range("object", start, length)
                assert np.array_equal(data, content[start : start + length])
                data[:] = 0  # It is a copy on write: the file keeps its bytes.
        assert np.array_equal(self.store.read("object"), content)

    @given(
        start=st.integers(0, 2 * MIB),
        length=st.integers(MIB, 4 * MIB),
        cuts=st.lists(st.integers(0, 4 * MIB), max_size=12),
    )
    def test_only_the_used_bytes_of_a_mapped_range_are_loaded(
        self, start: int, length: int, cuts: list[int]
    ) -> None:
        content = np.random.default_rng(5).integers(0, 256, 3 * MIB, np.uint8)
        if not self.store.exists("object"):
            self.store.create("object", content.tobytes())
        edges = np.array(sorted(cuts)[: len(cuts) // 2 * 2], np.int64)
        used = Spans(edges[::2], edges[1::2])
        loaded: list[tuple[int, int]] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file_ranges, "_C", Recording(loaded))
            data = self.store.range_mapper("object")(start, length, used)
        expected = content[start : start + length]
        assert len(data) == len(expected)
        for first, end in zip(*used, strict=True):
            assert np.array_equal(data[first:end], expected[first:end])
        spans = [
            (int(first), min(int(end), len(data)))
            for first, end in zip(*used, strict=True)
            if first < min(end, len(data))
        ]
        origin = data.ctypes.data
        runs = [(address - origin, address - origin + size) for address, size in loaded]
        for low, high in runs:
            inside = [(first, end) for first, end in spans if low <= first and end <= high]
            assert low <= inside[0][0] < low + mmap.PAGESIZE
            assert inside[-1][1] == high
            gaps = [after[0] - before[1] for before, after in pairwise(inside)]
            assert max(gaps, default=0) <= LOADED_GAP_BYTES
            spans = spans[len(inside) :]
        assert not spans
        assert all(after[0] - before[1] > 0 for before, after in pairwise(runs))

    def test_pages_that_the_kernel_cannot_load_are_an_error(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.store.create("object", b"\7" * (2 * MIB))
        # The kernel refuses to remove pages of a private mapping, with EACCES.
        monkeypatch.setattr(file_ranges, "_MADV_POPULATE_READ", MADV_REMOVE)
        with pytest.raises(UnreadableObject, match="no permission"):
            self.store.read("object")
        with pytest.raises(UnreadableObject, match="no permission"):
            self.store.read_range("object", 5, MIB)
        mapped = self.store.range_mapper("object")
        with pytest.raises(UnreadableObject, match="no permission"):
            mapped(5, MIB, Spans(np.array([9]), np.array([10])))

    def test_a_kernel_that_loads_no_pages_in_advance_copies_them(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = np.random.default_rng(4).integers(0, 256, 2 * MIB, np.uint8)
        self.store.create("object", content.tobytes())
        monkeypatch.setattr(file_ranges, "_MADV_POPULATE_READ", UNKNOWN_ADVICE)
        assert np.array_equal(self.store.read("object"), content)
        mapped = self.store.range_mapper("object")(5, MIB, Spans(np.array([9]), np.array([10])))
        for data in (self.store.read_range("object", 5, MIB), mapped):
            assert np.array_equal(data, content[5 : 5 + MIB])

    def test_the_disk_begins_to_write_large_pieces_at_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun = []

        def refused(_: int, start: int, length: int, advice: int) -> None:
            begun.append((start, length, advice))
            raise OSError(errno.ENOSYS, "no advice is taken here")

        monkeypatch.setattr(os, "posix_fadvise", refused)
        pieces = (b"a" * MIB, b"b" * (MIB - 1), b"c" * (MIB + 1))
        with self.store.open_new("object") as writer:
            for piece in pieces:
                writer.write(piece)
        dropped = os.POSIX_FADV_DONTNEED
        assert begun == [(0, MIB, dropped), (2 * MIB - 1, MIB + 1, dropped)]
        monkeypatch.delattr(os, "posix_fadvise")  # As on macOS.
        self.store.create("another", b"".join(pieces))
        for key in ("object", "another"):
            assert self.store.read(key).tobytes() == b"".join(pieces)

    def test_the_file_of_a_dead_writer_is_no_object(self, tmp_path: Path) -> None:
        (tmp_path / "f").mkdir()
        (tmp_path / "f" / f".object.0123{STAGED_SUFFIX}").write_bytes(b"half")
        assert self.keys("f") == []

    def test_a_written_object_survives_a_power_cut(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = tmp_path / "root"
        root.mkdir()
        disk = Disk(root)
        watched(monkeypatch, disk)
        LocalStore(root).create("a/b/object", b"whole")
        left = LocalStore(disk.left(tmp_path / "left"))
        assert left.read("a/b/object").tobytes() == b"whole"
        assert not list(left.unfinished("a/b"))

    def test_an_object_survives_a_power_cut_in_a_folder_that_another_made(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A writer that was killed after `mkdir` has not made the folder durable."""
        root = tmp_path / "root"
        (root / "a" / "b").mkdir(parents=True)
        disk = Disk(root)
        watched(monkeypatch, disk)
        LocalStore(root).create("a/b/object", b"whole")
        left = LocalStore(disk.left(tmp_path / "left"))
        assert left.read("a/b/object").tobytes() == b"whole"

    def test_no_power_cut_leaves_a_partial_object(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = tmp_path / "root"
        (root / "f").mkdir(parents=True)
        disk = Disk(root)
        disk.names[root] = {"f": ((root / "f").stat().st_ino, 0)}
        sizes: set[int] = set()

        def look() -> None:
            for image in disk.may_be_left(tmp_path / f"images-{len(list(tmp_path.iterdir()))}"):
                sizes.update(entry.size_bytes for entry in LocalStore(image).list("f"))

        watched(monkeypatch, disk, look)
        LocalStore(root).create("f/object", b"whole")
        look()
        assert sizes == {len(b"whole")}

    def test_a_folder_is_no_object(self, tmp_path: Path) -> None:
        (tmp_path / "f").mkdir()
        with pytest.raises(UnreadableObject, match="cannot read this"):
            self.store.read("f")

    def test_a_link_that_leads_nowhere_is_not_listed(self, tmp_path: Path) -> None:
        (tmp_path / "dangling").symlink_to(tmp_path / "gone")
        assert self.keys("") == []

    @pytest.mark.parametrize("target", ["far", "root/within"])
    def test_nothing_is_deleted_through_a_link(self, tmp_path: Path, target: str) -> None:
        root, far = tmp_path / "root", tmp_path / target
        for folder in (root / "near", far):
            folder.mkdir(parents=True)
        (far / "object").write_bytes(b"not the tier's")
        (root / "f").symlink_to(far)
        (root / "near" / "object").symlink_to(far / "object")
        store = LocalStore(root)
        assert store.exists("f/object")
        for key in ("f/object", "f/not there"):
            with pytest.raises(UnreadableObject, match="this is a symbolic link"):
                store.delete(key)
        store.delete("near/object")
        assert not store.exists("near/object")
        assert (far / "object").read_bytes() == b"not the tier's"

    def test_an_operators_link_is_followed_to_read_and_write(self, tmp_path: Path) -> None:
        (tmp_path / "b").mkdir()
        (tmp_path / "a").symlink_to(tmp_path / "b")
        self.store.create("a/object", b"x")
        assert self.store.read("a/object").tobytes() == b"x"
        assert self.keys("b") == ["b/object"]

    @pytest.mark.parametrize("link", ["root", "root/a", "root/a/object"])
    def test_a_store_that_follows_no_link_refuses_each_on_the_way(
        self, tmp_path: Path, link: str
    ) -> None:
        (tmp_path / "root" / "a").mkdir(parents=True)
        (tmp_path / "root" / "a" / "object").write_bytes(b"x")
        (tmp_path / link).rename(tmp_path / "far")
        (tmp_path / link).symlink_to(tmp_path / "far")
        store = LocalStore(tmp_path / "root", follows_links=False)
        for look in (
            lambda: store.read("a/object"),
            lambda: store.read_range("a/object", 0, 1),
            lambda: store.exists("a/object"),
            lambda: store.create("a/object", b"y"),
        ):
            with pytest.raises(UnreadableObject, match="this is a symbolic link"):
                look()
        if link != "root/a/object":
            with pytest.raises(UnreadableObject, match="this is a symbolic link"):
                self.keys_of(store, "a")
        files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
        assert len(files) == 1

    @staticmethod
    def keys_of(store: LocalStore, folder: str) -> list[str]:
        return [entry.key for entry in store.list(folder)]

    @pytest.mark.parametrize("kind", ["FIFO", "socket", "device"])
    @pytest.mark.parametrize("follows_links", [True, False])
    def test_only_regular_files_are_opened(
        self, tmp_path: Path, kind: str, follows_links: bool
    ) -> None:
        SPECIAL_FILES[kind](tmp_path / "object")
        store = LocalStore(tmp_path, follows_links=follows_links)
        for read in (store.read, lambda key: store.read_range(key, 0, 1)):
            with pytest.raises(UnreadableObject, match="this is no regular file"):
                read("object")
        assert self.keys_of(store, "") == []

    def test_deleting_from_a_missing_store_is_an_error(self, tmp_path: Path) -> None:
        for key in ("f/object", "object"):
            with pytest.raises(UnreadableObject, match="it is not there"):
                LocalStore(tmp_path / "not-mounted").delete(key)

    def test_a_missing_root_is_not_an_empty_store(self, tmp_path: Path) -> None:
        store = LocalStore(tmp_path / "not-mounted")
        for look in (store.list, store.list_folders):
            for folder in ("", "f"):
                with pytest.raises(UnreadableObject, match="cannot list this: it is not there"):
                    look(folder)

    def test_it_never_makes_its_own_root(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableObject, match="cannot create this: it is not there"):
            LocalStore(tmp_path / "not-mounted").create("f/object", b"x")
        assert list(tmp_path.iterdir()) == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


# In a child process, because a process cannot undo its limits and its user. Root has all
# permissions, so a child of root becomes another user first.
CHILD = """
import os, resource, sys
from pathlib import Path
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.local_store import LocalStore

store = LocalStore(Path(sys.argv[1]))
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    {action}
except UnreadableObject as error:
    sys.stdout.write(str(error))
"""


def error_of(folder: Path, action: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", CHILD.format(action=action), str(folder)],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.parametrize(
    ("action", "doing"),
    [
        ("store.read('closed/object')", "read"),
        ("store.read_range('closed/object', 0, 1)", "read"),
        ("store.exists('closed/object')", "look for"),
        ("store.list('closed')", "list"),
        ("store.create('closed/new', b'x')", "create"),
    ],
)
def test_a_forbidden_folder_is_reported(open_folder: Path, action: str, doing: str) -> None:
    LocalStore(open_folder).create("closed/object", b"x")
    (open_folder / "closed").chmod(0)
    message = error_of(open_folder, action)
    (open_folder / "closed").chmod(0o755)
    assert f"cannot {doing} this: no permission" in message
    assert "Let the user that runs tierfold read the tier" in message


def test_a_file_size_limit_is_reported_and_leaves_nothing(open_folder: Path) -> None:
    (open_folder / "f").mkdir()
    (open_folder / "f").chmod(0o777)
    action = (
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        " store.create('f/object', bytes(5000))"
    )
    message = error_of(open_folder, action)
    assert "f/object: cannot write this: the file would pass the file size limit" in message
    assert list((open_folder / "f").iterdir()) == []
