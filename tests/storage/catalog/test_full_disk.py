"""A full disk below the catalog is one sentence, and nothing of delta-rs's is printed."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.storage.catalog_contract import claims
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.catalog import folder_files
from tierfold.storage.catalog.catalog import Catalog

_C: Final = ctypes.CDLL(None, use_errno=True)
SIZE_BYTES: Final = 3 << 20

@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of three megabytes, which only root can mount; for others free space is set."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = _C.mount(b"tmpfs", bytes(place), b"tmpfs", 0, f"size={SIZE_BYTES}".encode())
    if mounted != 0:
        monkeypatch.setattr(folder_files, "COMMIT_BYTES", 2**60)
    yield place
    if mounted == 0:
        _C.umount2(bytes(place), 2)


def filled(disk: Path, free_bytes: int) -> None:
    """Leave so many bytes free, if it is a file system of its own."""
    there = os.statvfs(disk)
    if (size_bytes := there.f_bavail * there.f_frsize) <= SIZE_BYTES:
        (disk / "full").write_bytes(bytes(size_bytes - free_bytes))


@pytest.mark.parametrize("free_bytes", [0, 16 << 10, 64 << 10, 192 << 10])
def test_a_full_disk_is_one_sentence(
    disk: Path, free_bytes: int, capfd: pytest.CaptureFixture[str]
) -> None:
    filled(disk, free_bytes)
    with pytest.raises(UnreadableObject, match="No space left on device") as error:
        claims(Catalog(str(disk / "catalog")), 1)
    assert "the free space" in error.value.remedy
    # A thread of delta-rs would have panicked.
    assert capfd.readouterr().err == ""
    assert Catalog(str(disk / "catalog")).read() == {}


def test_a_disk_that_fills_up_meanwhile_is_one_sentence_too(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_files, "COMMIT_BYTES", -SIZE_BYTES)
    catalog = Catalog(str(disk / "catalog"))
    (row,) = claims(catalog, 1)
    filled(disk, 4096)
    if (disk / "full").exists():
        with pytest.raises(UnreadableObject, match=r"written: No space left on device\."):
            claims(Catalog(str(disk / "another")), 1)
    assert [*catalog.read().values()] == [row]
