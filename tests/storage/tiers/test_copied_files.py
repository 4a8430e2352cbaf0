"""A copy of a file in a folder: by whatever the kernel offers, durable, whole or not there."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.storage.call_scripts import Killed
from tests.storage.object_store_contract import MIB
from tests.storage.power_cuts import Disk, watched
from tests.storage.special_files import SPECIAL_FILES
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.object_store import STAGED_SUFFIX

DATA: Final = np.arange(3 * MIB + 5, dtype=np.uint32).astype(np.uint8).tobytes()
KERNEL: Final = os.copy_file_range

CopyRange = Callable[[int, int, int], int]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    made = LocalStore(tmp_path)
    made.create("f/source", DATA)
    return made


def files(store: LocalStore) -> list[str]:
    return sorted(path.name for path in store.root.rglob("*") if path.is_file())


def raising(number: int, after_bytes: int = 0) -> CopyRange:
    """A kernel that copies so many bytes, then fails."""
    left = [after_bytes]

    def copy_range(source: int, target: int, size_bytes: int) -> int:
        if not left[0]:
            raise OSError(number, os.strerror(number))
        copied = KERNEL(source, target, min(left[0], size_bytes))
        left[0] -= copied
        return copied

    return copy_range


@pytest.mark.parametrize("after_bytes", [0, 7, 2 * MIB])
@pytest.mark.parametrize(
    "number", [errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM]
)
def test_what_the_kernel_does_not_copy_is_read_and_written(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int, after_bytes: int
) -> None:
    monkeypatch.setattr(os, "copy_file_range", raising(number, after_bytes))
    assert store.copy("f/source", "f/copy") == len(DATA)
    assert store.read("f/copy").tobytes() == DATA


def test_a_kernel_without_the_call_copies_too(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "copy_file_range")
    store.copy("f/source", "f/copy")
    assert store.read("f/copy").tobytes() == DATA


def test_a_kernel_that_copies_a_little_at_a_time_is_asked_again(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def little(source: int, target: int, size_bytes: int) -> int:
        return KERNEL(source, target, min(size_bytes, 100_003))

    monkeypatch.setattr(os, "copy_file_range", little)
    monkeypatch.setattr(os, "read", lambda *_: b"")
    store.copy("f/source", "f/copy")
    assert (store.root / "f/copy").read_bytes() == DATA


@pytest.mark.parametrize("after_bytes", [0, MIB])
@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "no space left on the device"),
        (errno.EDQUOT, "no space left on the device"),
        (errno.EIO, "the device reports an input/output error"),
    ],
)
def test_an_error_names_both_files_and_leaves_nothing(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int, says: str, after_bytes: int
) -> None:
    monkeypatch.setattr(os, "copy_file_range", raising(number, after_bytes))
    source = store.uri("f/source")
    with pytest.raises(UnreadableObject, match=f"cannot copy {source} to this: {says}") as caught:
        store.copy("f/source", "f/copy")
    assert caught.value.where == store.uri("f/copy")
    assert files(store) == ["source"]


@pytest.mark.parametrize("has_kernel", [True, False])
def test_a_source_that_shrinks_meanwhile_gives_no_copy(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, has_kernel: bool
) -> None:
    def shrunk(source: int, target: int, size_bytes: int) -> int:
        os.truncate(store.root / "f/source", MIB)
        if not has_kernel:
            raise OSError(errno.ENOSYS, "no such call")
        return KERNEL(source, target, size_bytes)

    monkeypatch.setattr(os, "copy_file_range", shrunk)
    with pytest.raises(UnreadableObject, match=f"{len(DATA)} bytes, and has {MIB}"):
        store.copy("f/source", "f/copy")
    assert files(store) == ["source"]


def test_a_source_that_grows_meanwhile_is_copied_as_it_was_found(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grown(source: int, target: int, size_bytes: int) -> int:
        with (store.root / "f/source").open("ab") as file:
            file.write(b"more")
        return KERNEL(source, target, size_bytes)

    monkeypatch.setattr(os, "copy_file_range", grown)
    assert store.copy("f/source", "f/copy") == len(DATA)
    assert store.read("f/copy").tobytes() == DATA


def test_a_copy_shares_no_file_with_its_source(store: LocalStore) -> None:
    """A hard link would show the source's time, and change with it."""
    store.copy("f/source", "f/copy")
    assert (store.root / "f/copy").stat().st_nlink == 1
    (store.root / "f/source").write_bytes(b"rewritten in place")
    assert store.read("f/copy").tobytes() == DATA


@pytest.mark.parametrize("kind", SPECIAL_FILES)
def test_only_a_regular_file_is_copied(store: LocalStore, kind: str) -> None:
    SPECIAL_FILES[kind](store.root / "f/special")
    with pytest.raises(UnreadableObject):
        store.copy("f/special", "f/copy")
    assert not store.exists("f/copy")


@pytest.mark.parametrize("link", ["source", "copy"])
def test_a_store_that_follows_no_link_copies_through_none(tmp_path: Path, link: str) -> None:
    root, far = tmp_path / "root", tmp_path / "far"
    for folder in (root, far):
        folder.mkdir()
    (root / link).symlink_to(far)
    (root / "object").write_bytes(b"x")
    (far / "object").write_bytes(b"not the tier's")
    store = LocalStore(root, follows_links=False)
    source, target = ("source/object", "new") if link == "source" else ("object", "copy/new")
    with pytest.raises(UnreadableObject, match="this is a symbolic link"):
        store.copy(source, target)
    assert sorted(path.name for path in far.iterdir()) == ["object"]
    assert not (root / "new").exists()


def test_a_copy_survives_a_power_cut_and_none_leaves_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "f").mkdir(parents=True)
    (root / "f" / "source").write_bytes(b"whole")
    disk = Disk(root)
    disk.names[root] = {"f": ((root / "f").stat().st_ino, 0)}
    found: set[bytes] = set()

    def look() -> None:
        for image in disk.may_be_left(tmp_path / f"images-{len(list(tmp_path.iterdir()))}"):
            copy = image / "f" / "copy"
            found.update({copy.read_bytes()} if copy.exists() else set())

    watched(monkeypatch, disk, look)
    LocalStore(root).copy("f/source", "f/copy")
    look()
    assert found == {b"whole"}
    left = LocalStore(disk.left(tmp_path / "left"))
    assert left.read("f/copy").tobytes() == b"whole"


@pytest.mark.parametrize("call", ["open", "copy_file_range", "fsync", "link", "unlink"])
def test_a_copier_that_dies_leaves_a_whole_copy_or_none(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real = getattr(os, call)

    def dying(*arguments: object, **named: object) -> object:
        if call == "open" and STAGED_SUFFIX not in str(arguments[0]):
            return real(*arguments, **named)
        raise Killed

    monkeypatch.setattr(os, call, dying)
    monkeypatch.setattr(Path, "unlink", dying)  # A process that died cleans up nothing.
    with pytest.raises(Killed):
        store.copy("f/source", "f/copy")
    monkeypatch.undo()
    keys = [entry.key for entry in store.list("f")]
    is_there = call == "unlink"
    assert keys == (["f/copy", "f/source"] if is_there else ["f/source"])
    assert not is_there or store.read("f/copy").tobytes() == DATA
    for entry in list(store.unfinished("f")):
        store.delete(entry.key)
    store.copy("f/source", "f/another")
